"""Means over large matrices, each in one pass that stores nothing of their size.

Every function takes n tensors of one shape and gives one tensor [n, ...]: what is
small is then computed for all of them at once.
"""

import math

import tensorflow as tf

from hypertf.t5 import target
from hypertf.types import Tensor


def stack(tensors: list[Tensor]) -> Tensor:
    """Stacks tensors; one alone stays split over a mesh as it was."""
    return tf.stack(tensors) if len(tensors) > 1 else tf.expand_dims(tensors[0], 0)


def unstack(tensor: Tensor) -> list[Tensor]:
    """Takes apart what was stacked."""
    return tf.unstack(tensor) if tensor.shape[0] > 1 else [tf.squeeze(tensor, 0)]


def means(tensors: list[Tensor], axis: int) -> Tensor:
    """Takes the mean of each along an axis."""
    if not _prefers_products(tensors[0]):
        return stack([tf.reduce_mean(x, axis) for x in tensors])
    rows, columns = tensors[0].shape
    if axis == 1:
        ones = tf.ones([columns, 1])
        sums = stack([tf.matmul(x, ones) for x in tensors])  # [n, rows, 1]
        return tf.reshape(sums, [-1, rows]) / columns
    # Rows are added up in groups, so that long float32 sums keep their digits.
    groups = math.gcd(rows, 64)
    ones = tf.ones([1, rows // groups])
    folded = [tf.reshape(x, [rows // groups, groups * columns]) for x in tensors]
    sums = stack([tf.matmul(ones, x) for x in folded])
    return tf.reduce_sum(tf.reshape(sums, [-1, groups, columns]), 1) / rows


def weighted_means(tensors: list[Tensor], axis: int, weights: Tensor) -> Tensor:
    """Takes the mean of each x * its weights along an axis that stays with size 1.

    weights [n, ...] have size 1 along all other axes.
    """
    weights = unstack(weights)
    pairs = list(zip(tensors, weights, strict=True))
    if not _prefers_products(tensors[0]):
        return stack([tf.reduce_mean(x * w, axis, keepdims=True) for x, w in pairs])
    if axis == 1:  # [rows, columns] x [1, columns]
        sums = [tf.matmul(x, w, transpose_b=True) for x, w in pairs]
    else:  # [rows, 1] x [rows, columns]
        sums = [tf.matmul(w, x, transpose_a=True) for x, w in pairs]
    return stack(sums) / tensors[0].shape[axis]


def rms(tensors: list[Tensor]) -> Tensor:
    """Takes the root mean square of all elements of each: [n]."""
    size = tensors[0].shape.num_elements()
    return tf.sqrt(stack([tf.nn.l2_loss(x) for x in tensors]) * (2 / size))


def _prefers_products(x):
    """Whether to sum up by products with a vector, the fastest pass on a CPU.

    Other devices may round them to bfloat16 or TensorFloat-32.
    """
    asked = target.current()
    return len(x.shape) == 2 and asked.device == "CPU" and not asked.mesh
