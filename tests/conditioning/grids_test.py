"""A gated product is the product with each example's kernel written out."""

import numpy as np
import pytest
import tensorflow as tf

from hypertf.conditioning import grids
from hypertf.t5.packing import Segments
from tests.helpers import relative_error

GRIDS = [(1, 1), (6, 1), (1, 4), (6, 4), (2, 2), (24, 8)]


@pytest.mark.parametrize("length", [1, 9])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_product_and_gradients_of_any_grouping(grid, length):
    """All groupings, forward and backward, equal a kernel written out per example."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s) for s in ((3, length, 24), (24, 8), (3, *grid))]
    weights = rng.normal(size=(3, length, 8))

    def naive(x, kernel, scales):
        scales = tf.repeat(scales, 24 // grid[0], axis=1)
        scales = tf.repeat(scales, 8 // grid[1], axis=2)
        return tf.einsum("bli,io,bio->blo", x, kernel, scales)

    def run(product):
        tensors = [tf.constant(a) for a in arrays]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            y = product(*tensors)
            loss = tf.reduce_sum(y * weights)
        return [y, *tape.gradient(loss, tensors)]

    expected = run(naive)
    for product in (grids.gated_product, *grids.FORMS.values()):
        for got, wanted in zip(run(product), expected, strict=True):
            assert relative_error(got, wanted) < 1e-12


@pytest.mark.parametrize("grid", [(4, 8), (8, 2)], ids=str)
def test_few_positions_write_no_kernel_per_example(grid):
    """A decoding step keeps nothing as large as the kernels of all its examples."""
    examples, fan_in, fan_out = 16, 64, 32

    @tf.function
    def step(x, kernel, scales):
        return grids.gated_product(x, kernel, scales)

    shapes = ((examples, 1, fan_in), (fan_in, fan_out), (examples, *grid))
    graph = step.get_concrete_function(*(tf.TensorSpec(s) for s in shapes)).graph
    sizes = [
        np.prod(output.shape)
        for operation in graph.get_operations()
        for output in operation.outputs
    ]
    assert max(sizes) < examples * fan_in * fan_out / 2


def test_product_in_bfloat16():
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=(2, 5, 24)), rng.normal(size=(24, 8))
    scales = 1 + rng.uniform(size=(2, 6, 4))
    expected = grids.gated_product(*(tf.constant(a) for a in (x, kernel, scales)))
    for form in grids.FORMS.values():
        y = form(*(tf.cast(a, "bfloat16") for a in (x, kernel, scales)))
        assert y.dtype == "bfloat16"
        assert relative_error(tf.cast(y, "float32"), expected) < 0.03


@pytest.mark.parametrize("grid", [(1, 4), (3, 1), (3, 4)])
def test_a_grid_for_each_segment_equals_its_formula(grid):
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(2, 5, 6)), tf.float32)
    kernel = tf.constant(rng.normal(size=(6, 8)), tf.float32)
    scales = tf.constant(rng.normal(size=(4, *grid)), tf.float32)
    own = tf.one_hot([[0, 0, 1, 1, -1], [0, 1, 1, 1, 1]], 2)  # one token is padding
    segments = Segments(own, None, 2)
    repeats = 6 // grid[0], 8 // grid[1]

    def naive(x, kernel, scales):
        of_tokens = tf.einsum("bls,bsrc->blrc", own, tf.reshape(scales, (2, 2, *grid)))
        wide = tf.repeat(tf.repeat(of_tokens, repeats[0], axis=2), repeats[1], axis=3)
        return tf.einsum("bli,io,blio->blo", x, kernel, wide)

    def by_segment(x, kernel, scales):
        return grids.gated_by_segment(x, kernel, scales, segments)

    results = []
    for product in (by_segment, naive):
        with tf.GradientTape() as tape:
            tape.watch((x, kernel, scales))
            y = product(x, kernel, scales)
            y *= tf.reduce_sum(own, axis=2, keepdims=True)  # padding may be anything
            loss = tf.reduce_sum(tf.square(y))
        results.append([y, *tape.gradient(loss, (x, kernel, scales))])
    for got, expected in zip(*results, strict=True):
        assert relative_error(got, expected) < 1e-5
