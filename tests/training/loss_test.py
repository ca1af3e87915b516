"""The loss against the formula written out token by token."""

import numpy as np
import pytest
import tensorflow as tf

from hypertf.t5 import target
from hypertf.training import T5Loss, token_losses
from hypertf.training.loss import NORMALIZATIONS

LOGITS = np.random.default_rng(0).normal(size=(2, 3, 7)).astype("float32") * 4
TARGETS = np.array([[3, 1, 0], [6, 0, 0]])


def naive(z_loss, smoothing):
    losses = np.zeros(TARGETS.shape)
    for b, t in np.ndindex(*TARGETS.shape):
        if TARGETS[b, t] == 0:
            continue
        exponentials = np.exp(LOGITS[b, t].astype("float64"))
        log_probs = np.log(exponentials / exponentials.sum())
        wanted = np.full(7, smoothing / 7)
        wanted[TARGETS[b, t]] += 1 - smoothing
        z = np.log(exponentials.sum())
        losses[b, t] = -(wanted * log_probs).sum() + z_loss * z**2
    return losses


@pytest.mark.parametrize("z_loss", [0.0, 0.01])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("device", ["CPU", "TPU"])
def test_token_losses(z_loss, smoothing, jit, device):
    run = tf.function(token_losses, jit_compile=jit)
    with target.tracing_for(device):
        got = run(LOGITS, TARGETS, z_loss, smoothing)
    np.testing.assert_allclose(got, naive(z_loss, smoothing), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_gradients_are_the_same_for_all_devices(kind):
    gradients = {}
    for device in ("CPU", "TPU"):
        logits = tf.cast(LOGITS, kind)
        with target.tracing_for(device), tf.GradientTape() as tape:
            tape.watch(logits)
            losses = token_losses(logits, TARGETS, 0.01, 0.1)
            loss = tf.reduce_sum(losses * [[1.0, 2.0, 3.0]])
        gradients[device] = tape.gradient(loss, logits)
        assert gradients[device].dtype == kind
    expected, lean = (tf.cast(g, "float32") for g in gradients.values())
    tolerance = 1e-5 if kind == "float32" else 1e-2
    np.testing.assert_allclose(lean, expected, rtol=tolerance, atol=1e-6)
    assert not np.any(lean.numpy()[TARGETS == 0])


def test_normalizations():
    total = naive(1e-4, 0.0).sum()
    np.testing.assert_allclose(T5Loss()(TARGETS, LOGITS), total / 6, rtol=1e-5)
    by_tokens = T5Loss(normalization="tokens")
    np.testing.assert_allclose(by_tokens(TARGETS, LOGITS), total / 3, rtol=1e-5)
    summed = T5Loss(normalization="sum")
    np.testing.assert_allclose(summed(TARGETS, LOGITS), total, rtol=1e-5)


def test_no_real_token_is_no_loss():
    for normalization in NORMALIZATIONS:
        loss = T5Loss(normalization=normalization)
        assert loss(np.zeros_like(TARGETS), LOGITS) == 0.0


def test_config_round_trip():
    loss = T5Loss(z_loss=0.0, label_smoothing=0.1, normalization="tokens")
    assert T5Loss.from_config(loss.get_config()).get_config() == loss.get_config()


@pytest.mark.parametrize(
    ("option", "value"),
    [("normalization", "mean"), ("z_loss", -1.0), ("label_smoothing", 1.0)],
)
def test_bad_options(option, value):
    with pytest.raises(ValueError, match=f"T5Loss: {option}="):
        T5Loss(**{option: value})
