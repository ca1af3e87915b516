"""The comparison of methods: resumed, measured by the T5 with the task named."""

import json

import pytest

from experiments import compare as module
from experiments.compare import compare
from experiments.comparison import runs, table
from experiments.comparison.systems import COMBINED, NAMED, PLAIN, systems
from hypertf import conditioning
from hypertf.t5 import T5Config

MIXTURE = "nano/sentiment,nano/acceptability"


def line(name, scores, added=10):
    return table.Line(name, scores, {"a": 1.0}, 100, added, 5.0, ["abc"])


@pytest.mark.slow
def test_it_goes_on_where_it_was_stopped(shallow, tmp_path, data_dir, monkeypatch):
    known = {n: c.replace(mixture=MIXTURE) for n, c in systems(2).items()}
    monkeypatch.setattr(module, "systems", lambda steps: known)
    begun, complete = [], module.complete

    def stopped(config, folder, data_dir):
        begun.append(folder)
        if len(begun) == 2:
            raise KeyboardInterrupt
        complete(config, folder, data_dir)

    monkeypatch.setattr(module, "complete", stopped)
    options = {"only": ["lora"], "steps": 2, "seeds": 1, "data_dir": data_dir}
    options["runs"] = tmp_path / "runs"
    with pytest.raises(KeyboardInterrupt):
        compare(tmp_path / "out", **options)
    assert "runs: 1 of 2" in (tmp_path / "out" / "README.md").read_text()
    lines = compare(tmp_path / "out", **options)
    assert len(begun) == 3 and begun[1] == begun[2]  # the first is not made again
    assert [each.name for each in lines] == [NAMED, "lora"]
    assert lines[0].added == 0 < lines[1].added
    text = (tmp_path / "out" / "README.md").read_text()
    assert "runs: 2 of 2" in text and f"commit: {lines[0].commits[0]}" in text
    kept = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert kept[1]["scores"] == lines[1].scores
    assert (tmp_path / "out" / "scores.png").stat().st_size > 1000


def test_all_methods_are_there_and_all_of_them_trains():
    known = systems()
    assert list(known)[:2] == [PLAIN, NAMED]
    assert set(known) == {PLAIN, NAMED, *conditioning.names(), *COMBINED} - {"none"}
    for config in known.values():
        conditioning.create(
            config.conditioner,
            T5Config.from_name(config.model),
            11,
            **config.conditioner_options,
        )
    assert {config.steps for config in known.values()} == {known[PLAIN].steps}
    named = known[NAMED].replace(prefix=None, inputs_length=28)
    assert named == known[PLAIN]


def test_a_method_below_the_named_task_is_said_to_be_worse():
    named = line(NAMED, [80.0, 81.0, 82.0], 0)
    assert table.verdict(line("a", [70.0, 71.0, 72.0]), named) == "WORSE"
    assert table.verdict(line("a", [90.0, 91.0, 92.0]), named) == "better"
    near = table.verdict(line("a", [80.0, 80.5, 82.0]), named)
    assert near == "WORSE, but within the deviation"
    assert table.verdict(line("a", [70.0]), named) == "WORSE, of one run"
    assert table.verdict(named, named) == ""
    text = table.text([named, line("a", [70.0, 71.0, 72.0])], {"steps": 5})
    assert "| a | 71.00 | 1.00 | 3 | -10.00 | WORSE |" in text
    assert table.picture([named, line("a", [70.0])])[:4] == b"\x89PNG"


def test_bad_input_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(ValueError, match="unknown system 'lra'; did you mean 'lora'"):
        compare(tmp_path, only=["lra"])
    with pytest.raises(ValueError, match="steps=1, expected at least 2"):
        compare(tmp_path, steps=1)
    with pytest.raises(ValueError, match="seeds=0, expected at least 1"):
        compare(tmp_path, seeds=0)
    assert runs.commit_now().keys() == {"commit", "changed"}
