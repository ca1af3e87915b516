"""Blocks in a loop: the numbers, draws and weights of blocks one by one."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.export import bake, serving_form
from hypertf.t5 import layer_loop
from hypertf.t5.sites import PLAIN, Sites, shared
from hypertf.training.loss import token_losses
from tests.helpers import mixed_batch, relative_error, tiny_config

CONFIG = tiny_config(num_encoder_layers=2, num_decoder_layers=3, dropout_rate=0.2)
SIZES = {"bottleneck": 4}
METHODS = {
    "none": {},
    "hypergrid": {"placement": "all", "d_r": 4, "d_c": 4},
    "hyperprompt-global": SIZES,
    "hyperformer++": SIZES,
    "hyperdecoder": {"encoder_size": 4, "decoder_size": 3, "bottleneck": 5},
}


def make(method, **options):
    conditioner = hypertf.conditioning.create(method, CONFIG, 3, **METHODS[method])
    return hypertf.T5(CONFIG, conditioner=conditioner, seed=1, **options)


def batch_of(method):
    batch = mixed_batch()
    if method == "none":
        del batch["task_ids"]
    return {name: tf.constant(value) for name, value in batch.items()}


def step(model, batch, jit_compile=False):
    """Loss and gradients with dropout from a given draw on, and the draw after it."""

    @tf.function(jit_compile=jit_compile, autograph=False)
    def run(batch):
        with tf.GradientTape() as tape:
            logits = model(batch, training=True)
            targets = tf.ones_like(batch["decoder_tokens"])
            loss = tf.reduce_mean(token_losses(logits, targets, 1e-4, 0.1))
        weights = [weight.value for weight in model.trainable_variables]
        gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
        return [loss, *map(tf.convert_to_tensor, gradients)]

    states = [v for v in model.non_trainable_variables if "seed" in v.path]
    for state in states:
        state.assign([0, 7])
    return run(batch), [state.numpy() for state in states]


def loops(function, batch):
    graph = tf.function(function, autograph=False).get_concrete_function(batch).graph
    return sum("While" in op.type for op in graph.get_operations())


@pytest.mark.parametrize(
    ("method", "options", "jit_compile"),
    [
        ("none", {}, False),
        ("hypergrid", {"rematerialize": True}, False),
        ("hyperformer++", {}, False),
        ("hyperdecoder", {}, False),
        ("hyperprompt-global", {"rematerialize": True}, True),
    ],
)
def test_a_loop_gives_what_blocks_one_by_one_give(method, options, jit_compile):
    plain, looped = make(method, **options), make(method, loop_layers=True, **options)
    assert [w.shape for w in looped.weights] == [w.shape for w in plain.weights]
    looped.set_weights(plain.get_weights())
    batch = batch_of(method)
    (got, after), (wanted, after_plain) = (
        step(model, batch, jit_compile) for model in (looped, plain)
    )
    np.testing.assert_array_equal(after, after_plain)
    for x, y in zip(got, wanted, strict=True):
        assert relative_error(x, y) < 1e-4
    np.testing.assert_allclose(looped(batch), plain(batch), rtol=1e-5, atol=1e-6)
    assert loops(looped, batch) == 2
    assert loops(plain, batch) == 0


def test_writing_and_keras_config():
    plain = make("hyperprompt-global")
    looped = hypertf.T5.from_config({**plain.get_config(), "loop_layers": True})
    assert looped.get_config()["loop_layers"]
    looped.set_weights(plain.get_weights())
    batch = batch_of("hyperprompt-global")
    del batch["decoder_tokens"]
    for beams in (1, 2):
        got, wanted = (m.generate(batch, 4, beam_size=beams) for m in (looped, plain))
        np.testing.assert_array_equal(got, wanted)


def test_tables_of_a_baked_model_are_looped_over():
    model = make("hyperprompt-global", loop_layers=True)
    batch = batch_of("hyperprompt-global")
    baked = bake(model)
    np.testing.assert_allclose(baked(batch), model(batch), rtol=1e-4, atol=1e-5)


def test_weights_in_the_shapes_of_serving_are_not_looped_over():
    model, batch = make("none", loop_layers=True), batch_of("none")
    wanted = model(batch)
    serving_form.arrange(model)
    np.testing.assert_allclose(model(batch), wanted, rtol=1e-4, atol=1e-5)
    assert loops(model, batch) == 0


@dataclasses.dataclass(frozen=True)
class Times(Sites):
    factor: float = shared()

    def after_ffn(self, y, training):
        return self.factor * y


class Adds(keras.layers.Layer):
    """A block of one weight, which makes of its sites what they say."""

    def build(self, input_shape=None):
        self.weight = self.add_weight(shape=(2,), initializer="random_normal")
        self.built = True

    def call(self, x, sites):
        return x + sites.after_ffn(self.weight, False)


@pytest.mark.parametrize(
    ("factors", "times"),
    [([2, 2, 2], 1), ([2, 2, 3, 3], 2), ([2, 3, 2], 0), ([None, 2, 2], 1)],
)
def test_only_neighbours_that_are_alike_share_a_loop(factors, times):
    blocks = [Adds() for _ in factors]
    for block in blocks:
        block.build()
    sites = [PLAIN if factor is None else Times(float(factor)) for factor in factors]
    generator = keras.random.SeedGenerator(0)

    def through(x):
        return layer_loop.run_blocks(
            lambda block, x, sites, _: block(x, sites=sites),
            blocks,
            sites,
            generator,
            x,
        )

    x = tf.ones([1, 2])
    assert loops(through, x) == times
    wanted = 1 + sum(
        (f or 1) * b.weight.numpy() for f, b in zip(factors, blocks, strict=True)
    )
    np.testing.assert_allclose(through(x)[0], wanted, rtol=1e-6)
