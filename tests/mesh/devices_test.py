"""Four virtual devices hold what the plan says, and no more."""

import json
import subprocess
import sys

import pytest

from hypertf.mesh.plan import plan
from tests.conftest import ROOT
from tests.helpers import shallow_nano
from tests.mesh.devices_program import METHODS

pytestmark = pytest.mark.slow
SHAPES = ("batch:2,model:2", "model:4", "batch:4")


@pytest.fixture(scope="module")
def results():
    """What `devices_program` printed."""
    command = [sys.executable, "-m", "tests.mesh.devices_program", *SHAPES]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-5000:]
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_device_holds_its_share(results, shape, method):
    measured = results[f"{shape} {method}"]
    with shallow_nano():
        planned = plan(
            "t5-nano", shape, conditioner=method, num_tasks=4, batch_size=8, chip="1"
        )
    for kind in ("weights", "slots"):
        held = measured[kind]
        assert len(held) == 4
        assert set(held.values()) == {planned.of_weights(kind)}


def test_a_split_model_holds_less(results):
    whole = results["batch:4 none"]["weights"].popitem()[1]
    split = results["model:4 none"]["weights"].popitem()[1]
    assert whole / 4 < split < whole / 3.9  # norms are on every device


@pytest.mark.parametrize("shape", SHAPES)
def test_values_are_those_of_the_model(results, shape):
    for method in METHODS:
        assert results[f"{shape} {method}"]["same"]
        assert results[f"{shape} {method}"]["slots_same"]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_written_in_parts_is_read_whole_and_by_other_meshes(results, shape):
    for method in METHODS:
        assert results[f"{shape} {method}"]["stored_same"]


def test_too_many_devices_are_refused(results):
    assert (
        'mesh "batch:2,model:4" needs 8 devices, but there are 4'
        in (results["too many"])
    )
    assert "start(virtual_cpus=8)" in results["too many"]
    assert "before anything else" in results["again"]
