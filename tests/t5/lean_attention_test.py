"""Attention for a TPU: the same numbers as anywhere else, and their gradients."""

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.t5 import lean_attention, target
from hypertf.t5.lean_attention import Bias
from hypertf.training.loss import token_losses
from tests.helpers import mixed_batch, relative_error, tiny_config, tiny_model

BATCH, HEADS, QUERIES, KEYS, SIZE = 3, 2, 5, 7, 4
SHAPES = [(QUERIES, SIZE), (KEYS, SIZE), (KEYS, SIZE)]


def draw(*shape, dtype="float32"):
    rng = np.random.default_rng(sum(shape))
    return tf.cast(rng.normal(size=shape), dtype)


def biases():
    """Relative position of all rows or of each, with and without a mask."""
    mask = np.where(np.arange(KEYS) < [[[[KEYS]]], [[[4]]], [[[1]]]], 0.0, -1e9)
    mask = tf.constant(mask, tf.float32)
    shared, own = draw(1, HEADS, QUERIES, KEYS), draw(BATCH, HEADS, QUERIES, KEYS)
    return {
        "shared": Bias(shared, None),
        "shared and mask": Bias(shared, mask),
        "own and mask": Bias(own, mask),
        "mask": Bias(None, mask),
        "nothing": Bias(None, None),
    }


def by_formula(queries, keys, values, bias):
    logits = tf.einsum("bhqd,bhkd->bhqk", queries, keys)
    for part in bias:
        logits = logits if part is None else logits + part
    return tf.einsum("bhqk,bhkd->bhqd", tf.nn.softmax(logits), values)


def outputs(attend, tensors, bias):
    """What attention gives, and the gradients of a sum of it, in float64."""

    @tf.function(jit_compile=True, autograph=False)
    def run(tensors, relative):
        watched = [*tensors] if relative is None else [*tensors, relative]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            y = attend(*tensors, Bias(relative, bias.mask))
            loss = tf.reduce_sum(tf.cast(y, "float32") * draw(*y.shape))
        return [y, *tape.gradient(loss, watched)]

    return [np.array(x, "float64") for x in run(tensors, bias.relative)]


@pytest.mark.parametrize("name", biases())
def test_values_and_gradients_are_those_of_the_formula(name):
    tensors = [draw(BATCH, HEADS, *shape) for shape in SHAPES]
    bias = biases()[name]
    wanted = outputs(by_formula, tensors, bias)
    got = outputs(lean_attention.attend, tensors, bias)
    assert len(got) == len(wanted) == 4 + (bias.relative is not None)
    for x, y in zip(got, wanted, strict=True):
        assert relative_error(x, y) < 1e-5


def test_half_precision_is_off_by_its_rounding_only():
    tensors = [draw(BATCH, HEADS, *shape, dtype="bfloat16") for shape in SHAPES]
    bias = biases()["shared and mask"]
    wanted = outputs(by_formula, [tf.cast(x, "float32") for x in tensors], bias)
    got = outputs(lean_attention.attend, tensors, bias)
    for x, y in zip(got, wanted, strict=True):
        assert relative_error(x, y) < 0.02


def test_large_logits_do_not_overflow():
    queries, keys, values = (100 * draw(BATCH, HEADS, *shape) for shape in SHAPES)
    for x in outputs(lean_attention.attend, (queries, keys, values), Bias(None, None)):
        assert np.isfinite(x).all()


def test_the_backward_pass_computes_the_weights_anew():
    """To keep them from the forward pass is what the layers' memory would go to."""
    with tf.Graph().as_default() as graph, tf.GradientTape() as tape:
        tensors = [draw(BATCH, HEADS, *shape) for shape in SHAPES]
        tape.watch(tensors)
        y = lean_attention.attend(*tensors, biases()["shared and mask"])
        forward = exponentials(graph)
        tape.gradient(y, tensors)
        assert (forward, exponentials(graph)) == (1, 2)


def exponentials(graph):
    return [operation.type for operation in graph.get_operations()].count("Exp")


def packed():
    """Two texts in a row, and one beside padding."""
    segments = {"encoder": [[1, 1, 1, 2, 2], [1, 1, 0, 0, 0]]}
    segments["decoder"] = [[1, 1, 2, 2], [1, 1, 1, 0]]
    batch = {}
    for stack, rows in segments.items():
        rows = np.array(rows, "int32")
        batch[f"{stack}_tokens"] = np.where(rows, 7 + np.arange(rows.shape[1]), 0)
        batch[f"{stack}_segment_ids"] = rows
        first = [[list(row).index(s) if s else 0 for s in row] for row in rows]
        batch[f"{stack}_positions"] = np.arange(rows.shape[1]) - np.array(first)
    return {name: value.astype("int32") for name, value in batch.items()}


def plain():
    batch = mixed_batch()
    del batch["task_ids"]
    return batch


GRID = {"placement": "all", "d_r": 4, "d_c": 4}
CASES = {
    "plain": (None, {}, plain),
    "packed": (None, {}, packed),
    "extra keys": ("hyperprompt-global", {"bottleneck": 4}, mixed_batch),
    "extra tokens and kernels": ("hypergrid", GRID, mixed_batch),
}


def seed_states(model):
    """Where all the random draws of a step begin, the conditioner's too."""
    return [v for v in model.non_trainable_variables if "seed" in v.path]


def step(model, batch, device):
    """Loss and gradients with dropout, traced for a device."""
    batch = {name: tf.constant(value) for name, value in batch.items()}
    targets = tf.ones_like(batch["decoder_tokens"])

    @tf.function(jit_compile=True, autograph=False)
    def run(batch):
        with tf.GradientTape() as tape:
            logits = model(batch, training=True)
            loss = tf.reduce_mean(token_losses(logits, targets, 1e-4, 0.1))
        weights = [weight.value for weight in model.trainable_variables]
        return [loss, *map(tf.convert_to_tensor, tape.gradient(loss, weights))]

    for state in seed_states(model):
        state.assign([0, 7])
    with target.tracing_for(device):
        return run(batch)


@pytest.mark.parametrize("case", CASES)
def test_a_step_traced_for_a_tpu_is_that_of_a_cpu(case):
    method, options, make = CASES[case]
    conditioner = method and hypertf.conditioning.create(
        method, tiny_config(), num_tasks=3, **options
    )
    model = tiny_model(seed=1, conditioner=conditioner)
    batch = make()
    for got, wanted in zip(
        step(model, batch, "TPU"), step(model, batch, "CPU"), strict=True
    ):
        assert relative_error(got, wanted) < 1e-4


def test_rematerialized_blocks_may_be_lean():
    config = tiny_config()
    model = hypertf.T5(config, seed=1, rematerialize=True)
    for got, wanted in zip(
        step(model, plain(), "TPU"), step(model, plain(), "CPU"), strict=True
    ):
        assert relative_error(got, wanted) < 1e-4


def test_nothing_long_is_a_constant_of_a_graph_for_a_tpu():
    model = tiny_model()
    length = 96
    tokens = tf.ones([1, length], tf.int32)
    with target.tracing_for("TPU"):
        function = tf.function(model, autograph=False)
        inputs = {"encoder_tokens": tokens, "decoder_tokens": tokens}
        graph = function.get_concrete_function(inputs).graph
    sizes = [
        node.outputs[0].shape.num_elements()
        for node in graph.get_operations()
        if node.type == "Const"
    ]
    assert max(sizes) < length
