"""Checks of what a user hands to the model, before any long work."""

import numpy as np
import tensorflow as tf

TOKENS = ("encoder_tokens", "decoder_tokens", "targets")
PACKED = (
    "encoder_segment_ids",
    "encoder_positions",
    "decoder_segment_ids",
    "decoder_positions",
)


def arrays(inputs):
    """Lists of numbers as arrays, so that a user may type them."""
    if not isinstance(inputs, dict):
        return inputs
    return {
        name: np.asarray(value) if isinstance(value, (list, tuple)) else value
        for name, value in inputs.items()
    }


def check(inputs, required, optional, vocab_size, num_tasks=None):
    """Raises one clear error if `inputs` is not what the model takes."""
    if not isinstance(inputs, dict):
        raise ValueError(
            f"inputs: expected a dict with {_names(required)}, "
            f"got {type(inputs).__name__}"
        )
    for name in required:
        if inputs.get(name) is None:
            raise ValueError(
                f"inputs: {name!r} is missing; got {_names(inputs) or 'nothing'}, "
                f"expected {_names(required)}"
            )
    for name, value in inputs.items():
        if name not in required and name not in optional:
            raise ValueError(
                f"inputs: unknown {name!r}; known are {_names((*required, *optional))}"
            )
        if value is not None:
            _check_one(name, value, vocab_size)
            if name == "task_ids" and num_tasks is not None:
                _check_range(name, value, num_tasks, "task id", "num_tasks")


def _names(names):
    return ", ".join(map(repr, names))


def _check_one(name, value, vocab_size):
    dtype = tf.as_dtype(value.dtype)
    if not dtype.is_integer:
        raise ValueError(f"{name}: type {dtype.name}, expected integers")
    rank = len(value.shape)
    ranks = {"task_ids": (1,), "targets": (2, 3)}.get(name, (2,))
    if rank not in ranks:
        raise ValueError(
            f"{name}: shape {tuple(value.shape)}, expected rank "
            f"{' or '.join(map(str, ranks))}"
        )
    if 0 in tuple(value.shape):
        raise ValueError(
            f"{name}: shape {tuple(value.shape)} holds nothing; "
            "expected at least one example of at least one token"
        )
    if name in TOKENS:
        _check_range(name, value, vocab_size, "token id", "vocab_size")


def _check_range(name, value, limit, kind, limit_name):
    """Looks at the values where there are any: graphs have none to look at."""
    if not isinstance(value, np.ndarray) and not hasattr(value, "numpy"):
        return
    values = np.asarray(value)
    outside = (values < 0) | (values >= limit)
    if outside.any():
        where = tuple(int(i) for i in np.argwhere(outside)[0])
        raise ValueError(
            f"{name}: {kind} {values[where]} at {list(where)}, "
            f"expected 0 <= id < {limit_name}={limit}"
        )
