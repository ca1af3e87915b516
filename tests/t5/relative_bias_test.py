"""Buckets of relative distances, and where the bias lands."""

import numpy as np
import pytest

from hypertf.t5.relative_bias import buckets, relative_bias

# From FACTS: the bucket of each distance, counting backwards from the query.
DISTANCES = np.array([7, 8, 12, 16, 23, 32, 46, 64, 91, 128])
ENCODER = [7, 8, 9, 10, 11, 12, 13, 14, 15, 15]
DECODER = [7, 8, 12, 16, 18, 21, 24, 26, 29, 31]


def test_known_distances():
    encoder = buckets(-DISTANCES, True, 32, 128)
    decoder = buckets(-DISTANCES, False, 32, 128)
    np.testing.assert_array_equal(encoder, ENCODER)
    np.testing.assert_array_equal(decoder, DECODER)


def test_what_lies_ahead():
    ahead = buckets(DISTANCES, True, 32, 128)
    np.testing.assert_array_equal(ahead, np.array(ENCODER) + 16)
    assert not buckets(DISTANCES, False, 32, 128).any()


@pytest.mark.parametrize("bidirectional", [True, False])
def test_tensors_and_arrays_agree(bidirectional):
    import tensorflow as tf

    relative = np.arange(-600, 601, dtype="int32")
    from_tensor = buckets(tf.constant(relative), bidirectional, 32, 128)
    from_array = buckets(relative, bidirectional, 32, 128)
    np.testing.assert_array_equal(from_tensor, from_array)


def test_bias_is_read_off_the_table_by_memory_minus_query():
    table = np.random.default_rng(0).normal(size=(3, 32)).astype("float32")
    query, key = np.array([[0, 1, 40]]), np.array([[0, 1, 2, 3]])
    bias = np.asarray(relative_bias(table, query, key, True, 128))
    assert bias.shape == (1, 3, 3, 4)
    for i, q in enumerate(query[0]):
        for j, k in enumerate(key[0]):
            bucket = buckets(np.array(k - q), True, 32, 128)
            np.testing.assert_array_equal(bias[0, :, i, j], table[:, bucket])
