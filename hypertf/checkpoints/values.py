"""Moves values between Keras variables and files, a block of rows at a time."""

from collections.abc import Iterable, Iterator

import keras
import numpy as np
import tensorflow as tf

from hypertf.checkpoints.reader import Block, StoredTensor, numpy_type, row_ranges


def fill(
    variable: keras.Variable, blocks: Iterable[Block], transpose: bool = False
) -> None:
    """Writes `blocks` of `(start, stop, rows)` into a variable.

    With `transpose` the rows are the variable's columns. A variable of one device is
    written in place, so that no part of it is in memory twice.
    """
    shape = tuple(variable.shape)
    dtype = numpy_type(variable.dtype)
    value = variable.value
    # Not so those of a strategy or a mesh, which subclass it.
    in_place = type(value).__name__ == "ResourceVariable"
    whole = None if in_place else np.empty(shape, dtype)
    for start, stop, rows in blocks:
        rows = rows.astype(dtype, copy=False)
        rows = rows.T if transpose else rows
        if in_place:
            _write(value.handle, shape, start, stop, rows, axis=int(transpose))
        elif transpose:
            whole[:, start:stop] = rows
        else:
            whole[start:stop] = rows
    if not in_place:
        variable.assign(whole)


def _write(handle, shape, start, stop, rows, axis):
    # Not variable[start:stop].assign: that reads the variable, and so copies it.
    begin, end = np.zeros(len(shape), "int32"), np.array(shape, "int32")
    if shape:
        begin[axis], end[axis] = start, stop
    tf.raw_ops.ResourceStridedSliceAssign(
        ref=handle, begin=begin, end=end, strides=np.ones_like(begin), value=rows
    )


def described(
    variable: keras.Variable, dtype: str, transpose: bool = False
) -> StoredTensor:
    """Describes the tensor that a variable becomes in a file."""
    shape = tuple(variable.shape)
    return StoredTensor(shape[::-1] if transpose else shape, dtype)


def blocks(
    variable: keras.Variable, dtype: str, transpose: bool = False
) -> Iterator[np.ndarray]:
    """Yields the rows of what `described` describes, a block at a time."""
    value = tf.convert_to_tensor(variable.value)  # shares the variable's memory
    tensor = described(variable, dtype, transpose)
    if not tensor.shape:
        yield value.numpy().astype(numpy_type(dtype))
        return
    for start, stop in row_ranges(tensor):
        rows = value[:, start:stop] if transpose else value[start:stop]
        rows = rows.numpy().astype(numpy_type(dtype), copy=False)
        yield rows.T if transpose else rows


def grouped(sizes: dict[str, int], limit: int) -> list[list[str]]:
    """Splits the names of `{name: bytes}` into lists of at most `limit` bytes.

    A name that is larger has a list of its own.
    """
    groups, filled = [[]], 0
    for name, size in sizes.items():
        if groups[-1] and filled + size > limit:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += size
    return groups
