"""Products of the stream with kernels, by the way that is fastest for their shape."""

import math

import tensorflow as tf
from keras import ops

from hypertf.t5 import target
from hypertf.t5.lean_attention import barrier
from hypertf.types import Array, Tensor

# A decoding step has few rows, and reading the kernel is its cost. On CPU under XLA a
# batched product over groups of the kernel was measured faster than the plain one;
# the counts are those that came out best on two cores.
FEW_ROWS, GROUPS = 32, 8
GROUPS_OF_ONE_ROW = 4


def project(x: Tensor, kernel: Array) -> Tensor:
    """Multiplies x [batch, length, in] by the kernel [in, out].

    An einsum is one matrix product both ways; `matmul` of these ranks makes the
    kernel's gradient once per example and adds them up.
    """
    kernel = ops.cast(kernel, x.dtype)
    if not target.current().xla:
        return _flat(x, kernel)
    groups = GROUPS_OF_ONE_ROW if _rows(x) == 1 else GROUPS
    if not _has_few_rows(x) or kernel.shape[0] % groups:
        return tf.einsum("bli,io->blo", x, kernel)
    size, out = kernel.shape[0] // groups, kernel.shape[1]
    kernel = tf.reshape(kernel, [groups, size, out])
    parts = tf.reshape(x, [-1, groups, size])
    y = tf.reduce_sum(tf.einsum("rgi,gio->gro", parts, kernel), axis=0)
    return tf.reshape(y, [-1, x.shape[1], out])


def cast_once(kernel: Array, dtype: str) -> Tensor:
    """Casts a large kernel for the products of a training step.

    On a TPU they share one tensor. The compiler would cast anew in every product, for
    which it brings the kernel onto the chip at its full width.
    """
    kernel = tf.convert_to_tensor(kernel)
    if target.current().device != "TPU" or kernel.dtype == dtype:
        return tf.cast(kernel, dtype)

    @target.custom_gradient
    def cast(kernel):
        (narrow,) = barrier(tf.cast(kernel, dtype))
        return narrow, lambda upstream: tf.cast(upstream, kernel.dtype)

    return cast(kernel)


def project_on_rows(x: Tensor, table: Array) -> Tensor:
    """Multiplies x [batch, length, in] by the transpose of table [out, in]."""
    table = ops.cast(table, x.dtype)
    if not target.current().xla:
        return _flat_on_rows(x, table)
    if not _has_few_rows(x) or table.shape[0] % GROUPS:
        return tf.einsum("bli,oi->blo", x, table)
    groups = tf.reshape(table, [GROUPS, -1, table.shape[1]])
    rows = tf.reshape(x, [-1, table.shape[1]])
    y = tf.einsum("goi,gri->rgo", groups, tf.tile(rows[None], [GROUPS, 1, 1]))
    return tf.reshape(y, [-1, x.shape[1], table.shape[0]])


def project_to_heads(x: Tensor, kernel: Array, heads: int) -> Tensor:
    """Multiplies x [batch, length, in] by the kernel: [batch, heads, length, d_kv]."""
    kernel = tf.reshape(ops.cast(kernel, x.dtype), [kernel.shape[0], heads, -1])
    return tf.einsum("bli,ihd->bhld", x, kernel)


def project_from_heads(x: Tensor, kernel: Array) -> Tensor:
    """Multiplies x [batch, heads, length, d_kv] by the kernel: [batch, length, out]."""
    kernel = ops.cast(kernel, x.dtype)
    kernel = tf.reshape(kernel, [x.shape[1], x.shape[3], kernel.shape[1]])
    return tf.einsum("bhld,hdo->blo", x, kernel)


def unstack(x: Tensor, axis: int = 0) -> list[Tensor]:
    """Takes x apart along an axis."""
    if not target.current().mesh:
        return tf.unstack(x, axis=axis)
    parts = tf.split(x, x.shape[axis], axis)  # DTensor knows no way to unstack
    return [tf.squeeze(part, axis) for part in parts]


def _flat(x, kernel):
    """One product of two matrices: TensorFlow's own kernels are best at those."""
    size, out = kernel.shape
    y = tf.matmul(tf.reshape(x, [-1, size]), kernel)
    length = x.shape[1] or tf.shape(x)[1]
    return tf.reshape(y, [-1, length, out])


def _flat_on_rows(x, table):
    """The table comes first: TensorFlow is slow with a transposed second matrix."""
    out, size = table.shape
    y = tf.matmul(table, tf.reshape(x, [-1, size]), transpose_b=True)
    length = x.shape[1] or tf.shape(x)[1]
    return tf.reshape(tf.transpose(y), [-1, length, out])


def _rows(x):
    """How many rows x has; None if that is unknown."""
    return None if None in x.shape[:2] else math.prod(x.shape[:2])


def _has_few_rows(x):
    """Whether x is that of a decoding step, on one CPU under XLA.

    A served batch is unknown when traced. Its decoding steps are told by their length,
    which is the number of beams.
    """
    asked = target.current()
    if not asked.xla or asked.device != "CPU" or asked.mesh:
        return False
    rows = _rows(x)
    if rows is None:
        return x.shape[1] is not None and x.shape[1] <= GROUPS
    return rows <= FEW_ROWS
