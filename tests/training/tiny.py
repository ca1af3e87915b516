"""Tiny models of several methods, and batches that mix three tasks."""

import keras
import numpy as np
import tensorflow as tf

import hypertf
from tests.helpers import rows, tiny_config

TASKS = 3
ROWS = 8
METHODS = {
    "none": {},
    "hypergrid": {"d_r": 4, "d_c": 8},
    "hyperprompt-global": {"encoder_length": 3, "decoder_length": 2, "bottleneck": 4},
    "hyperformer++": {"bottleneck": 4},
    "hyperdecoder": {"encoder_size": 4, "decoder_size": 3, "bottleneck": 5},
}


def make_model(method="none", rematerialize=False, layers=1, options=None, **config):
    """A model whose weights depend on the method and the sizes alone."""
    config = {
        "dropout_rate": 0.0,
        "num_encoder_layers": layers,
        "num_decoder_layers": layers,
        **config,
    }
    config = tiny_config(**config)
    options = {**METHODS[method], **(options or {})}
    keras.utils.set_random_seed(3)
    conditioner = hypertf.conditioning.create(method, config, TASKS, **options)
    model = hypertf.T5(config, conditioner=conditioner)
    rng = np.random.default_rng(3)
    for weight in model.weights:
        # Spread, but not so wide that gradients magnify what is rounded.
        weight.assign(weight + 0.1 * rng.normal(size=weight.shape))
    if not rematerialize:
        return model
    return with_rematerialization(model)


def with_rematerialization(model):
    copy = hypertf.T5.from_config({**model.get_config(), "rematerialize": True})
    copy.set_weights(model.get_weights())
    return copy


def make_batches(number=1):
    """{name: [number, ROWS, ...]}: rows get longer, the third is a filler."""
    batches = []
    for seed in range(number):
        targets = rows([1, 1, 2, 2, 3, 5, 5, 4], 5, seed=seed)
        targets[2] = 0
        rng = np.random.default_rng(seed)
        batches.append(
            {
                "encoder_tokens": rows([3, 4, 4, 5, 8, 7, 8, 6], 8, seed=100 + seed),
                "decoder_tokens": np.pad(targets, ((0, 0), (1, 0)))[:, :-1],
                "targets": targets,
                "task_ids": rng.integers(0, TASKS, ROWS).astype("int32"),
            }
        )
    return {name: np.stack([b[name] for b in batches]) for name in batches[0]}


def batch_at(batches, number):
    return {name: value[number] for name, value in batches.items()}


def iterator(batches, start=0):
    return iter(tf.data.Dataset.from_tensor_slices(batches).skip(start))


def arrays(variables):
    """Copies of variables' values; those of replicas are of the first."""
    return [np.array(tf.convert_to_tensor(v.value)) for v in variables]
