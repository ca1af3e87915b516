"""The plain T5 equals Hugging Face's, from embedding to beams."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.t5 import named_weights
from hypertf.training import token_losses
from tests.helpers import relative_error
from tests.parity.goldens import golden_folders

TOLERANCE = 1e-4


@pytest.fixture(scope="module", params=golden_folders("hf_t5*/**/config.json"))
def golden(request, tmp_path_factory):
    """The golden's model, its arrays, and how its beams were made."""
    source = request.param

    def model_of(tensors):
        """Reads the tensors as a Hugging Face folder would hold them."""
        folder = tmp_path_factory.mktemp(source.name)
        shutil.copy(source / "config.json", folder)
        shutil.copy(source / tensors, folder / "model.safetensors")
        model = hypertf.T5(hypertf.checkpoints.read_config(folder))
        hypertf.checkpoints.load(model, folder)
        return model

    return {
        "model": model_of("weights.safetensors"),
        # Gradients have the weights' names and shapes, so they load alike.
        "gradients": named_weights(model_of("grads.safetensors")),
        "io": dict(np.load(source / "io.npz")),
        "generation": json.loads((source / "config.json").read_text())["generation"],
    }


def inputs_of(io):
    return {
        "encoder_tokens": io["input_ids"],
        "decoder_tokens": io["decoder_input_ids"],
    }


@pytest.mark.parametrize("jit", [False, True])
def test_outputs(golden, jit):
    model, io = golden["model"], golden["io"]

    @tf.function(jit_compile=jit, autograph=False)
    def run(inputs):
        return model.encode(inputs)[0], model(inputs)

    encoder_output, logits = run(inputs_of(io))
    real = io["attention_mask"][..., None]
    assert relative_error(encoder_output, io["encoder_output"] * real) < TOLERANCE
    real = io["decoder_attention_mask"][..., None]
    assert relative_error(logits * real, io["logits"] * real) < TOLERANCE


def test_streams_between_blocks(golden):
    """Each block alone, from the recorded stream that enters it."""
    model, io = golden["model"], golden["io"]
    mask = io["attention_mask"].astype(bool)
    bias = model.encoder.bias(mask.shape[1], visible=mask[:, None])
    for i, block in enumerate(model.encoder.blocks[:-1]):
        y = block(tf.constant(io[f"encoder_hidden_{i}"]), bias)
        expected = io[f"encoder_hidden_{i + 1}"]
        assert relative_error(y[mask], expected[mask]) < TOLERANCE


def test_loss_and_gradients(golden):
    model, io = golden["model"], golden["io"]
    targets = np.maximum(io["labels"], 0)
    weights = named_weights(model)
    with tf.GradientTape() as tape:
        losses = token_losses(model(inputs_of(io)), targets)
        loss = tf.reduce_sum(losses)
    assert relative_error(loss, io["loss_sum"]) < TOLERANCE
    mean = loss / (targets > 0).sum()
    assert relative_error(mean, io["loss_mean"]) < TOLERANCE
    got = tape.gradient(loss, [w.value for w in weights.values()])
    for name, gradient in zip(weights, got, strict=True):
        gradient = tf.convert_to_tensor(gradient)
        error = relative_error(gradient, golden["gradients"][name])
        assert error < TOLERANCE, name


def test_greedy(golden):
    model, io = golden["model"], golden["io"]
    expected = io["greedy_ids"][:, 1:]
    ids = model.generate({"encoder_tokens": io["input_ids"]}, expected.shape[1])
    np.testing.assert_array_equal(ids, expected)


def test_score_is_the_loss(golden):
    model, io = golden["model"], golden["io"]
    targets = np.maximum(io["labels"], 0)
    scores = model.score({"encoder_tokens": io["input_ids"], "targets": targets})
    assert relative_error(-np.sum(scores), io["loss_sum"]) < TOLERANCE


def test_beams(golden):
    model, io, generation = golden["model"], golden["io"], golden["generation"]
    styles = {"never": "huggingface-never", False: "huggingface"}
    for tag, how in generation["tags"].items():
        ids, scores = model.generate(
            {"encoder_tokens": io["input_ids"]},
            generation["max_new_tokens"],
            beam_size=generation["num_beams"],
            num_sequences=generation["num_beams"],
            length_penalty=how["length_penalty"],
            beam_style=styles[how["early_stopping"]],
            return_scores=True,
        )
        np.testing.assert_array_equal(ids, io[f"beam_ids/{tag}"][:, :, 1:], tag)
        assert relative_error(scores, io[f"beam_scores/{tag}"]) < TOLERANCE, tag


def test_buckets(golden):
    from hypertf.t5.relative_bias import buckets

    io = golden["io"]
    for key in io:
        if not key.startswith("bucket_"):
            continue
        kind, count, distance = key.split("_")[1:]
        bidirectional = kind == "bidirectional"
        got = buckets(io["rel_positions"], bidirectional, int(count), int(distance))
        np.testing.assert_array_equal(got, io[key])
