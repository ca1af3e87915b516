"""What the plain model is made of, and what its outputs may depend on."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.t5 import named_weights
from hypertf.training import T5Loss
from tests.helpers import V1_1, relative_error, rows, tiny_config, tiny_model


@pytest.fixture(scope="module", params=[{}, V1_1], ids=["v1_0", "v1_1"])
def model(request):
    return tiny_model(**request.param)


def batch_of(lengths, width=9, target_width=5):
    targets = rows([3, 5, 2][: len(lengths)], target_width, seed=1)
    return {
        "encoder_tokens": rows(lengths, width),
        "decoder_tokens": np.pad(targets, ((0, 0), (1, 0)))[:, :-1],
    }


def test_every_weight_has_named_dimensions(model):
    config = model.config
    sizes = {
        "vocab": config.vocab_size,
        "d_model": config.d_model,
        "heads": (config.num_heads, config.d_heads),
        "d_ff": config.d_ff,
        "buckets": config.num_buckets,
    }
    for name, weight in named_weights(model).items():
        assert len(weight.dims) == len(weight.shape), name
        for dim, size in zip(weight.dims, weight.shape, strict=True):
            expected = sizes[dim]
            assert size == expected or size in np.atleast_1d(expected), name


def test_initial_values():
    config = tiny_config(
        d_model=256, num_heads=8, d_kv=16, d_ff=512, vocab_size=500, **V1_1
    )
    weights = named_weights(hypertf.T5(config))
    block = "decoder/block_001/"
    std = {
        "shared/embedding": 1.0,
        block + "layer_000/SelfAttention/q": (256 * 16) ** -0.5,
        block + "layer_000/SelfAttention/k": 256**-0.5,
        block + "layer_001/EncDecAttention/v": 256**-0.5,
        block + "layer_001/EncDecAttention/o": (8 * 16) ** -0.5,
        block + "layer_002/DenseReluDense/wi_0/kernel": 256**-0.5,
        block + "layer_002/DenseReluDense/wo/kernel": 512**-0.5,
        "decoder/logits/kernel": 256**-0.5,
    }
    for name, expected in std.items():
        value = weights[name].numpy()
        assert abs(value.mean()) < 0.03 * expected, name
        np.testing.assert_allclose(value.std(), expected, rtol=0.03, err_msg=name)
    table = weights["encoder/block_000/layer_000/SelfAttention/relative_attention_bias"]
    limit = (6 / (8 + 32)) ** 0.5  # Glorot uniform
    assert 0.9 * limit < np.abs(table).max() <= limit
    assert (weights["encoder/rms_norm/scale"].numpy() == 1).all()


@pytest.mark.parametrize("jit", [False, True])
def test_a_row_does_not_depend_on_batch_mates_or_padding(model, jit):
    run = tf.function(lambda b: model(b), jit_compile=jit, autograph=False)
    among = run(batch_of([4, 9, 6]))
    alone = run({**batch_of([4]), "encoder_tokens": _widened(batch_of([4]), 20)})
    assert relative_error(among[:1], alone) < 1e-5


def _widened(batch, width):
    tokens = batch["encoder_tokens"]
    return np.pad(tokens, ((0, 0), (0, width - tokens.shape[1])))


def test_the_decoder_sees_nothing_later(model):
    batch = batch_of([4, 9])
    logits = model(batch)
    changed = batch["decoder_tokens"].copy()
    changed[:, 3:] = 7
    later = model({**batch, "decoder_tokens": changed})
    assert relative_error(later[:, :3], logits[:, :3]) < 1e-6
    assert relative_error(later[:, 3:], logits[:, 3:]) > 1e-3


def test_a_row_of_padding_only_is_finite(model):
    batch = batch_of([4, 9])
    batch["encoder_tokens"][1] = 0
    assert np.isfinite(model(batch)).all()


def test_packed_rows_equal_separate_ones(model):
    first, second = batch_of([4], 4, 3), batch_of([5], 5, 4)
    packed = {
        name: np.concatenate([first[name], second[name]], axis=1)
        for name in ("encoder_tokens", "decoder_tokens")
    }
    for side, lengths in (("encoder", (4, 5)), ("decoder", (3, 4))):
        packed[f"{side}_segment_ids"] = np.repeat([[1, 2]], lengths, axis=1)
        packed[f"{side}_positions"] = np.concatenate(
            [np.arange(n) for n in lengths]
        ).astype("int32")[None]
    together = model(packed)
    assert relative_error(together[:, :3], model(first)) < 1e-5
    assert relative_error(together[:, 3:], model(second)) < 1e-5


@pytest.mark.parametrize("jit", [False, True])
def test_trains_with_compile_and_fit(jit):
    model = tiny_model(dropout_rate=0.1, num_encoder_layers=1, num_decoder_layers=1)
    batch = batch_of([4, 9, 6])
    targets = rows([3, 5, 2], 5, seed=1)
    optimizer = hypertf.Adafactor(learning_rate=0.01)
    model.compile(optimizer=optimizer, loss=T5Loss(), jit_compile=jit)
    history = model.fit(batch, targets, batch_size=3, epochs=30, verbose=0)
    assert history.history["loss"][-1] < 0.7 * history.history["loss"][0]


def test_keras_file_round_trip(model, tmp_path):
    batch = batch_of([4, 9])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.config == model.config
    np.testing.assert_array_equal(again(batch), model(batch))


def test_embedding_gradient_reaches_both_uses():
    """Tied: the table's gradient sums the embedding's and the head's part."""
    model = tiny_model()
    batch = batch_of([4])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(batch) ** 2)
    gradient = tape.gradient(loss, model.shared.embedding.value)
    gradient = tf.convert_to_tensor(gradient).numpy()
    unused = set(range(60)) - {*batch["encoder_tokens"][0], *batch["decoder_tokens"][0]}
    assert np.abs(gradient[sorted(unused)]).max() > 0  # through the head alone
