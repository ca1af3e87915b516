"""No process holds a whole model when it saves or loads one that is split."""

import pytest

from tests.mesh import launch
from tests.mesh.memory_program import STEP

pytestmark = pytest.mark.slow
SPARE = 40e6  # of TensorFlow: buffers, threads, files


@pytest.fixture(scope="module")
def of_two_processes(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("memory"))
    return [r for _, r in launch.in_two_processes("memory_program", folder)]


def test_the_model_is_large_enough_to_tell(of_two_processes):
    for found in of_two_processes:
        assert found["whole"] > 4 * SPARE
        assert found["share"] < 0.52 * found["whole"]


def test_making_takes_the_share_only(of_two_processes):
    for found in of_two_processes:
        assert found["took"]["make"] < found["share"] + SPARE


@pytest.mark.parametrize("action", ["save", "restore", "load"])
def test_saving_and_loading_takes_little(of_two_processes, action):
    for found in of_two_processes:
        assert found["took"][action] < SPARE


def test_what_was_written_is_one_checkpoint(of_two_processes):
    for found in of_two_processes:
        assert found["reached"] == STEP
        assert not any(name.endswith(".tmp") for name in found["files"])
        assert f"model.ckpt-{STEP}.index" in found["files"]
        data = [name for name in found["files"] if ".data-" in name]
        assert len(data) == 2  # each process wrote its own
