"""Products of few rows, cut in groups, equal the plain ones."""

import numpy as np
import pytest
import tensorflow as tf

from hypertf.t5.products import FEW_ROWS, GROUPS, project, project_on_rows
from tests.helpers import relative_error


@pytest.mark.parametrize("rows", [(1, 1), (3, 2), (FEW_ROWS, 1), (FEW_ROWS, 2)])
@pytest.mark.parametrize("size", [4 * GROUPS, 4 * GROUPS + 1])
@pytest.mark.parametrize("jit", [False, True])
def test_products(rows, size, jit):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(*rows, size)).astype("float32")
    kernel = rng.normal(size=(size, 10)).astype("float32")
    table = rng.normal(size=(3 * GROUPS, size)).astype("float32")
    run = tf.function(
        lambda: (project(x_, kernel), project_on_rows(x_, table)), jit_compile=jit
    )
    x_ = tf.constant(x)
    on_kernel, on_rows = run()
    assert relative_error(on_kernel, x @ kernel) < 1e-5
    assert relative_error(on_rows, x @ table.T) < 1e-5


def test_few_rows_have_the_same_gradient():
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(2, 3, 16)), "float32")
    kernel = tf.constant(rng.normal(size=(16, 5)), "float32")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, kernel])
        grouped = tf.reduce_sum(project(x, kernel) ** 2)
        plain = tf.reduce_sum(tf.einsum("bli,io->blo", x, kernel) ** 2)
    for got, expected in zip(
        tape.gradient(grouped, [x, kernel]),
        tape.gradient(plain, [x, kernel]),
        strict=True,
    ):
        assert relative_error(got, expected) < 1e-5
