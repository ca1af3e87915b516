"""Training on meshes of virtual devices ends with the weights of one device."""

import json
import os
import socket
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.mesh.step_program import DEVICES, STEPS

pytestmark = pytest.mark.slow
SHAPES = ("batch:2,model:2", "model:4")
METHODS = ("none", "hyperdecoder", "hyperprompt-global")
IN_TWO_PROCESSES = ("hyperprompt-global",)
TOLERANCE = 1e-4


def start(shapes, methods, **environment):
    """A process of `step_program`."""
    command = [sys.executable, "-m", "tests.mesh.step_program"]
    return subprocess.Popen(
        [*command, "/".join(shapes), ",".join(methods)],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process):
    """What it printed, by mesh and method."""
    printed, errors = process.communicate()
    assert process.returncode == 0, errors[-5000:]
    return json.loads(printed.splitlines()[-1])


@pytest.fixture(scope="module")
def results():
    return result(start(SHAPES, METHODS))


@pytest.fixture(scope="module")
def of_two_processes():
    """What each of two processes with two devices printed."""
    ports = [free_port() for _ in range(2)]
    jobs = ",".join(f"localhost:{port}" for port in sorted(ports))
    common = {
        "DTENSOR_JOBS": jobs,
        "DTENSOR_NUM_CLIENTS": "2",
        "DTENSOR_JOB_NAME": "worker",
    }
    processes = [
        start(SHAPES[:1], IN_TWO_PROCESSES, **common, DTENSOR_CLIENT_ID=str(i))
        for i in range(2)
    ]
    try:
        return [result(process) for process in processes]
    finally:
        for process in processes:
            process.kill()


def free_port():
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        return taken.getsockname()[1]


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
