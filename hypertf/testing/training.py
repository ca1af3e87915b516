"""Checks of training: gradients, dropout, rematerialisation, XLA, bfloat16."""

import keras
import numpy as np

from hypertf.testing.case import (
    Case,
    gradients_of,
    relative_error,
    require,
    require_close,
    require_same,
)


def check_gradients(case: Case) -> None:
    """Gradients reach every parameter of the method that trains."""
    _, gradients = case.gradients
    for weight in case.model.conditioner.trainable_weights:
        gradient = gradients[weight.path]
        require(gradient is not None, f"no gradient reaches {weight.path}")
        size = np.abs(gradient).max()
        require(np.isfinite(size), f"the gradient of {weight.path} is not finite")
        require(size > 0, f"the gradient of {weight.path} is 0 in all places")


def check_dropout(case: Case) -> None:
    """Dropout draws anew in every training step, and only there."""
    model = case.make(dropout_rate=0.5)
    first, second = (model(case.batch(), training=True).numpy() for _ in range(2))
    difference = relative_error(first, second)
    require(
        difference > 1e-3,
        f"two training steps: off by {difference:.2g} of their size, expected more "
        "than 0.001: dropout draws the same numbers again",
    )
    first, second = (model(case.batch()).numpy() for _ in range(2))
    require(
        np.array_equal(first, second),
        f"two calls without training: off by {relative_error(first, second):.2g} of "
        "their size, expected no dropout there",
    )
    # Without training the rate must not matter either.
    require_close("dropout_rate=0.5 without training", first, case.logits)


def check_rematerialisation(case: Case) -> None:
    """Blocks computed again in the backward pass give the same loss and gradients."""
    model = case.copy(rematerialize=True)
    require_same(
        "rematerialised", gradients_of(model, case.batch()), case.gradients, 1e-5
    )


def check_compiled_step(case: Case) -> None:
    """XLA compiles a training step, with the same loss and gradients."""
    model = case.small
    require_same(
        "compiled",
        gradients_of(model, case.batch(), jit_compile=True),
        gradients_of(model, case.batch()),
        1e-3,
    )


def check_bfloat16(case: Case) -> None:
    """In bfloat16 outputs are near, and weights stay float32."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        half = case.make()
    finally:
        keras.config.set_dtype_policy(before)
    half.set_weights(case.model.get_weights())
    for weight in half.weights:
        require(
            weight.dtype == "float32",
            f"{weight.path} is {weight.dtype} under mixed_bfloat16, expected float32",
        )
    got = half(case.batch()).numpy()
    require(got.dtype == "float32", f"logits are {got.dtype}, expected float32")
    error = np.abs(got - case.logits).mean() / np.abs(case.logits).mean()
    require(
        0 < error < 0.1,
        f"logits in bfloat16: off by {error:.2g} of their size on average, expected "
        "rounding (more than 0, less than 0.1)",
    )
