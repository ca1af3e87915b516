"""Means over large matrices, each in one pass that stores nothing of their size."""

import math

import tensorflow as tf


def mean(x, axis):
    """Mean along an axis."""
    if not _prefers_products(x):
        return tf.reduce_mean(x, axis)
    rows, columns = x.shape
    if axis == 1:
        return tf.linalg.matvec(x, tf.ones([columns])) / columns
    # Rows are added up in groups, so that long float32 sums keep their digits.
    groups = math.gcd(rows, 64)
    folded = tf.reshape(x, [rows // groups, groups * columns])
    sums = tf.linalg.matvec(folded, tf.ones([rows // groups]), transpose_a=True)
    return tf.reduce_sum(tf.reshape(sums, [groups, columns]), 0) / rows


def weighted_mean(x, axis, weights):
    """Mean of x * weights along an axis that stays with size 1."""
    if not _prefers_products(x):
        return tf.reduce_mean(x * weights, axis, keepdims=True)
    size = x.shape[axis]
    weights = tf.reshape(weights, [size])
    sums = tf.linalg.matvec(x, weights, transpose_a=axis == 0)
    return tf.expand_dims(sums, axis) / size


def rms(x):
    """Root mean square of all elements."""
    return tf.sqrt(tf.nn.l2_loss(x) * (2 / x.shape.num_elements()))


def _prefers_products(x):
    """Whether to sum up by products with a vector, the fastest pass on a CPU.

    Other devices may round them to bfloat16 or TensorFloat-32.
    """
    device_types = {device.device_type for device in tf.config.list_logical_devices()}
    return len(x.shape) == 2 and device_types == {"CPU"}
