"""The bench runs, says what it measured, and refuses what it does not know."""

import json
import subprocess
import sys

import pytest

import hypertf
from experiments.bench import t5, timing
from tests.conftest import ROOT


def bench(*flags):
    command = [sys.executable, "-m", "experiments.bench", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_t5_suite_writes_table_and_json(tmp_path):
    output = tmp_path / "bench.json"
    result = bench(
        "--suite=t5",
        "--size=t5-nano",
        "--rounds=1",
        "--only=training step,decode batch 1",
        f"--output={output}",
    )
    assert result.returncode == 0, result.stderr
    written = json.loads(output.read_text())
    assert written["matmul_peak_gflops"] > 0
    for operation in ("training step", "decode batch 1"):
        rows = written["operations"][operation]
        assert {"hypertf", "kerashub", "kerashub xla"} <= set(rows)
        assert rows["hypertf"]["ratio"] == 1.0
        assert operation in result.stdout


@pytest.mark.parametrize("flag", ["--suite=t6", "--only=forwards", "--rounds=0"])
def test_unknown_flags_are_refused(flag):
    result = bench("--size=t5-nano", flag)
    assert result.returncode != 0
    assert flag.split("=")[1] in result.stderr + result.stdout


def test_ratios_are_taken_within_rounds():
    seconds = {"us": [1.0, 10.0, 2.0], "peer": [2.0, 20.0, 4.0]}
    rows = timing.summary(seconds, reference="us")
    assert rows["peer"]["ratio"] == 2.0 and rows["us"]["ratio"] == 1.0
    assert rows["peer"]["min_ms"] == 2000.0 and rows["peer"]["median_ms"] == 4000.0


def test_forward_flops_of_a_known_size():
    """Two per weight and token, and the attention products."""
    config = hypertf.T5Config.from_name("t5-small")
    workload = t5.Workload(config, batch=1, input_length=1, target_length=1)
    norms_and_bias = 512 * (6 * 2 + 6 * 3 + 2) + 2 * 8 * 32
    weights = 60_506_624 - norms_and_bias
    attention = 2 * (6 * 2 * 512 + 6 * 2 * 512 * 2)
    assert t5.forward_flops(workload) == 2 * weights + attention
