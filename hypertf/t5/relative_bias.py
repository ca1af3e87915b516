"""Relative position bias: one number per head and bucketed distance."""

import math

import numpy as np
from keras import ops

from hypertf.types import Array, Tensor


def buckets(
    relative_position: np.ndarray | Tensor,
    bidirectional: bool,
    num_buckets: int,
    max_distance: int,
) -> np.ndarray | Tensor:
    """Gives the bucket of each `memory position - query position`, an integer array.

    Half of the buckets (of each direction's) hold one distance each; the others
    grow logarithmically up to `max_distance`, beyond which all share the last.
    """
    if isinstance(relative_position, np.ndarray):
        return _numpy_buckets(
            relative_position, bidirectional, num_buckets, max_distance
        )
    first = 0
    if bidirectional:
        first = ops.where(relative_position > 0, num_buckets // 2, 0)
        distance = ops.abs(relative_position)
    else:
        distance = ops.maximum(-relative_position, 0)
    # Computed, not looked up: comparisons cost nothing beside storing a table's rows.
    passed = [
        ops.cast(distance >= least, "int32")
        for least in _least_distances(bidirectional, num_buckets, max_distance)
    ]
    return first + sum(passed)


def _least_distances(bidirectional, num_buckets, max_distance):
    """The least distance of each bucket but the first, of one direction."""
    distances = np.arange(max_distance + 1)
    of_distance = _numpy_buckets(-distances, bidirectional, num_buckets, max_distance)
    return np.flatnonzero(np.diff(of_distance)) + 1


def _numpy_buckets(relative_position, bidirectional, num_buckets, max_distance):
    distance = -relative_position
    first = 0
    if bidirectional:
        num_buckets //= 2
        first = np.where(distance < 0, num_buckets, 0)
        distance = np.abs(distance)
    else:
        distance = np.maximum(distance, 0)
    exact = num_buckets // 2
    # Float32 as in Mesh TensorFlow: at exact powers the rounding decides.
    ratio = np.log(np.maximum(distance, 1).astype("float32") / np.float32(exact))
    scale = np.float32(math.log(max_distance / exact))
    large = exact + (ratio / scale * np.float32(num_buckets - exact)).astype("int32")
    large = np.minimum(large, num_buckets - 1)
    return (first + np.where(distance < exact, distance, large)).astype("int32")


def relative_bias(
    table: Array,
    query_positions: np.ndarray | Tensor,
    key_positions: np.ndarray | Tensor,
    bidirectional: bool,
    max_distance: int,
) -> Tensor:
    """Computes the bias of self-attention, [batch or 1, heads, query, key].

    `table` is [heads, buckets]; positions are [batch or 1, length], numpy arrays
    where they are the same for every example.
    """
    relative = key_positions[:, None, :] - query_positions[:, :, None]
    bucket = buckets(relative, bidirectional, table.shape[1], max_distance)
    bias = ops.take(ops.transpose(table), bucket, axis=0)
    return ops.transpose(bias, (0, 3, 1, 2))
