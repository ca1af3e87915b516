"""The bench runs, says what it measured, and refuses what it does not know."""

import json
import subprocess
import sys

import numpy as np
import pytest

import hypertf
import tfds_tasks
from experiments.bench import bench
from experiments.benchmarks import (
    answering,
    decode_suite,
    method_suite,
    packing_suite,
    peers,
    serving_suite,
    t5_suite,
    timing,
)
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("shallow")


@pytest.mark.slow
def test_t5_suite_writes_table_and_json(tmp_path, monkeypatch, capsys):
    # KerasHub compiled by XLA is in the test of decoding, where it takes less long.
    systems = {n: s for n, s in t5_suite.SYSTEMS.items() if not n.endswith("xla")}
    monkeypatch.setattr(t5_suite, "SYSTEMS", systems)
    output = tmp_path / "made" / "bench.json"
    operations = ("training step", "decode batch 1")
    results = bench("t5", size="t5-nano", rounds=1, only=operations, output=output)
    assert json.loads(output.read_text()) == results
    assert results["matmul_peak_gflops"] > 0
    printed = capsys.readouterr().out
    for operation in operations:
        rows = results["operations"][operation]
        assert {"hypertf", "kerashub"} <= set(rows)
        assert rows["hypertf"]["ratio"] == 1.0
        assert operation in printed


@pytest.mark.slow
def test_decode_suite_measures_what_is_here(monkeypatch, capsys):
    """Where CTranslate2 is not, figures are beside `generate`, and that is said."""
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.setattr(decode_suite, "OPERATIONS", {"batch 1": (2, 3)})
    results = decode_suite.run(timing.Options(size="t5-nano", rounds=1))
    rows = results["operations"]["batch 1"]
    ours = {"generate", "savedmodel", "savedmodel xla", "savedmodel int8"}
    assert ours | {"kerashub xla"} <= set(rows)
    assert rows["generate"]["ratio"] == 1.0
    assert {row["limit"] for row in rows.values()} == {None}
    for row in rows.values():
        assert row["rows_per_second"] == pytest.approx(2e3 / row["median_ms"])
    printed = capsys.readouterr().out
    assert "left out: ctranslate2 float32" in printed
    assert all(name in printed for name in rows)


@pytest.mark.slow
def test_packing_suite_compares_examples(data_dir, monkeypatch, capsys):
    monkeypatch.setattr(packing_suite, "SHAPES", {64: (2, 16, 16)})
    monkeypatch.setattr(packing_suite, "WANTED", {64: 1.5})
    monkeypatch.setattr(packing_suite, "DRAWN", 64)
    monkeypatch.setattr(packing_suite, "POOL", 64)
    monkeypatch.setattr(answering, "EXAMPLES", 64)
    monkeypatch.setattr(answering, "BATCH", 8)
    get = tfds_tasks.get_mixture
    # Every iterator begins by reading its tasks: not all of nano's.
    few = {"nano": "nano/sentiment,nano/inference"}
    monkeypatch.setattr(tfds_tasks, "get_mixture", lambda n: get(few.get(n, n)))
    (system,) = only = ("hyperprompt-global",)
    options = timing.Options("t5-nano", 2, only, data_dir=data_dir)
    results = packing_suite.run(options)
    rows = results["operations"][f"{system}, 64 tokens a row"]
    assert set(rows) == {"padded", "task", "mixed"}
    assert rows["padded"]["examples"] == 2 and rows["padded"]["ratio"] == 1.0
    for mode in ("task", "mixed"):
        row = rows[mode]
        rate = row["examples"] / row["median_ms"] * 1e3
        assert row["examples"] > 2 and row["examples_per_second"] == pytest.approx(rate)
        assert 0.5 < results["fill"]["64"][mode]["inputs"] <= 1
        assert results["input"][mode] > 0
    answered = results["operations"]["evaluation"]
    assert answered["padded"]["ratio"] == 1.0 and answered["by length"]["ratio"] > 0
    printed = capsys.readouterr().out
    assert "measuring nano instead" in printed and "of the inputs'" in printed
    assert "evaluation by length" in printed


