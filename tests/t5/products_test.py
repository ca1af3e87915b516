"""Products of few rows, cut in groups, equal the plain ones."""

import numpy as np
import pytest
import tensorflow as tf

from hypertf.t5 import target
from hypertf.t5.products import (
    FEW_ROWS,
    GROUPS,
    cast_once,
    project,
    project_on_rows,
)
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


BARRIER = "XlaOptimizationBarrier"


@pytest.mark.parametrize(
    ("device", "dtype", "barriers"),
    [("CPU", "bfloat16", 0), ("TPU", "float32", 0), ("TPU", "bfloat16", 1)],
)
def test_a_kernel_is_cast_once_on_a_tpu(device, dtype, barriers):
    """Two products read one tensor; values and gradients are those of a cast."""
    rng = np.random.default_rng(0)
    kernel = tf.constant(rng.normal(size=(6, 5)), "float32")
    x = tf.cast(rng.normal(size=(2, 3, 6)), dtype)

    @tf.function(jit_compile=True, autograph=False)
    def run(kernel, cast):
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            narrow = cast(kernel, dtype)
            y = project(project_on_rows(project(x, narrow), narrow), narrow)
        return [y, tape.gradient(y, kernel)]

    with target.tracing_for(device):
        concrete = run.get_concrete_function(kernel, cast_once)
        assert [n.op for n in nodes(concrete)].count(BARRIER) == barriers
        got = run(kernel, cast_once)
    for value, wanted in zip(got, run(kernel, tf.cast), strict=True):
        assert value.dtype == wanted.dtype
        assert relative_error(value, wanted) < (1e-6 if dtype == "float32" else 0.02)


def nodes(concrete):
    graph = concrete.graph.as_graph_def()
    return [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
