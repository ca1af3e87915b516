"""The model's inputs: their names, and checks of them before any long work.

A batch is a dictionary of integer arrays by these names; 0 is padding in all tokens
and segments.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from keras import ops

from hypertf.types import Batch, Tensor

ENCODER_TOKENS = "encoder_tokens"  # [batch, length]
DECODER_TOKENS = "decoder_tokens"  # [batch, length], targets shifted right
TARGETS = "targets"  # [batch, length], or [batch, choices, length] to be ranked
TASK_IDS = "task_ids"  # [batch]; of packed rows that mix tasks [batch, segments]
# [batch], of a row in its dataset; -1 only fills up a batch. Of packed rows [batch,
# segments], which says how many segments a row may have.
INDEX = "index"

# Of packed rows, each [batch, length].
ENCODER_SEGMENT_IDS = "encoder_segment_ids"
ENCODER_POSITIONS = "encoder_positions"
DECODER_SEGMENT_IDS = "decoder_segment_ids"
DECODER_POSITIONS = "decoder_positions"
PACKED = (
    ENCODER_SEGMENT_IDS,
    ENCODER_POSITIONS,
    DECODER_SEGMENT_IDS,
    DECODER_POSITIONS,
)

OF_ENCODER = (ENCODER_TOKENS, TASK_IDS)
OF_MODEL = (ENCODER_TOKENS, DECODER_TOKENS, TASK_IDS)
OF_PACKED = (*OF_MODEL, *PACKED, INDEX)
_TOKENS = (ENCODER_TOKENS, DECODER_TOKENS, TARGETS)


def only(batch: Batch, names: Sequence[str]) -> Batch:
    """Takes from a batch what goes by these names, as far as it is there."""
    return {name: batch[name] for name in names if name in batch}


def of_model(batch: Batch) -> Batch:
    """Takes from a batch what the model takes, be its rows packed or not."""
    is_packed = batch.get(ENCODER_SEGMENT_IDS) is not None
    return only(batch, OF_PACKED if is_packed else OF_MODEL)


def shift_right(targets: Tensor, segment_ids: Tensor | None = None) -> Tensor:
    """Moves targets one place right, into decoder inputs: 0 before each example.

    `[[5, 6, 1, 0]]` becomes `[[0, 5, 6, 1]]`; with segment ids `[[1, 1, 2, 2]]`
    `[[5, 1, 6, 1]]` becomes `[[0, 5, 0, 6]]`.
    """
    shifted = ops.pad(targets[:, :-1], ((0, 0), (1, 0)))
    if segment_ids is None:
        return shifted
    before = ops.pad(segment_ids[:, :-1], ((0, 0), (1, 0)))
    return ops.where(segment_ids == before, shifted, ops.zeros_like(shifted))


def arrays(inputs: Batch) -> Batch:
    """Turns lists of numbers into arrays, so that a user may type them."""
    if not isinstance(inputs, dict):
        return inputs
    return {
        name: np.asarray(value) if isinstance(value, (list, tuple)) else value
        for name, value in inputs.items()
    }


def check(
    inputs: Batch,
    required: Sequence[str],
    optional: Sequence[str],
    vocab_size: int,
    num_tasks: int | None = None,
) -> None:
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
    is_packed = inputs.get(ENCODER_SEGMENT_IDS) is not None
    for name, value in inputs.items():
        if name not in required and name not in optional:
            raise ValueError(
                f"inputs: unknown {name!r}; known are {_names((*required, *optional))}"
            )
        if value is not None:
            _check_one(name, value, vocab_size, is_packed)
            if name == TASK_IDS and num_tasks is not None:
                _check_range(name, value, num_tasks, "task id", "num_tasks")


def _names(names):
    return ", ".join(map(repr, names))


def _check_one(name, value, vocab_size, is_packed):
    dtype = tf.as_dtype(value.dtype)
    if not dtype.is_integer:
        raise ValueError(f"{name}: type {dtype.name}, expected integers")
    rank = len(value.shape)
    of_task_ids = (1, 2) if is_packed else (1,)
    ranks = {TASK_IDS: of_task_ids, INDEX: (1, 2), TARGETS: (2, 3)}.get(name, (2,))
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
    if name in _TOKENS:
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
