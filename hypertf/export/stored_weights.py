"""Weights on disk in fewer bits than they are computed with.

`StoredWeights` stands between a model's variables and what a SavedModel holds of them:

    float32   as they are
    int8      whole numbers and a scale per channel; float32 again when loaded, so that
              answers cost what they cost before
    bfloat16  half the bits; products are computed in bfloat16 too

Small weights (norms, biases, tables of few numbers) stay as they are.
"""

import contextlib
import uuid
from collections.abc import Iterable, Iterator

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from hypertf.keras_internals import children
from hypertf.types import Tensor

FORMATS = ("float32", "int8", "bfloat16")
SMALL = 4096  # numbers; below that a weight stays as it is


class Dequantized(tf.saved_model.experimental.TrackableResource):
    """A float32 weight that a SavedModel computes from int8 when it is loaded.

    Args:
        name: for its parts and the resource.
        value: the weight, [..., out] or a table of rows.
        axis: along which all numbers share a scale.
    """

    def __init__(self, name: str, value: np.ndarray, axis: int) -> None:
        super().__init__()
        numbers, scale = quantized(value, axis)
        self.shape = value.shape
        # One name per export: two versions in one process are two weights.
        self._name = f"{name}_{uuid.uuid4().hex}"
        self.parts = (
            tf.Variable(numbers, trainable=False, name=f"{name}_int8"),
            tf.Variable(scale, trainable=False, name=f"{name}_scale"),
        )
        self._initialize()

    def _create_resource(self) -> Tensor:
        return tf.raw_ops.VarHandleOp(
            dtype=tf.float32, shape=self.shape, shared_name=self._name
        )

    def _initialize(self) -> None:
        numbers, scale = self.parts
        value = tf.cast(numbers, tf.float32) * scale
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=value)

    def read(self) -> Tensor:
        """The weight as a tensor."""
        value = tf.raw_ops.ReadVariableOp(
            resource=self.resource_handle, dtype=tf.float32
        )
        return tf.ensure_shape(value, self.shape)


def quantized(value: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers from -127 to 127, and the scales by which they become the value.

    >>> numbers, scale = quantized(np.array([[0.5, 100.0], [-1.0, 50.0]]), axis=0)
    >>> numbers.tolist()
    [[64, 127], [-127, 64]]
    """
    scale = np.abs(value).max(axis=axis, keepdims=True) / 127.0
    scale = np.where(scale == 0.0, 1.0, scale).astype("float32")
    return np.round(value / scale).astype("int8"), scale


class StoredWeights(tf.Module):
    """Variables in the form in which they are saved.

    Args:
        weights: Keras variables that the functions to be saved read.
        form: one of `FORMATS`.
    """

    def __init__(self, weights: Iterable[keras.Variable], form: str) -> None:
        super().__init__()
        self.plain, self.dequantized, self.halves, self.parts = [], [], [], []
        self.__dict__["_reads"] = []  # past TensorFlow's tracking: the model's own
        for weight in weights:
            self._store(weight, form)

    def _store(self, weight: keras.Variable, form: str) -> None:
        name = weight.path.replace("/", "_")
        large = len(weight.shape) >= 2 and np.prod(weight.shape) >= SMALL
        if form == "float32" or not large or weight.dtype != "float32":
            self.plain.append(weight.value)
        elif form == "int8":
            value = ops.convert_to_numpy(weight)
            stored = Dequantized(name, value, axis=_shared_axis(weight))
            self.dequantized.append(stored)
            self.parts.extend(stored.parts)  # what a resource holds is not tracked
            self._reads.append((weight, stored.read))
        else:
            half = tf.Variable(
                tf.cast(weight.value, tf.bfloat16), trainable=False, name=name
            )
            self.halves.append(half)
            self._reads.append((weight, half.read_value))

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Within it, a graph that is traced reads the stored weights."""
        values = [(weight, read()) for weight, read in self._reads]
        with keras.StatelessScope(state_mapping=values):
            yield


def _shared_axis(weight: keras.Variable) -> int:
    """A table has a scale for each row, which is looked up by itself; a kernel for each
    column."""
    is_table = getattr(weight, "dims", ("",))[0] in ("vocab", "task_num")
    is_table = is_table or weight.name.endswith("_table")  # a transposed kernel
    return -1 if is_table else -2


def compute_in(layer: keras.layers.Layer, policy: str) -> None:
    """Gives a layer, and all that it holds, another dtype policy; it must not train."""
    layer.dtype_policy = keras.dtype_policies.get(policy)
    for child in children(layer):
        compute_in(child, policy)
