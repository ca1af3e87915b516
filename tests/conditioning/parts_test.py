"""What all methods share."""

import numpy as np
import pytest
import tensorflow as tf

from hypertf.conditioning import parts

TASKS = 3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_look_up_is_gather_with_the_same_gradient(axis, dtype):
    shape = [2, 4, 5]
    shape.insert(axis, TASKS)
    x = tf.cast(np.random.default_rng(0).normal(size=shape), dtype)
    ids = tf.constant([2, 0, 2, 2])
    weights = None
    results = []
    for gather in (tf.gather, parts.look_up):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = gather(x, ids, axis=axis)
        if weights is None:
            weights = np.random.default_rng(1).integers(-9, 9, size=y.shape)
        gradient = tape.gradient(y, x, tf.cast(weights, dtype))
        results.append((y, tf.cast(tf.convert_to_tensor(gradient), "float32")))
    (expected, expected_gradient), (got, got_gradient) = results
    assert got.dtype == dtype
    assert (tf.cast(got, "float32") == tf.cast(expected, "float32")).numpy().all()
    np.testing.assert_allclose(got_gradient, expected_gradient, rtol=1e-2)
    assert not tf.gather(got_gradient, 1, axis=axis).numpy().any()  # not in the batch


def test_look_up_of_an_unknown_task_is_an_error():
    x = tf.zeros([TASKS, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        tf.function(parts.look_up)(x, tf.constant([0, TASKS]))
