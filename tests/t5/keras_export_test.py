"""Keras's own words for leaving Python: `export`, `quantize`."""

import numpy as np
import pytest
import tensorflow as tf

from hypertf.conditioning import create
from tests.helpers import mixed_batch, relative_error, tiny_config, tiny_model


@pytest.mark.parametrize("method", ["none", "ia3"])
def test_export_takes_any_batch_and_length(method, tmp_path):
    model = tiny_model(1, create(method, tiny_config(), 3))
    model.export(str(tmp_path / "forward"), verbose=False)
    loaded = tf.saved_model.load(tmp_path / "forward")
    for tasks in ([0, 2, 1, 2], [1]):
        batch = mixed_batch(tasks)
        if method == "none":
            del batch["task_ids"]
        batch["decoder_tokens"] = batch["decoder_tokens"][:, : 2 + len(tasks)]
        got = loaded.serve({k: tf.constant(v) for k, v in batch.items()})
        assert relative_error(got, model(batch)) < 1e-5


def test_quantize_says_where_to_go():
    model = tiny_model()
    before = [np.array(weight) for weight in model.weights]
    with pytest.raises(NotImplementedError, match=r"hypertf\.export\.save\(.*int8"):
        model.quantize("int8")
    for weight, was in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight, was)
