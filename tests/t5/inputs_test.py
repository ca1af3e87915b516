"""Bad input gets one clear error."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import tiny_model

GOOD = {"encoder_tokens": [[5, 6, 1]], "decoder_tokens": [[0, 7]]}


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder_tokens": [[5, 60, 1]]}, r"encoder_tokens: token id 60 at \[0, 1\]"),
        ({"decoder_tokens": [[0, -3]]}, r"decoder_tokens: token id -3 at \[0, 1\]"),
        ({"encoder_tokens": [5, 6, 1]}, r"encoder_tokens: shape \(3,\), .* rank 2"),
        ({"encoder_tokens": [[0.5, 1.0]]}, "encoder_tokens: type float64"),
        ({"encoder_tokens": np.zeros((1, 0), int)}, r"shape \(1, 0\) holds nothing"),
        ({"decoder_tokens": np.zeros((0, 4), int)}, r"shape \(0, 4\) holds nothing"),
        ({"decoder_tokens": None}, "'decoder_tokens' is missing"),
        ({"targets": [[1]]}, "unknown 'targets'"),
        ({"task_ids": [[0]]}, r"task_ids: shape \(1, 1\), expected rank 1"),
        ({"encoder_segment_ids": [[1, 1, 1]]}, "packed rows need all of"),
    ],
)
def test_bad_batches(model, change, message):
    with pytest.raises(ValueError, match=message):
        model({**GOOD, **change})


def test_not_a_dict(model):
    with pytest.raises(ValueError, match="expected a dict with 'encoder_tokens'"):
        model(np.ones((2, 3), int))


def test_tensors_are_checked_too(model):
    with pytest.raises(ValueError, match="token id 99"):
        model({**GOOD, "encoder_tokens": tf.constant([[99]])})


@pytest.mark.parametrize("call", ["generate", "score"])
def test_generate_and_score_check(model, call):
    bad = {"encoder_tokens": [[5, 61]], "targets": [[5, 1]]}
    with pytest.raises(ValueError, match="token id 61"):
        if call == "generate":
            model.generate({"encoder_tokens": bad["encoder_tokens"]}, 3)
        else:
            model.score(bad)


def test_integers_of_any_kind_and_unused_task_ids(model):
    expected = model(GOOD)
    for dtype in ("int64", "uint8", "int16"):
        batch = {name: np.array(value, dtype) for name, value in GOOD.items()}
        batch["task_ids"] = np.array([3])
        np.testing.assert_array_equal(model(batch), expected)
