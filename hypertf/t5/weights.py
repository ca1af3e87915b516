"""Weights with named dimensions, and the names they go by.

Every weight of the model says what its axes are (`vocab`, `d_model`, `heads`,
`d_ff`, `buckets`), in Mesh TensorFlow's words: layout rules read them. Its name is
the one Mesh TensorFlow's T5 gives it, e.g.
`encoder/block_000/layer_000/SelfAttention/q`.
"""

from typing import Any, Self

import keras
from keras import initializers, ops

from hypertf.keras_internals import pending_variables
from hypertf.types import Array


def add_weight(
    layer: keras.layers.Layer,
    name: str,
    dims: dict[str, int],
    initializer: keras.initializers.Initializer | str,
) -> keras.Variable:
    """Adds to `layer` the weight `name`; `dims` is `{dimension name: size}`.

    It is read in its own type, never rounded by Keras: who uses it casts it.
    """
    weight = layer.add_weight(
        name=name,
        shape=tuple(dims.values()),
        initializer=initializer,
        autocast=False,
    )
    weight.dims = tuple(dims)
    return weight


def kept_weight(name: str, value: Array) -> keras.Variable:
    """Keeps what was computed of weights, in a model whose weights no longer change.

    Its layer must hold it past Keras's tracking: it is no part of the model's state.
    """
    value = ops.convert_to_tensor(value)
    name = name.replace("/", "_")
    return keras.Variable(value, trainable=False, autocast=False, name=name)


def normal(stddev: float) -> initializers.Initializer:
    """Draws from a normal distribution of mean 0."""
    return initializers.RandomNormal(stddev=stddev)


def fan_in() -> initializers.Initializer:
    """Draws from a truncated normal of variance 1 / fan-in, as for the FFN."""
    return initializers.VarianceScaling(1.0, "fan_in", "truncated_normal")


def named_weights(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns a model's weights by name; its random state is not among them."""
    prefix = model.name + "/"
    return {weight.path.removeprefix(prefix): weight for weight in model.weights}


class Unallocated(keras.StatelessScope):
    """A scope in which a model is built with names and shapes, but no values.

    Counting parameters, laying out a mesh or mapping names needs no memory:

    ```python
    with hypertf.t5.Unallocated():
        model = hypertf.T5(hypertf.T5Config.from_name("t5-11b"))
    model.count_params()  # 11,307,321,344
    ```
    """

    def __init__(self) -> None:
        super().__init__(initialize_variables=False)

    def __enter__(self) -> Self:
        self._pending = pending_variables()
        self._before = list(self._pending)
        return super().__enter__()

    def __exit__(self, *args: Any) -> None:
        super().__exit__(*args)
        # Keras would allocate what is pending at the end of any later scope.
        self._pending[:] = self._before
