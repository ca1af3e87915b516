"""Dropout masks, and what stays float32 under mixed_bfloat16."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.t5.dropout import Dropout, dropout
from hypertf.t5.lean_attention import Bias
from hypertf.t5.norm import RMSNorm
from hypertf.training import T5Loss
from tests.helpers import V1_1, relative_error, rows, tiny_config, tiny_model


@pytest.fixture(scope="module")
def bfloat16_model():
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    sizes = {"d_model": 64, "d_kv": 16, "d_ff": 96}
    reference = hypertf.T5(tiny_config(**sizes, **layers, **V1_1))
    model = hypertf.T5(reference.config, dtype="mixed_bfloat16")
    model.set_weights(reference.get_weights())
    return model, reference


def batch():
    return {
        "encoder_tokens": rows([9, 5], 9),
        "decoder_tokens": np.pad(rows([3, 4], 5), ((0, 0), (1, 0)))[:, :-1],
    }


@pytest.mark.parametrize("jit", [False, True])
def test_bfloat16_is_close_and_computes_in_bfloat16(bfloat16_model, jit):
    model, reference = bfloat16_model
    run = tf.function(
        lambda b: (model(b), model.encode(b)[0]), jit_compile=jit, autograph=False
    )
    logits, encoder_output = run(batch())
    assert logits.dtype == "float32" and encoder_output.dtype == "bfloat16"
    assert all(weight.dtype == "float32" for weight in model.weights)
    error = relative_error(logits, reference(batch()))
    assert 1e-6 < error < 0.05


def test_bfloat16_decodes_and_scores(bfloat16_model):
    model, _ = bfloat16_model
    inputs = {"encoder_tokens": batch()["encoder_tokens"]}
    ids = model.generate(inputs, 4)
    scores = model.score({**inputs, "targets": np.maximum(ids, 1)})
    assert ids.shape == (2, 4) and scores.dtype == "float32"
    assert model.generate(inputs, 4, beam_size=2).shape == (2, 4)


def test_norm_is_float32_inside():
    """bfloat16 sums would lose small entries beside a large one."""
    x = np.full((1, 1, 1025), 0.1, "float32")
    x[..., 0] = 40.0
    norm = RMSNorm(1025, dtype="mixed_bfloat16")
    norm.build()
    norm.scale.assign(np.full(1025, 1.001))  # not a bfloat16 number
    x = tf.cast(x, "bfloat16")
    wide = tf.cast(x, "float64").numpy()
    expected = wide / np.sqrt((wide**2).mean() + 1e-6) * np.float64(np.float32(1.001))
    got = norm(x)
    assert got.dtype == "bfloat16"
    rounded = tf.cast(tf.constant(expected), "bfloat16")
    np.testing.assert_array_equal(tf.cast(got, "float32"), tf.cast(rounded, "float32"))


def test_norm_epsilon_matters_for_tiny_inputs():
    norm = RMSNorm(4)
    norm.build()
    x = np.full((1, 1, 4), 1e-3, "float32")
    np.testing.assert_allclose(norm(x), x / np.sqrt(1e-6 + 1e-6), rtol=1e-5)


def test_attention_softmax_is_float32():
    """Logits 300 and 301 are one number in bfloat16; their weights must differ."""
    model = hypertf.T5(tiny_config(d_kv=8), dtype="mixed_bfloat16")
    attention = model.encoder.blocks[0].self_attention.layer
    queries = tf.ones((1, 2, 1, 8), "bfloat16")
    keys = np.zeros((1, 2, 2, 8), "float32")
    keys[:, :, 0, :2] = [256, 44]
    keys[:, :, 1, :2] = [256, 45]
    values = np.zeros((1, 2, 2, 8), "float32")
    values[:, :, 1] = 1.0
    out = attention.attend(
        queries, tf.cast(keys, "bfloat16"), tf.cast(values, "bfloat16"), 0.0
    )
    expected = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(tf.cast(out, "float32"), expected, rtol=1e-2)


def test_attention_bias_is_float32(bfloat16_model, monkeypatch):
    model, _ = bfloat16_model
    attention = type(model.encoder.blocks[0].self_attention.layer)
    attend, seen = attention.attend, []

    def record(self, queries, keys, values, bias, training=False):
        seen.append((queries.dtype, bias.dtype))
        return attend(self, queries, keys, values, bias, training)

    monkeypatch.setattr(attention, "attend", record)
    model(batch())
    assert set(seen) == {(tf.bfloat16, tf.float32)}


def test_loss_is_float32():
    logits = tf.cast(np.random.default_rng(0).normal(size=(2, 3, 500)) * 9, "bfloat16")
    targets = np.array([[4, 5, 6], [7, 0, 0]])
    loss = T5Loss()
    assert loss(targets, logits).dtype == "float32"
    expected = loss(targets, tf.cast(logits, "float32"))
    np.testing.assert_allclose(loss(targets, logits), expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 40, 50), (3, 4, 40, 50)])
def test_dropout_mask_is_shared_along_the_length(shape):
    layer = Dropout(0.3, keras.random.SeedGenerator(1))
    y = layer(np.ones(shape, "float32"), training=True).numpy()
    assert (y == y[..., :1, :]).all()
    kept = y[..., 0, :] != 0
    np.testing.assert_allclose(y[..., 0, :][kept], 1 / 0.7, rtol=1e-6)
    assert 0.55 < kept.mean() < 0.85
    flat = kept.reshape(-1, shape[-1])
    assert len(np.unique(flat, axis=0)) == len(flat)  # rows and heads differ
    again = layer(np.ones(shape, "float32"), training=True).numpy()
    assert (again != y).any()
    np.testing.assert_array_equal(layer(np.ones(shape, "float32")), np.ones(shape))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_dropout_keeps_its_rate_in_half_precision(dtype):
    x = tf.ones((1000, 1000), dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = dropout(x, 0.1, keras.random.SeedGenerator(0))
    gradient = tape.gradient(y, x)
    assert y.dtype == gradient.dtype == dtype
    assert np.mean(y == 0) == pytest.approx(0.1, abs=0.0015)  # five deviations
    np.testing.assert_array_equal(gradient, y)  # the input is all ones


def test_dropout_sits_where_mesh_has_it(monkeypatch):
    """Embedding, attention weights, FFN hidden, each sublayer, end of the stack."""
    seen = []

    def record(shape, dtype, seed):
        seen.append(shape)
        return np.ones(shape, dtype)

    monkeypatch.setattr(keras.random, "uniform", record)
    model = tiny_model(num_encoder_layers=1, num_decoder_layers=1, dropout_rate=0.1)
    model(batch(), training=True)
    stream, hidden = (2, 1, 16), (2, 1, 24)
    encoder = [stream, (2, 2, 9, 1), stream, hidden, stream, stream]
    decoder = [stream, (2, 2, 5, 1), stream, (2, 2, 9, 1), stream, hidden]
    assert seen == [*encoder, *decoder, stream, stream]


def test_attention_weights_are_dropped_key_by_key():
    """Mesh TensorFlow drops weights [batch, heads, query, key], alike for queries."""
    model = tiny_model(dropout_rate=0.4)
    layer, state = (
        model.encoder.blocks[0].self_attention.layer,
        model.seed_generator.state,
    )
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 2, 7, 6)).astype("float32") for _ in range(3))
    bias = rng.normal(size=(2, 2, 7, 7)).astype("float32")
    before = state.numpy()
    got = layer.attend(q, k, v, bias, training=True)
    state.assign(before)
    kept = layer.dropout(np.ones((2, 2, 7, 1), "float32"), training=True).numpy()
    weights = tf.nn.softmax(q @ k.transpose(0, 1, 3, 2) + bias).numpy()
    dropped = weights * kept[..., 0][:, :, None]
    assert 0 < (dropped == 0).mean() < 1
    np.testing.assert_allclose(got, dropped @ v, rtol=1e-4, atol=1e-5)


def test_every_element_has_a_draw_of_its_own_if_asked(monkeypatch):
    """Where Hugging Face's T5 drops: weights of attention, not whole keys."""
    seen, uniform = [], keras.random.uniform

    def record(shape, **kwargs):
        seen.append(shape)
        return uniform(shape, **kwargs)

    monkeypatch.setattr(keras.random, "uniform", record)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    model = tiny_model(**sizes, dropout_rate=0.1, shared_dropout=False)
    model(batch(), training=True)
    read, written = (2, 9, 16), (2, 5, 16)
    encoder = [read, (2, 2, 9, 9), read, (2, 9, 24), read, read]
    decoder = [written, (2, 2, 5, 5), written, (2, 2, 5, 9), written, (2, 5, 24)]
    assert seen == [*encoder, *decoder, written, written]


