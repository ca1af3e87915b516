"""Log-likelihood of given targets, several choices per example or one."""

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from keras import ops

from hypertf.t5 import target
from hypertf.t5.inputs import TARGETS, shift_right
from hypertf.t5.stacks import mask_bias
from hypertf.types import Batch, Tensor

if TYPE_CHECKING:
    from hypertf.t5.model import T5


def log_likelihood(model: "T5", inputs: Batch) -> Tensor:
    """Sums log p over real target tokens: [batch], or [batch, choices].

    The choices of an example lie one after another in one row and do not see each
    other, so that encoder and conditioner run once per example.
    """
    targets = inputs[TARGETS]
    choices = targets.shape[1] if len(targets.shape) == 3 else 1
    length = targets.shape[-1]
    memory, memory_mask = model.encode(inputs)
    sites = model.decoder_sites(inputs, memory, memory_mask)
    visible, positions = _side_by_side(choices, length, sites.num_tokens)
    tokens = shift_right(ops.reshape(targets, (-1, length)))
    x = model.decoder(
        model.shared(ops.reshape(tokens, (-1, choices * length))),
        sites=sites,
        visible=visible,
        positions=positions,
        memory=memory,
        memory_bias=mask_bias(memory_mask[:, None, :]),
    )
    logits = model.logits(x[:, sites.num_tokens :, :])
    logits = ops.reshape(logits, (-1, choices, length, logits.shape[-1]))
    ids = ops.reshape(targets, (-1, choices, length))
    scores = ops.sum(ops.where(ids > 0, token_log_probs(logits, ids), 0.0), axis=-1)
    return scores if len(targets.shape) == 3 else scores[:, 0]


def token_log_probs(logits: Tensor, ids: Tensor) -> Tensor:
    """Looks up the log probability of ids [...]: logits [..., vocab] -> [...]."""
    if target.current().mesh:  # the vocabulary may be split
        is_chosen = tf.range(logits.shape[-1]) == ops.expand_dims(ids, -1)
        chosen = ops.sum(ops.where(is_chosen, logits, 0.0), axis=-1)
    else:
        chosen = ops.take_along_axis(logits, ids[..., None], axis=-1)[..., 0]
    return chosen - ops.logsumexp(logits, axis=-1)


def _side_by_side(choices, length, num_tokens):
    """Which places see each other, and their positions: extra tokens, choices."""
    choice = np.repeat(np.arange(choices), length)
    choice = np.concatenate([np.full(num_tokens, -1), choice])  # -1: seen by all
    visible = (choice[:, None] == choice[None]) | (choice[None] < 0)
    position = np.tile(num_tokens + np.arange(length), choices)
    position = np.concatenate([np.arange(num_tokens), position]).astype("int32")
    return visible[None], position[None]
