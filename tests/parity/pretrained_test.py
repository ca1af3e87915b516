"""A real pretrained T5 1.1: its outputs are those that Hugging Face recorded."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf import checkpoints
from tests.conftest import shared_path

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tool = shared_path("tools/unpack_weights.py")
    folder = tmp_path_factory.mktemp("pretrained")
    subprocess.run([sys.executable, str(tool), str(folder)], check=True)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    model = hypertf.T5(checkpoints.read_config(folder))
    report = checkpoints.load(model, folder)
    assert report.format == "Hugging Face" and not report.left_over
    assert report.parameters == model.count_params()
    return model


@pytest.fixture(scope="module")
def recorded():
    path = shared_path("data/weights/recorded.json")
    cases = json.loads(path.read_text())
    assert cases
    return cases


def test_encoder_output(model, recorded):
    for case in recorded:
        output, _ = model.encode({"encoder_tokens": np.array([case["input_ids"]])})
        # Recorded to six decimals.
        assert np.mean(output) == pytest.approx(case["encoder_mean"], abs=2e-6)
        mean = np.mean(np.abs(output))
        assert mean == pytest.approx(case["encoder_abs_mean"], abs=2e-6)


def test_first_step_log_probabilities(model, recorded):
    for case in recorded:
        logits = model(
            {
                "encoder_tokens": np.array([case["input_ids"]]),
                "decoder_tokens": np.array([[0]]),
            }
        )
        log_probs = tf.nn.log_softmax(logits[0, 0]).numpy()
        ids = case["first_step_top5_ids"]
        wanted = case["first_step_top5_log_probs"]
        np.testing.assert_allclose(log_probs[ids], wanted, atol=1e-4, rtol=1e-4)
        assert list(np.argsort(-log_probs)[: len(ids)]) == ids, case["text"]


@pytest.fixture(scope="module")
def padded(recorded):
    """All inputs at one length, and the most steps: one shape to compile."""
    length = max(len(case["input_ids"]) for case in recorded)
    steps = max(len(case["greedy_ids"]) for case in recorded) - 1
    tokens = np.zeros((len(recorded), length), "int32")
    for row, case in zip(tokens, recorded, strict=True):
        row[: len(case["input_ids"])] = case["input_ids"]
    return tokens, steps


def assert_greedy(ids, cases):
    for row, case in zip(np.array(ids), cases, strict=True):
        wanted = case["greedy_ids"][1:]  # without the start token
        assert row[: len(wanted)].tolist() == wanted, case["text"]


def test_greedy_output(model, recorded, padded):
    tokens, steps = padded
    for row, case in zip(tokens, recorded, strict=True):
        ids = model.generate({"encoder_tokens": row[None]}, max_length=steps)
        assert_greedy(ids, [case])


def test_greedy_output_in_a_padded_batch(model, recorded, padded):
    tokens, steps = padded
    ids = model.generate({"encoder_tokens": tokens}, max_length=steps)
    assert_greedy(ids, recorded)


def test_written_back_it_is_the_same_file(model, folder, tmp_path):
    checkpoints.save(model, tmp_path / "out")
    other = hypertf.T5(model.config)
    checkpoints.load(other, tmp_path / "out")
    for ours, theirs in zip(other.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
