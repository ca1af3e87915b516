"""Dropout with a mask shared along the length, as Mesh TensorFlow's T5, or not."""

from typing import Any

import keras
from keras import ops

from hypertf.t5 import target
from hypertf.t5.config import T5Config
from hypertf.t5.layer import Layer
from hypertf.types import Tensor


def dropout(
    x: Tensor,
    rate: float,
    seed_generator: keras.random.SeedGenerator,
    shared_axis: int | None = None,
) -> Tensor:
    """Keeps values with probability 1 - rate, and scales them by its inverse.

    One draw serves the whole of `shared_axis`. The mask is a small tensor of factors:
    one product in each direction, where choosing element by element takes two passes.
    Draws are float32 whatever x is, so that the rate is kept in half precision.
    """
    shape = list(ops.shape(x))
    if shared_axis is not None:
        shape[shared_axis] = 1
    mask = ops.where(
        uniform(tuple(shape), seed_generator) >= rate, 1.0 / (1.0 - rate), 0.0
    )
    return x * ops.cast(mask, x.dtype)


def uniform(
    shape: tuple[int, ...], seed_generator: keras.random.SeedGenerator
) -> Tensor:
    """Draws between 0 and 1, in float32."""
    return drawn(keras.random.uniform(shape, dtype="float32", seed=seed_generator))


def drawn(draws: Tensor) -> Tensor:
    """Random numbers as one device draws them, on a mesh too.

    There each device would otherwise draw its part by itself.
    """
    whole = target.current().whole
    return draws if whole is None else whole(draws)


class Dropout(Layer):
    """One draw serves a whole axis: by default the length of [batch, length, d_model].

    With None as `shared_axis` every element has its own.

    `seed_generator` is the model's own, so that one state holds all its randomness.
    """

    def __init__(
        self,
        rate: float,
        seed_generator: keras.random.SeedGenerator,
        shared_axis: int | None = -2,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.shared_axis = shared_axis
        self.seed_generator = seed_generator
        self.built = True

    def call(self, x: Tensor, training: bool = False) -> Tensor:
        """Drops values of x [batch, length, d_model] in training only."""
        if not training or not self.rate:
            return x
        return dropout(x, self.rate, self.seed_generator, self.shared_axis)


def make_dropout(
    config: T5Config,
    seed_generator: keras.random.SeedGenerator,
    shared_axis: int = -2,
    **kwargs: Any,
) -> Dropout:
    """Makes the dropout of a model, whose draws serve an axis if its config says so."""
    axis = shared_axis if config.shared_dropout else None
    return Dropout(config.dropout_rate, seed_generator, shared_axis=axis, **kwargs)
