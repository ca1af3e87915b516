"""Rematerialisation: a block's inner values are computed again in the backward pass."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from hypertf.t5.sites import map_tensors
from hypertf.types import Tensor


def rematerialized(
    block: Callable,
    seed_generator: keras.random.SeedGenerator,
    weights: Sequence[tuple[keras.Variable, Tensor]],
    x: Tensor,
    **kwargs: Any,
) -> Tensor:
    """Runs `block(x, **kwargs)`, remembering its inputs only.

    What the sites hold is an input too, for gradients to reach who made it. The
    random state is handed over, so that dropout draws the same numbers both times.
    `weights` are pairs of a variable and what is read in its place.
    """
    variables, values = [v for v, _ in weights], [value for _, value in weights]
    inputs, state, tensors = (x, values, kwargs), seed_generator.state, []
    map_tensors(lambda tensor, _: tensors.append(tensor), inputs)
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]

    def run(seed: Tensor, *tensors: Tensor) -> Tensor:
        given = iter(tensors)
        x, values, kwargs = map_tensors(lambda *_: next(given), inputs)
        pairs = [(state, seed), *zip(variables, values, strict=True)]
        with keras.StatelessScope(state_mapping=pairs):
            return block(x, **kwargs)

    # A seed of its own, far from the counting on of the generator within the block.
    seed = tf.random.experimental.stateless_fold_in(
        tf.cast(seed_generator.next(), tf.int64), 0
    )
    seed = tf.cast(seed, tf.as_dtype(state.dtype))
    return tf.recompute_grad(run)(seed, *tensors)
