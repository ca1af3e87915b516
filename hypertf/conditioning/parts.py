"""Parts that several methods are made of."""

import math
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.t5 import target
from hypertf.t5.layer import Layer
from hypertf.t5.target import custom_gradient
from hypertf.t5.weights import add_weight
from hypertf.types import Tensor

Declared = Mapping[str, tuple[Mapping[str, int], Any]]


class Weights(Layer):
    """Holds weights as declared: `{name: (dims, initializer)}`."""

    def __init__(self, declared: Declared, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.declared = declared

    def add_weights(self) -> None:
        for name, (dims, initializer) in self.declared.items():
            setattr(self, name, add_weight(self, name, dims, initializer))


class Linear(Weights):
    """A kernel and a bias; `inputs` and `outputs` are `{dimension: size}` of one each.

    Weights are used in the compute type of the layer.
    """

    def __init__(
        self,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
        kernel_initializer: Any,
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        kernel = ({**inputs, **outputs}, kernel_initializer)
        bias = (dict(outputs), bias_initializer)
        super().__init__({"kernel": kernel, "bias": bias}, **kwargs)

    def cast(self) -> tuple[Tensor, Tensor]:
        """Kernel and bias in the compute type."""
        return (
            ops.cast(self.kernel, self.compute_dtype),
            ops.cast(self.bias, self.compute_dtype),
        )

    def call(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        kernel, bias = self.cast()
        return ops.matmul(ops.cast(x, self.compute_dtype), kernel) + bias


def uniform(bound: float) -> keras.initializers.Initializer:
    """Draws between -bound and bound."""
    return keras.initializers.RandomUniform(-bound, bound)


def look_up(x: Tensor, task_ids: Tensor, axis: int = 0) -> Tensor:
    """The tasks' entries of x along an axis: `tf.gather` with a cheaper gradient.

    Gradients of examples add up to those of tasks in a matrix product. TensorFlow
    would go through them one by one, and turn the tensor for an axis within it.
    """
    shape = x.shape
    if target.current().mesh:
        return _look_up_by_product(x, task_ids, axis)
    flat = [math.prod(shape[:axis]), -1, math.prod(shape[axis + 1 :])]

    @custom_gradient
    def gather(x: Tensor) -> tuple:
        def gradient(of_examples: Tensor) -> Tensor:
            tasks = tf.one_hot(task_ids, shape[axis], dtype=x.dtype)  # [batch, tasks]
            rows = tf.reshape(of_examples, flat)
            return tf.reshape(tf.matmul(tasks, rows, transpose_a=True), shape)

        return tf.gather(x, task_ids, axis=axis), gradient

    return gather(x)


def _look_up_by_product(x: Tensor, task_ids: Tensor, axis: int) -> Tensor:
    """The same for tensors split over a mesh, where a gather within is not known."""
    tasks = tf.one_hot(task_ids, x.shape[axis], dtype=x.dtype)  # [batch, tasks]
    letters = "abcdefgh"[: len(x.shape)]
    before, after = letters[:axis], letters[axis + 1 :]
    return tf.einsum(f"nt,{before}t{after}->{before}n{after}", tasks, x)


def layer_norm(x: Tensor, scale: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """The norm that subtracts the mean, biased variance, in float32."""
    dtype, x = x.dtype, ops.cast(x, "float32")
    mean = ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(x - mean), axis=-1, keepdims=True)
    x = (x - mean) * ops.rsqrt(variance + epsilon)
    return ops.cast(x * scale + bias, dtype)
