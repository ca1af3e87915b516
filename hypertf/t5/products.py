"""Products of the stream with kernels, by the way that is fastest for their shape."""

import math

import tensorflow as tf
from keras import ops

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
    groups = GROUPS_OF_ONE_ROW if _rows(x) == 1 else GROUPS
    if not _has_few_rows(x) or kernel.shape[0] % groups:
        return tf.einsum("bli,io->blo", x, kernel)
    size, out = kernel.shape[0] // groups, kernel.shape[1]
    kernel = tf.reshape(kernel, [groups, size, out])
    parts = tf.reshape(x, [-1, groups, size])
    y = tf.reduce_sum(tf.einsum("rgi,gio->gro", parts, kernel), axis=0)
    return tf.reshape(y, [*x.shape[:2], out])


def project_on_rows(x: Tensor, table: Array) -> Tensor:
    """Multiplies x [batch, length, in] by the transpose of table [out, in]."""
    table = ops.cast(table, x.dtype)
    if not _has_few_rows(x) or table.shape[0] % GROUPS:
        return tf.einsum("bli,oi->blo", x, table)
    groups = tf.reshape(table, [GROUPS, -1, table.shape[1]])
    rows = tf.reshape(x, [-1, table.shape[1]])
    y = tf.einsum("goi,gri->rgo", groups, tf.tile(rows[None], [GROUPS, 1, 1]))
    return tf.reshape(y, [*x.shape[:2], table.shape[0]])


def _rows(x):
    return None if None in x.shape[:2] else math.prod(x.shape[:2])


def _has_few_rows(x):
    rows = _rows(x)
    if rows is None or rows > FEW_ROWS:
        return False
    return all(d.device_type == "CPU" for d in tf.config.list_logical_devices())
