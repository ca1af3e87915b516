"""Two and four devices, virtual ones of this CPU, compute what one computes."""

import subprocess
import sys

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.helpers import relative_error
from tests.training.replicas_program import CASES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What `replicas_program` wrote."""
    folder, values = tmp_path_factory.mktemp("replicas"), {}
    for replicas in (2, 4):
        (folder / str(replicas)).mkdir()
        path, name = str(folder / str(replicas)), "tests.training.replicas_program"
        command = [sys.executable, "-m", name, path, str(replicas)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-5000:]
        values |= np.load(f"{path}/results.npz")
    return values


def of(results, name, replicas):
    start = f"{name}/{replicas}/"
    return {k.removeprefix(start): results[k] for k in results if k.startswith(start)}


@pytest.mark.parametrize(
    ("case", "replicas"), [("adafactor", 2), ("adamw", 2), ("adamw", 4)]
)
def test_training_is_that_of_one_device(results, case, replicas):
    """With tokens that are not spread evenly: rows of a batch get longer."""
    one, several = of(results, case, 1), of(results, case, replicas)
    assert several.keys() == one.keys()
    assert one["examples"].sum() == 3 * 7  # all but the fillers
    np.testing.assert_array_equal(several["examples"], one["examples"])
    for name in ("loss", "task_loss"):
        np.testing.assert_allclose(several[name], one[name], rtol=1e-4)
    tensors = [name for name in one if name.startswith("tensor/")]
    assert one["tensor/global_step"] == 3
    assert any("_slot_" in name for name in tensors)
    for name in tensors:
        assert relative_error(several[name], one[name]) < 1e-4, name


def test_the_weights_have_changed(results):
    """Else the comparison says nothing."""
    for case in CASES:
        losses = of(results, case, 1)["loss"]
        assert losses[-1] < losses[0]


def test_replicas_draw_their_own_dropout(results):
    first, second = results["losses_of_equal_rows"]
    assert abs(first - second) > 1e-3 * first


def test_predictions_are_those_of_one_device(results):
    one, two = of(results, "predictions", 1), of(results, "predictions", 2)
    assert one["ids"].shape == (21, 5)  # without the fillers
    assert len(np.unique(one["ids"], axis=0)) > 3
    np.testing.assert_array_equal(two["ids"], one["ids"])
    np.testing.assert_allclose(two["scores"], one["scores"], rtol=1e-4)
    assert one["ranks"].shape == (21, 3)
    np.testing.assert_allclose(two["ranks"], one["ranks"], rtol=1e-4)
