"""A TPU that is not there is said in one sentence, before anything is written."""

import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

from experiments.configs import get_config
from experiments.train import train
from hypertf.training import make_strategy, strategies

VARIABLES = (*strategies._TPU_VARIABLES, "GCE_METADATA_HOST", "GCE_METADATA_IP")


@pytest.fixture(autouse=True)
def no_tpu_is_named(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tpu_build(monkeypatch):
    """As if this TensorFlow were a build for TPUs, on a machine that has none."""
    monkeypatch.setattr(strategies, "_has_tpu_support", lambda: True)


def refusal(**options):
    with pytest.raises(ValueError, match="strategy='tpu'") as error:
        make_strategy("tpu", **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_build_without_tpu_support_is_named():
    known = kernels.get_registered_kernels_for_op
    assert {kernel.device_type for kernel in known("MatMul").kernel} >= {"CPU"}
    for tpu in (None, "local", "no-such-tpu"):
        message = refusal(tpu=tpu)
        assert f"TensorFlow {tf.__version__}" in message
        assert "has no TPU support, expected the build of tensorflow-tpu" in message


def test_a_machine_without_a_tpu_is_named(tpu_build):
    message = refusal()
    assert "no TPU at tpu='local' (TPUs not found" in message
    assert message.endswith("expected the name of one, or 'local' on a TPU VM")


def test_a_name_that_cannot_be_looked_up_is_named(tpu_build, monkeypatch):
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")  # where nothing listens
    assert "no TPU at tpu='mine' (" in refusal(tpu="mine")
    monkeypatch.setenv("TPU_NAME", "theirs")
    assert "no TPU at tpu='theirs' (" in refusal()


def test_training_writes_nothing_without_a_tpu(tmp_path):
    run, data = tmp_path / "run", tmp_path / "data"
    with pytest.raises(ValueError, match="no TPU support"):
        train(get_config("nano"), run, data_dir=data, strategy="tpu")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Graph execution error:\n\nDetected at node a\n no chips.\n", "no chips"),
        ("not ready; state: CREATING", "not ready; state: CREATING"),
        ("", "ValueError"),
    ],
)
def test_an_error_is_told_by_the_line_that_says_something(message, said):
    assert strategies._in_short(ValueError(message)) == said
