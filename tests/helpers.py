"""Small models and batches that many tests use."""

import keras
import numpy as np

import hypertf


def tiny_config(**overrides):
    sizes = {
        "vocab_size": 60,
        "d_model": 16,
        "d_ff": 24,
        "num_heads": 2,
        "d_kv": 6,
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
    }
    return hypertf.T5Config(**{**sizes, **overrides})


V1_1 = {"activation": "gated-gelu", "tie_embeddings": False}


def tiny_model(seed=0, conditioner=None, **overrides):
    """A small T5 whose weights are spread wide enough to make outputs differ."""
    keras.utils.set_random_seed(seed)
    model = hypertf.T5(tiny_config(**overrides), conditioner=conditioner)
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(weight + 0.2 * rng.normal(size=weight.shape))
    return model


def rows(lengths, width, vocab_size=60, seed=0):
    """Token rows of the given lengths, ended by 1 and padded with 0 to `width`."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(2, vocab_size, (len(lengths), width)).astype("int32")
    for row, length in zip(tokens, lengths, strict=True):
        row[length - 1] = 1
        row[length:] = 0
    return tokens


def mixed_batch(tasks=(0, 2, 1, 2)):
    """Rows of these tasks, of several lengths."""
    return {
        "encoder_tokens": rows([4, 8, 6, 8][: len(tasks)], 8),
        "decoder_tokens": rows([3, 4, 5, 5][: len(tasks)], 5),
        "task_ids": np.array(tasks, "int32"),
    }


def count(weights):
    """How many numbers they hold."""
    return sum(int(np.prod(weight.shape)) for weight in weights)


def log_likelihood(model, batch, ids):
    """Of what was written up to its end token, by one pass over the whole of it.

    Unlike `model.score`, counts padding that a random model wrote as text.
    """
    ids = np.asarray(ids)
    logits = model({**batch, "decoder_tokens": np.pad(ids, ((0, 0), (1, 0)))[:, :-1]})
    chosen = np.take_along_axis(
        keras.ops.log_softmax(logits).numpy(), ids[:, :, None], axis=-1
    )[:, :, 0]
    ended = np.cumsum(ids == 1, axis=1) - (ids == 1)
    return np.where(ended, 0, chosen).sum(axis=1)


def relative_error(got, expected):
    """Largest difference, relative to the scale of what is expected."""
    got, expected = np.asarray(got, "float64"), np.asarray(expected, "float64")
    assert got.shape == expected.shape, f"{got.shape} is not {expected.shape}"
    return np.abs(got - expected).max() / max(np.abs(expected).max(), 1e-30)
