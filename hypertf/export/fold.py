"""Folding: a task's changes to kernels and norms, written into a plain T5."""

from keras import ops

from hypertf.t5 import Sites, StackSites
from hypertf.t5.blocks import Block
from hypertf.t5.sites import SUBLAYERS
from hypertf.t5.stacks import Stack
from hypertf.types import Tensor

# What no kernel and no norm can do, in words.
SITES = {
    "keys_values": "puts keys and values before those of self-attention",
    "after_attention": "changes what self-attention gives, after its last kernel",
    "after_ffn": "changes what the feed-forward gives, after its last kernel",
    "beside_ffn": "adds a network beside the feed-forward",
    "observe": "reads the stream inside the block",
}


def fold_into_plain(stack: Stack, sites: StackSites, method: str) -> None:
    """Changes the weights of a plain stack to those that sites of one task ask for.

    Everything is checked before the first weight changes.
    """
    reason = why_not(stack, sites)
    if reason is not None:
        raise ValueError(
            f"bake: {method} cannot be folded into a plain T5: it {reason}"
        )
    for block, block_sites in zip(stack.blocks, sites.blocks, strict=True):
        _fold_block(block, block_sites, stack.name)
    if sites.norm_scale is not None:
        stack.rms_norm.scale.assign(_row(sites.norm_scale))


def why_not(stack: Stack, sites: StackSites) -> str | None:
    """What of the sites is no change of a kernel or a norm; None if all is."""
    if sites.tokens is not None:
        return f"puts tokens before the input of the {stack.name}"
    for block, block_sites in zip(stack.blocks, sites.blocks, strict=True):
        for site, what in SITES.items():
            if block_sites.uses(site):
                return what
        for name, kernel in _kernels(block, block_sites).items():
            if block_sites.folded(name, kernel) is None:
                return f"changes the kernel {name} example by example"
    return None


def _fold_block(block: Block, sites: Sites, stack: str) -> None:
    for name, kernel in _kernels(block, sites).items():
        kernel.assign(ops.cast(sites.folded(name, kernel), kernel.dtype))
    for sublayer in SUBLAYERS[stack]:
        scale = sites.norm_scale(sublayer)
        if scale is not None:
            getattr(block, sublayer).rms_norm.scale.assign(_row(scale))


def _kernels(block: Block, sites: Sites) -> dict:
    """`{name: weight}` of the block's kernels that the sites change."""
    feed_forward = block.feed_forward.layer
    kernels = {w.name: w.kernel for w in (*feed_forward.wi, feed_forward.wo)}
    for sublayer in (block.self_attention, block.cross_attention):
        if sublayer is not None:
            layer = sublayer.layer
            kernels |= {layer.prefix + n: getattr(layer, n) for n in "qkvo"}
    return {name: kernel for name, kernel in kernels.items() if name in sites.kernels}


def _row(scale: Tensor) -> Tensor:
    """A scale of one example [1, 1, d_model] or [1, d_model] -> [d_model]."""
    return ops.reshape(scale, (-1,))
