"""Relative position buckets are Mesh TensorFlow's."""

import re

import numpy as np

from hypertf.t5.relative_bias import buckets
from tests.conftest import shared_path


def test_buckets_equal_mesh_tensorflow():
    golden = np.load(shared_path("goldens/relative_position_buckets.npz"))
    cases = [key for key in golden.files if key != "relative_position"]
    assert cases
    for case in cases:
        kind, count, distance = re.fullmatch(r"(\w+?)_(\d+)_(\d+)", case).groups()
        got = buckets(
            golden["relative_position"],
            kind == "bidirectional",
            int(count),
            int(distance),
        )
        np.testing.assert_array_equal(got, golden[case], err_msg=case)
