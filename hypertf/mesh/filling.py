"""Weights on a mesh filled from a checkpoint of any form, one weight at a time.

    weights = devices.distribute(model, layout, mesh)  # a model without values will do
    print(filling.load(weights, model, "t5-11b/model.ckpt-1000000"))

No process holds more than one whole weight, however large the model.
"""

import os
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from hypertf.checkpoints.loading import Report, load_by
from hypertf.checkpoints.matching import Pair
from hypertf.checkpoints.reader import Reader, numpy_type
from hypertf.mesh import devices
from hypertf.t5 import T5, named_weights

Weights = Mapping[str, dtensor.DVariable]


def load(weights: Weights, model: T5, path: str | os.PathLike) -> Report:
    """Fills a model's weights on a mesh, as `hypertf.checkpoints.load` the model's own.

    All processes have to call it, and read the same checkpoint.

    Args:
        weights: by name, as `devices.distribute` makes them.
        model: whose weights they are; its own are left as they are.
        path: as `hypertf.checkpoints.load` takes it.
    """
    by_id = {id(v): weights[name] for name, v in named_weights(model).items()}

    def fill_one(pair: Pair, reader: Reader) -> None:
        assign(by_id[id(pair.variable)], _whole_tensor(pair, reader))

    return load_by(model, path, fill_one, lambda _: start_from_others(weights, model))


def start_from_others(weights: Weights, model: T5) -> None:
    """Has the conditioner set its weights on the mesh that start from T5's own."""
    if model.conditioner is None:
        return
    with _OnMesh(weights, model) as scope:
        model.conditioner.initialize_from(model)
    for name, variable in named_weights(model).items():
        if id(variable) in scope.state_mapping:
            assign(weights[name], np.asarray(scope.state_mapping[id(variable)]))


def assign(variable: dtensor.DVariable, value: np.ndarray) -> None:
    """Sets a variable on a mesh; each device is handed its own slice only."""
    value = value.astype(numpy_type(variable.dtype.name), copy=False)
    variable.assign(devices.put(value, variable.layout))


def _whole_tensor(pair, reader):
    tensor = reader.tensors[pair.name]
    whole = np.empty(tensor.shape, numpy_type(tensor.dtype))
    for start, stop, rows in reader.blocks(pair.name):
        if tensor.shape:
            whole[start:stop] = rows
        else:
            whole[...] = rows
    return whole.T if pair.transpose else whole


class _OnMesh(keras.StatelessScope):
    """A scope in which a model's weights have the values of those on a mesh.

    What is assigned stays in `state_mapping`.
    """

    def __init__(self, weights: Weights, model: T5) -> None:
        super().__init__(initialize_variables=False)
        named = named_weights(model)
        self._weights = {id(named[name]): v for name, v in weights.items()}

    def get_current_value(self, variable: keras.Variable) -> tf.Tensor | None:
        """The value that a variable has in this scope, read when it is asked for."""
        value = super().get_current_value(variable)
        if value is None and id(variable) in self._weights:
            value = tf.constant(devices.whole(self._weights[id(variable)]))
        return value
