"""What a graph is traced for decides how it is written, never what it computes."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from hypertf.t5 import target
from hypertf.t5.decoding import Options
from hypertf.t5.model import generate_ids
from hypertf.t5.products import project, project_on_rows
from hypertf.testing.case import eagerly
from tests.helpers import V1_1, relative_error, rows, tiny_model

SPECS = {"encoder_tokens": tf.TensorSpec([None, None], tf.int32)}


@pytest.fixture(scope="module", params=[{}, V1_1], ids=["v1_0", "v1_1"])
def model(request):
    return tiny_model(seed=3, num_encoder_layers=1, **request.param)


def traced(function, *specs, **asked):
    with target.tracing_for(gradients=False, **asked):
        made = tf.function(function, autograph=False, jit_compile=asked["xla"])
        return made.get_concrete_function(*specs)


def ops(function):
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    return {node.op for node in nodes}


@pytest.mark.parametrize("beams", [1, 3])
def test_one_graph_without_xla_writes_what_generate_writes(model, beams):
    options = Options(max_length=7, beam_size=beams, return_scores=True)
    seed = tf.constant(0, tf.int64)
    function = traced(
        lambda inputs: generate_ids(model, options, inputs, seed), SPECS, xla=False
    )
    assert not [op for op in ops(function) if op.startswith("Xla")]
    for lengths, width, compiled in (((4, 9, 6), 9, True), ((5,), 5, False)):
        inputs = {"encoder_tokens": rows(lengths, width)}
        ids, scores = function({k: tf.constant(v) for k, v in inputs.items()})
        with contextlib.nullcontext() if compiled else eagerly():
            wanted, wanted_scores = model.generate(inputs, 7, beams, return_scores=True)
        np.testing.assert_array_equal(ids, wanted)
        assert relative_error(scores, wanted_scores) < 1e-4


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("length", [1, None])
def test_products_of_unknown_batches(xla, length):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, length or 3, 16)).astype("float32")
    kernel = rng.normal(size=(16, 24)).astype("float32")
    function = traced(
        lambda x: (project(x, kernel), project_on_rows(x, kernel.T)),
        tf.TensorSpec([None, length, 16]),
        xla=xla,
    )
    for y in function(tf.constant(x)):
        assert relative_error(y, x @ kernel) < 1e-6


def test_the_target_holds_for_the_block_only():
    here = target.current()
    with target.tracing_for("TPU", xla=True) as asked:
        assert target.current() == asked == target.Target("TPU", True, True)
        with target.tracing_for(xla=False):
            assert target.current() == target.Target(here.device, False, True)
        assert target.current() == asked
    assert target.current() == here


def test_a_custom_gradient_leaves_no_trace_where_none_is_asked_for():
    @target.custom_gradient
    def double(x):
        return 2 * x, lambda upstream: upstream * 7

    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = double(x)
    assert tape.gradient(y, x) == 7
    function = traced(double, tf.TensorSpec([]), xla=False)
    assert function(x) == 6 and "IdentityN" not in ops(function)
