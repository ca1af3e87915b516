"""A model that is split over a mesh writes and scores as on one device.

A few methods stand for all; `make test-mesh` tries every one, on more meshes.
"""

import pytest

from tests.mesh import launch
from tests.mesh.step_program import DEVICES

pytestmark = pytest.mark.slow
# Extra keys in self-attention, and tokens before the decoder's.
METHODS = launch.some("hyperprompt-global")
SHAPES = ("batch:2,model:2", "model:4") if launch.EVERY_METHOD else ("batch:2,model:2",)
TOLERANCE = 1e-5
CASES = [f"{shape} {method}" for shape in SHAPES for method in METHODS]


@pytest.fixture(scope="module")
def results():
    """What `predict_program` printed, by mesh and method."""
    return launch.alone("predict_program", "/".join(SHAPES), ",".join(METHODS))[1]


@pytest.mark.parametrize("way", ["greedy", "beam"])
@pytest.mark.parametrize("case", CASES)
def test_it_writes_what_one_device_writes(results, case, way):
    assert results[case][way]
    assert results[case][f"{way} score"] < TOLERANCE


@pytest.mark.parametrize("case", CASES)
def test_choices_score_as_on_one_device(results, case):
    assert results[case]["score"] < TOLERANCE


def test_rows_end_at_different_steps(results):
    lengths = [results[case]["greedy lengths"] for case in CASES]
    assert any(len(set(found)) > 1 for found in lengths)


@pytest.mark.parametrize("case", CASES)
def test_each_device_holds_its_share(results, case):
    held = results[case]["held"]
    assert len(held) == DEVICES and len(set(held.values())) == 1


def test_many_predictors_of_one_process_do_not_mix_up_their_loops(results):
    assert results["many alike"]


def test_what_is_not_done_on_a_mesh_is_refused(results):
    assert "temperature=0.5: expected 0 on a mesh" in results["sampling"]
