"""Training on meshes of virtual devices ends with the weights of one device.

A few methods stand for all; `make test-mesh` trains with every one.
"""

import pytest

from tests.mesh import launch
from tests.mesh.step_program import DEVICES, STEPS

pytestmark = pytest.mark.slow
SHAPES = ("batch:2,model:2", "model:4")
# Not Adafactor without decay, or not the batch at once.
OTHERS = ("none+adamw", "none+decay", "none+parts", "hyperprompt-global+parts")
METHODS = (*launch.some("none", "hyperdecoder", "hyperprompt-global"), *OTHERS)
IN_TWO_PROCESSES = launch.some("hyperprompt-global")
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def results():
    """What `step_program` printed, by mesh and method."""
    return launch.alone("step_program", "/".join(SHAPES), ",".join(METHODS))[1]


@pytest.fixture(scope="module")
def of_two_processes():
    """What each of two processes with two devices printed."""
    arguments = SHAPES[0], ",".join(IN_TWO_PROCESSES)
    return [found for _, found in launch.in_two_processes("step_program", *arguments)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_loss_weights_and_slots_are_those_of_one_device(results, shape, method):
    found = results[f"{shape} {method}"]
    assert found["loss"] < TOLERANCE
    assert found["state"] < TOLERANCE, found["worst"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_device_holds_its_share_after_training(results, shape, method):
    found = results[f"{shape} {method}"]
    assert len(found["held"]) == DEVICES
    assert set(found["held"].values()) == {found["share"]}


def test_a_step_is_expanded_once(results):
    for found in results.values():
        assert found["traces"] == 1
        assert found["expanded_again"] == 0
        assert found["steps"] == STEPS


def test_what_was_trained_moves_to_one_device_and_other_meshes(results):
    for shape in SHAPES:
        assert results[f"{shape} {METHODS[0]}"]["gathered"]
        assert results[f"{shape} {METHODS[0]}"]["saved"]


@pytest.mark.parametrize("method", IN_TWO_PROCESSES)
def test_two_processes_end_with_the_weights_of_one_device(of_two_processes, method):
    for found in (printed[f"{SHAPES[0]} {method}"] for printed in of_two_processes):
        assert found["loss"] < TOLERANCE
        assert found["state"] < TOLERANCE, found["worst"]
        assert set(found["held"].values()) == {found["share"]}
        assert len(found["held"]) == DEVICES // 2


def test_what_two_processes_trained_moves_too(of_two_processes):
    for printed in of_two_processes:
        assert printed[f"{SHAPES[0]} {IN_TWO_PROCESSES[0]}"]["gathered"]


def test_processes_agree(results, of_two_processes):
    (alone, *_), of_two = results.values(), of_two_processes
    common = {"one asked": True, "none asked": False, "same": True}
    assert alone["agree"] == {**common, "own": True}
    for printed in of_two:
        found = printed[f"{SHAPES[0]} {IN_TWO_PROCESSES[0]}"]
        assert found["agree"] == {**common, "own": False}


def test_two_processes_have_different_devices(of_two_processes):
    first, second = (next(iter(printed.values())) for printed in of_two_processes)
    assert not set(first["held"]) & set(second["held"])