def test_weights_of_attention_dropped_one_by_one():
    model = tiny_model(dropout_rate=0.4, shared_dropout=False)
    layer, state = (
        model.encoder.blocks[0].self_attention.layer,
        model.seed_generator.state,
    )
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 2, 7, 6)).astype("float32") for _ in range(3))
    relative = rng.normal(size=(1, 2, 7, 7)).astype("float32")
    mask = np.where(rng.random((2, 1, 1, 7)) < 0.2, -1e9, 0.0).astype("float32")
    weights = tf.nn.softmax(q @ k.transpose(0, 1, 3, 2) + relative + mask).numpy()
    before = state.numpy()
    dropped = layer.dropout(weights, training=True).numpy()
    assert len(np.unique((dropped == 0).sum(-1))) > 1  # rows of queries differ
    for bias in (relative + mask, Bias(relative, mask)):  # on a TPU it comes in parts
        state.assign(before)
        got = layer.attend(q, k, v, bias, training=True)
        np.testing.assert_allclose(got, dropped @ v, rtol=1e-4, atol=1e-5)


def test_dropout_rate_zero_draws_nothing():
    model = tiny_model(dropout_rate=0.0)
    np.testing.assert_array_equal(model(batch(), training=True), model(batch()))


def test_training_randomness_is_one_state():
    """The same state gives the same dropout; the state moves on at every call."""
    model = tiny_model(dropout_rate=0.3)
    state = model.seed_generator.state
    start = state.numpy()
    first = model(batch(), training=True)
    assert relative_error(model(batch(), training=True), first) > 1e-3
    state.assign(start)
    np.testing.assert_array_equal(model(batch(), training=True), first)
