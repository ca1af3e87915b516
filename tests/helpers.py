"""Small models and batches that many tests use."""

import contextlib
import dataclasses
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

import hypertf
import hypertf.t5.config
from hypertf.testing.case import log_likelihood, relative_error, rows  # noqa: F401


def run_graphs_as_traced(as_traced=True):
    """Leaves out what TensorFlow rewrites in graphs, which repays in long runs only."""
    options = {"disable_meta_optimizer": as_traced}
    tf.config.optimizer.set_experimental_options(options)


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


@contextlib.contextmanager
def shallow_nano():
    """Leaves `t5-nano` one layer in each stack: half of it to trace and compile."""
    config = dataclasses.replace(
        hypertf.T5Config.from_name("t5-nano"),
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
    with mock.patch.dict(hypertf.t5.config._SIZES, {"t5-nano": config}):
        yield


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
