"""A batch on its way to a mesh: one array there, its parts again in the function.

DTensor takes a small array by itself, such as task ids, for a constant, and expands
whatever it goes into again when it changes. So all arrays go side by side.
"""

import math

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from hypertf.mesh import devices
from hypertf.mesh.layouts import Layout
from hypertf.mesh.tensors import Named
from hypertf.types import Batch

Shapes = tuple[tuple[str, tuple[int, ...]], ...]  # each array's, without the batch


def side_by_side(
    batch: Batch, layout: Layout, mesh: dtensor.Mesh
) -> tuple[tf.Tensor, Shapes]:
    """Lays out integer arrays of a batch as [batch, columns]; each device its rows.

    Every process gives the whole batch.
    """
    arrays = {name: np.asarray(x) for name, x in batch.items()}
    shapes = tuple((name, x.shape[1:]) for name, x in arrays.items())
    columns = [x.reshape([len(x), -1]).astype("int32") for x in arrays.values()]
    joined = np.concatenate(columns, axis=1)
    tensor = Named("batch", ("batch", "columns"), joined.shape)
    return devices.put(joined, devices.layout_on(tensor, layout, mesh)), shapes


def taken_apart(joined: tf.Tensor, shapes: Shapes) -> Batch:
    """The arrays by name again, of what `side_by_side` made."""
    batch, start = {}, 0
    for name, shape in shapes:
        end = start + math.prod(shape)
        part = joined[:, start:end] if shape else joined[:, start]
        if len(shape) > 1:
            part = tf.reshape(part, [-1, *shape])
        batch[name] = part
        start = end
    return batch
