"""What benchmarks say of the machine, and the switch that programs set for it."""

import os
import subprocess
import sys

import pytest

from experiments.benchmarks import machine
from tests.conftest import ROOT

ASKS = """
import sys
import experiments
from experiments.benchmarks.machine import is_onednn_on
print(is_onednn_on())
"""


@pytest.mark.parametrize(("asked", "is_on"), [(None, "True"), ("0", "False")])
def test_programs_switch_onednn_on_unless_told_otherwise(asked, is_on):
    environment = {k: v for k, v in os.environ.items() if "ONEDNN" not in k}
    if asked is not None:
        environment["TF_ENABLE_ONEDNN_OPTS"] = asked
    said = subprocess.run(
        [sys.executable, "-c", ASKS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == [is_on]


def test_who_else_keeps_the_cores_busy():
    program = "while True: pass"
    before = machine.busy_cores(0.2)
    other = subprocess.Popen([sys.executable, "-c", program])
    try:
        during = machine.busy_cores(1.0)
    finally:
        other.kill()
        other.wait()
    if before is None:
        pytest.skip("this system has no /proc/stat")
    assert during >= min(before, 0.3)  # it gets its share at least
    assert "WARNING" in machine.in_words({**machine.describe(), "busy_cores": 1.0})


def test_the_peak_is_that_of_the_fastest_way():
    peak, way = machine.matmul_peak(rounds=1, size=64)
    assert peak > 0 and way in ("tf.matmul", "tf.matmul, XLA", "numpy", "torch")
