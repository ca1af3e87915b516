"""The moments of a training step at which a device may hold most, by named dimensions.

In the backward pass the values that were kept go, block by block, as the gradients of
weights come. Both change evenly within a stack, so that the most is held where a stack
begins or ends. Weights and slots are there all the time.
"""

import dataclasses

from hypertf.mesh.activations import (
    Extra,
    Sizes,
    gradient_of_memory,
    in_one_block,
)
from hypertf.mesh.tensors import Named, gradient
from hypertf.t5 import T5Config

ENCODER = "encoder"


def moments(
    config: T5Config,
    weights: list[Named],
    kept: list[Named],
    sizes: Sizes,
    extra: dict[str, Extra],
) -> dict[str, list[Named]]:
    """Lists what is held at each moment, of a step that keeps `kept` going forward."""
    all_copies = copies(config, weights, sizes)
    block = in_one_block(config, sizes, extra)
    last_stack = [*_of_encoder(kept, True), *_of_encoder(all_copies, True)]
    gradients = [each for weight in weights for each in gradient(weight)]
    so_far = [*last_stack, *_of_encoder(gradients, False)]
    return {
        "at the loss": [*kept, *all_copies, *_of_head(config, gradients)],
        "after the decoder": [*so_far, gradient_of_memory(config, sizes, extra)],
        "in the encoder's last block": [*so_far, block[-1]],
        "in the encoder's first block": [*gradients, *block],
    }


def copies(config: T5Config, weights: list[Named], sizes: Sizes) -> list[Named]:
    """The kernels in the type that is computed with, where that is narrower."""
    return [
        dataclasses.replace(weight, itemsize=sizes.itemsize)
        for weight in weights
        if is_kernel(config, weight) and weight.itemsize > sizes.itemsize
    ]


def is_kernel(config: T5Config, weight: Named) -> bool:
    """Whether a weight is multiplied with; others are looked up or scale a norm."""
    if "vocab" in weight.dims:
        return is_head(config, weight)
    return len(weight.dims) > 1 and "buckets" not in weight.dims


def is_head(config: T5Config, weight: Named) -> bool:
    """Whether logits are made with a weight; the embedding is it where T5 ties them."""
    is_table = weight.dims == ("vocab", "d_model")
    return "vocab" in weight.dims and is_table == config.tie_embeddings


def _of_head(config, gradients):
    return [each for each in gradients if is_head(config, each)]


def _of_encoder(tensors, wanted):
    return [t for t in tensors if t.name.startswith(ENCODER) == wanted]
