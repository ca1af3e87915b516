"""Attention for devices that wait for memory: little is stored, some computed twice.

What attention stores of size [batch, heads, query, key] decides how long a training
step takes on a TPU. Here nothing of that size outlives the pass that made it: the
logits are computed once for their maximum, again for the exponentials, and a third time
for those of the backward pass; relative position and mask are never added up for the
whole batch, the division by the sum comes after the product with the values, and the
gradient is written out.
"""

from typing import NamedTuple

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from hypertf.types import Tensor


class Bias(NamedTuple):
    """What is added to the logits, in float32; either may be None.

    Attributes:
        relative: [batch or 1, heads, query, key]; gets a gradient.
        mask: [batch or 1, 1, 1 or query, key]; gets none.
    """

    relative: Tensor | None
    mask: Tensor | None


def attend(queries: Tensor, keys: Tensor, values: Tensor, bias: Bias) -> Tensor:
    """Takes means of the values, by how well queries match keys.

    All are [batch, heads, length, d_kv]. To be compiled by XLA.
    """
    if bias.relative is None:
        return _attend(queries, keys, values, bias.mask)
    return _attend_with_relative(queries, keys, values, bias)


def barrier(*tensors: Tensor) -> list[Tensor]:
    """Returns the same tensors; the compiler moves nothing past this place."""
    return gen_xla_ops.xla_optimization_barrier(input=list(tensors))


def _attend(queries, keys, values, mask):
    @tf.custom_gradient
    def run(queries, keys, values):
        output, slopes = _forward(queries, keys, values, mask)

        def gradient(upstream):
            return _products(slopes(upstream), queries, keys)

        return output, gradient

    return run(queries, keys, values)


def _attend_with_relative(queries, keys, values, bias):
    @tf.custom_gradient
    def run(queries, keys, values, relative):
        added = relative if bias.mask is None else relative + bias.mask
        output, slopes = _forward(queries, keys, values, added)

        def gradient(upstream):
            slope, of_values = slopes(upstream)
            # Summed here and now: later, all layers' slopes would have to be kept.
            (slope,) = barrier(slope)
            of_relative = _float32(slope)
            if relative.shape[0] == 1:
                of_relative = tf.reduce_sum(of_relative, 0, keepdims=True)
            slope, of_relative = barrier(slope, of_relative)
            return *_products((slope, of_values), queries, keys), of_relative

        return output, gradient

    return run(queries, keys, values, tf.convert_to_tensor(bias.relative))


def _forward(queries, keys, values, added):
    """The output, and a function from its gradient to those of logits and values."""
    # Behind a barrier, or the compiler would store the logits to compute them once.
    (again,) = barrier(queries)
    top = tf.reduce_max(_logits(again, keys, added), -1, keepdims=True)
    (top,) = barrier(top)
    weights = tf.exp(_logits(queries, keys, added) - top)
    total = tf.reduce_sum(weights, -1, keepdims=True)  # [batch, heads, query, 1]
    weights, total = barrier(tf.cast(weights, values.dtype), total)
    output = tf.matmul(_float32(weights), _float32(values)) / total
    output = tf.cast(output, values.dtype)

    def slopes(upstream):
        # To keep the weights from the forward pass would cost more than a product.
        again, upstream = barrier(queries, upstream)
        weights = tf.exp(_logits(again, keys, added) - top)
        (weights,) = barrier(tf.cast(weights, values.dtype))
        up = _float32(upstream)
        mean = tf.reduce_sum(up * _float32(output), -1, keepdims=True)
        of_weights = tf.matmul(up, _float32(values), transpose_b=True)
        slope = _float32(weights) * ((of_weights - mean) / total)
        share = _float32(tf.cast(up / total, upstream.dtype))
        of_values = tf.matmul(_float32(weights), share, transpose_a=True)
        return tf.cast(slope, queries.dtype), tf.cast(of_values, values.dtype)

    return output, slopes


def _products(slopes, queries, keys):
    """Gradients of queries, keys and values."""
    slope, of_values = slopes
    slope = _float32(slope)
    of_queries = tf.matmul(slope, _float32(keys))
    of_keys = tf.matmul(slope, _float32(queries), transpose_a=True)
    return tf.cast(of_queries, queries.dtype), tf.cast(of_keys, keys.dtype), of_values


def _logits(queries, keys, added):
    products = tf.matmul(_float32(queries), _float32(keys), transpose_b=True)
    return products if added is None else products + added


def _float32(x):
    return tf.cast(x, tf.float32)
