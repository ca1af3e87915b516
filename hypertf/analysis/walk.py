"""A stack walked block by block, to look at what a model computes inside."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf
from keras import ops

from hypertf.t5 import T5, Conditioner, Sites, StackSites
from hypertf.t5.blocks import Block
from hypertf.t5.inputs import DECODER_TOKENS, ENCODER_TOKENS, OF_MODEL, only
from hypertf.t5.sites import STACKS
from hypertf.t5.stacks import mask_bias
from hypertf.types import Batch, Tensor


@dataclasses.dataclass(frozen=True)
class Visit:
    """What a block is about to be run on.

    Attributes:
        block: of the stack.
        sites: what a method does in it.
        x: the stream [batch, length, d_model], extra tokens first.
        bias: relative position and mask of self-attention.
        token_mask: [batch, length, 1], 0 at padding; None in the decoder.
        num_extra: how many of the keys are a method's: extra keys and extra tokens.
        num_tokens: how many of the rows of x are.
    """

    block: Block
    sites: Sites
    x: Tensor
    bias: Tensor
    token_mask: Tensor | None
    num_extra: int
    num_tokens: int


def walk(
    model: T5,
    inputs: Batch,
    stack: str,
    visit: Callable[[Visit], None] = lambda visit: None,
    change: Callable[[Sites], Sites] = lambda sites: sites,
) -> Tensor:
    """Runs a stack as the model would, block by block, and returns its output.

    Args:
        inputs: as of a call of the model, one example in a row. The encoder needs no
            decoder tokens.
        stack: "encoder" or "decoder".
        visit: called before each block.
        change: of each block's sites, such as one that keeps what it sees.
    """
    if stack not in STACKS:
        raise ValueError(f"stack={stack!r}, expected one of {', '.join(STACKS)}")
    inputs = {k: tf.cast(v, tf.int32) for k, v in only(inputs, OF_MODEL).items()}
    own = getattr(model, stack)
    memory = {}
    if stack == "encoder":
        tokens, sites = inputs[ENCODER_TOKENS], model.encoder_sites(inputs)
        token_mask = tokens > 0
    else:
        encoded, mask = model.encode(inputs)
        memory = {"memory": encoded, "memory_bias": mask_bias(mask[:, None, :])}
        sites = model.decoder_sites(inputs, encoded, mask)
        tokens, token_mask = inputs[DECODER_TOKENS], None
    x, token_mask = own.with_tokens(model.shared(tokens), token_mask, sites)
    visible = None if token_mask is None else token_mask[:, None, :]
    bias = own.bias(x.shape[1], sites.num_keys, visible)
    if token_mask is not None:
        token_mask = ops.cast(token_mask, "float32")[:, :, None]
    for block, block_sites in zip(own.blocks, sites.blocks, strict=True):
        block_sites = change(block_sites)
        num_extra = sites.num_keys + sites.num_tokens
        given = (block, block_sites, x, bias, token_mask)
        visit(Visit(*given, num_extra, sites.num_tokens))
        x = block(x, bias=bias, token_mask=token_mask, sites=block_sites, **memory)
    return own.rms_norm(x, token_mask, sites.norm_scale)


def real_queries(inputs: Batch, stack: str) -> np.ndarray:
    """Tells which places [batch, length] of a stack's input are no padding.

    The decoder's first token is 0 too, and stands for the start.
    """
    tokens = np.asarray(
        inputs[ENCODER_TOKENS if stack == "encoder" else DECODER_TOKENS]
    )
    real = tokens > 0
    if stack == "decoder":
        real[:, 0] = True
    return real


def members(conditioner: Conditioner | None) -> Iterator[Conditioner]:
    """Yields the methods of a conditioner: itself, or those that it combines."""
    if conditioner is not None:
        yield from getattr(conditioner, "members", (conditioner,))


def sites_of_tasks(model: T5, stack: str) -> StackSites:
    """Makes what a method does in a stack that reads no input, a row for each task."""
    task_ids = tf.range(model.conditioner.num_tasks)
    if stack == "encoder":
        return model.conditioner.encoder(task_ids)
    return model.conditioner.decoder(task_ids, None, None)