@pytest.mark.slow
def test_serving_suite_checks_every_answer(monkeypatch, capsys):
    monkeypatch.setattr(serving_suite, "REQUESTS", 64)
    monkeypatch.setattr(serving_suite, "CASES", {"batched": ()})
    results = serving_suite.run(timing.Options(rounds=1))
    (row,) = results["operations"].values()
    assert 0 < row["p50_ms"] <= row["p99_ms"] and row["requests_per_second"] > 0
    assert "every answer right" in capsys.readouterr().out


def test_a_wrong_answer_ends_the_measurement(monkeypatch):
    class Wrong:
        def __init__(self, **_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def predict(self, texts, tasks):
            return [{"output_text": texts[0]}]

    monkeypatch.setattr(serving_suite, "Client", Wrong)
    assert serving_suite.ask("url", [("a", "task", "a")], 40)["p50_ms"] >= 0
    with pytest.raises(RuntimeError, match="of 40 answers 0 were lost and 40 wrong"):
        serving_suite.ask("url", [("a", "task", "b")], 40)


def test_the_program_refuses_an_unknown_method(tmp_path):
    command = [sys.executable, "-m", "experiments.bench", "--suite=methods"]
    result = subprocess.run(
        [*command, "--size=t5-nano", "--rounds=1", "--only=hypergird"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    expected = "experiments.bench: only=['hypergird'], expected some of"
    assert result.stderr.startswith(expected)
    assert len(result.stderr.splitlines()) == 1


def test_an_unknown_suite_is_refused():
    with pytest.raises(ValueError, match="suite='t6', expected one of t5, input"):
        bench("t6")


@pytest.mark.parametrize("suite", [t5_suite, method_suite, decode_suite, packing_suite])
def test_unknown_operations_are_refused(suite):
    with pytest.raises(ValueError, match="forwards"):
        suite.run(timing.Options(only=("forwards",)))


@pytest.mark.slow
def test_methods_suite_measures_a_method_as_tasks_grow(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(method_suite, "TASKS", (2, 3))
    name = "hyperprompt-global"
    results = method_suite.run(timing.Options(size="t5-nano", rounds=1, only=(name,)))
    row = results["operations"]["training step"][name]
    assert row["ratio"] > 0 and row["limit"] == 1.05
    assert set(results["as tasks grow"][name]) == {2, 3, "grown"}
    assert (tmp_path / "out/bench_methods.png").stat().st_size > 1000
    assert name in capsys.readouterr().out


def test_growth_is_judged(capsys):
    ratios = {8: 1.0, 64: 1.3, 512: 1.1}
    growth = {
        "flat": {**ratios, "grown": (1.09, 0.02)},
        "steep": {**ratios, "grown": (1.11, None)},
    }
    method_suite.report_growth(growth)
    flat, steep = capsys.readouterr().out.splitlines()[-2:]
    assert flat.split()[-4:] == ["1.090", "±", "0.020", "ok"]
    assert steep.split()[-2:] == ["1.110", "MISSED"]


def test_ratios_are_taken_within_rounds():
    seconds = {"us": [1.0, 10.0, 2.0], "peer": [2.0, 20.0, 4.0]}
    rows = timing.summary(seconds, reference="us")
    assert rows["peer"]["ratio"] == 2.0 and rows["us"]["ratio"] == 1.0
    assert rows["peer"]["error"] == 0.0
    assert rows["peer"]["min_ms"] == 2000.0 and rows["peer"]["median_ms"] == 4000.0


def test_the_error_is_that_of_a_median():
    """Of many sets of rounds, drawn at random."""
    draw = np.random.default_rng(0).normal
    drawn = [timing.ratio_of(draw(1.0, 0.05, 25), np.ones(25)) for _ in range(2000)]
    medians, errors = np.transpose(drawn)
    assert np.mean(errors) == pytest.approx(np.std(medians), rel=0.1)
    assert timing.ratio_of([3.0], [2.0]) == (1.5, None)


def test_forward_flops_of_a_known_size():
    """Two per weight and token, and the attention products."""
    config = hypertf.T5Config.from_name("t5-small")
    workload = peers.Workload(config, batch=1, input_length=1, target_length=1)
    norms_and_bias = 512 * (6 * 2 + 6 * 3 + 2) + 2 * 8 * 32
    weights = 60_506_624 - norms_and_bias
    attention = 2 * (6 * 2 * 512 + 6 * 2 * 512 * 2)
    assert t5_suite.forward_flops(workload) == 2 * weights + attention
