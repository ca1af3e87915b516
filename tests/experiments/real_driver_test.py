"""The driver of the real tasks: it chooses a rate, and goes on where it was killed."""

import json
import os
import pathlib
import time

import pytest

from experiments.configs import get_config
from experiments.results.real_small import driver

NANO = get_config("nano").replace(
    mixture="nano/sentiment,nano/acceptability",
    schedule="constant",
    decay_start=0,
    final_learning_rate=0.0,
    steps=4,
    batch_size=8,
    checkpoint_every=4,
    steps_per_loop=1,
)
SYSTEMS = {
    "packed": NANO.replace(packing="mixed", packing_pool=64, targets_length=24),
    "unpacked": NANO,
}


def test_the_systems_differ_in_method_and_packing_only():
    plain, method, unpacked = map(get_config, driver.SYSTEMS)
    assert (plain.packing, method.packing, unpacked.packing) == ("mixed", "task", "off")
    assert method.replace(conditioner="none", packing="mixed") == plain
    room = {"packing": "mixed", "targets_length": plain.targets_length}
    assert unpacked.replace(**room) == plain


def test_the_rate_of_the_lowest_loss_is_taken_then_its_schedule(tmp_path, monkeypatch):
    losses = {
        ("constant", 1e-3): 3.0,
        ("constant", 3e-3): 1.0,
        ("constant", 1e-2): 2.0,
        ("linear", 3e-3): 0.5,
    }
    measured = []

    def measure(self, rate, schedule):
        measured.append((schedule, rate))
        return losses[schedule, rate]

    monkeypatch.setattr(driver._Losses, "_measure", measure)
    options = NANO, str(tmp_path), None, 2
    best = {"learning_rate": 3e-3, "schedule": "linear"}
    assert driver.choose_rate(*options) == best
    assert driver.choose_rate(*options) == best  # from search.json
    assert measured == list(losses)
    kept = json.loads((tmp_path / "search.json").read_text())
    assert kept["linear 0.003"] == 0.5


@pytest.mark.slow
def test_it_goes_on_where_it_was_stopped(shallow, tmp_path, data_dir, monkeypatch):
    monkeypatch.setattr(driver, "RATES", (1e-3, 1e-2))
    begun, complete = [], driver.complete

    def stopped(config, folder, data_dir):
        begun.append(os.path.basename(folder))
        if len(begun) == 2:
            raise KeyboardInterrupt
        complete(config, folder, data_dir)

    monkeypatch.setattr(driver, "complete", stopped)
    options = {"systems": SYSTEMS, "data_dir": data_dir, "short": 2}
    options["output"] = str(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        driver.run_all(str(tmp_path / "runs"), **options)
    report = driver.run_all(str(tmp_path / "runs"), **options)
    assert begun == ["packed", "unpacked", "unpacked"]
    text = pathlib.Path(report).read_text()
    assert "packed" in text and "unpacked" in text
    searched = json.loads((tmp_path / "runs" / "search.json").read_text())
    assert len(searched) == 3  # two rates, then the other schedule for the best
    assert not list((tmp_path / "runs" / "search").iterdir())


def test_a_background_run_outlives_its_parent(tmp_path, monkeypatch):
    """It has a session of its own, so that a closed terminal does not end it."""
    script = tmp_path / "experiments" / "results" / "real_small" / "driver.py"
    script.parent.mkdir(parents=True)
    script.write_text(
        "import json, os, sys\n"
        "print(json.dumps([os.getpid(), os.getsid(0), sys.argv[1:]]))\n"
    )
    monkeypatch.chdir(tmp_path)
    log = pathlib.Path(
        driver.start_in_background(str(tmp_path / "runs"), ["--seeds=3"])
    )
    began = time.time()
    while not log.read_text().endswith("\n"):
        assert time.time() - began < 60
        time.sleep(0.1)
    pid, session, arguments = json.loads(log.read_text())
    assert pid == session != os.getsid(0) and arguments == ["--seeds=3"]
