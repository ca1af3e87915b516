"""The plain T5 equals Mesh TensorFlow's: a real checkpoint, packed rows, training."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.t5 import named_weights
from hypertf.t5.inputs import shift_right
from hypertf.training import T5Loss
from tests.helpers import relative_error
from tests.parity.goldens import golden_folders

TOLERANCE = 1e-4
# What Mesh calls a packed row's parts, and what the model does.
PACKED = {
    "encoder_tokens": "packed_inputs",
    "encoder_segment_ids": "packed_inputs_segmentation",
    "encoder_positions": "packed_inputs_position",
    "decoder_segment_ids": "packed_targets_segmentation",
    "decoder_positions": "packed_targets_position",
}


@pytest.fixture(scope="module", params=golden_folders("mesh_t5*/**/variables.json"))
def folder(request):
    return request.param


@pytest.fixture(scope="module")
def model(folder):
    model = hypertf.T5(hypertf.checkpoints.read_config(folder))
    hypertf.checkpoints.load(model, folder)
    return model


@pytest.fixture(scope="module")
def io(folder):
    return dict(np.load(folder / "io.npz"))


@pytest.fixture(scope="module")
def decode(folder):
    return dict(np.load(folder / "decode.npz"))


def plain_batch(io):
    return {
        "encoder_tokens": io["inputs"],
        "decoder_tokens": shift_right(io["targets"]),
    }


def packed_batch(io):
    batch = {ours: io[theirs] for ours, theirs in PACKED.items()}
    segments = io["packed_targets_segmentation"]
    batch["decoder_tokens"] = shift_right(io["packed_targets"], segments)
    return batch


@pytest.mark.parametrize("jit", [False, True])
def test_outputs(model, io, jit):
    batch = plain_batch(io)
    run = tf.function(
        lambda b: (model.encode(b)[0], model(b)), jit_compile=jit, autograph=False
    )
    encoder_output, logits = run(batch)
    assert relative_error(encoder_output, io["encoder_output"]) < TOLERANCE
    real = (io["targets"] > 0)[..., None]
    assert relative_error(logits * real, io["logits"] * real) < TOLERANCE


def test_padding_is_exactly_zero_in_the_encoder(model, io):
    encoder_output, _ = model.encode(plain_batch(io))
    assert not encoder_output[io["inputs"] == 0].numpy().any()


@pytest.mark.parametrize("jit", [False, True])
def test_packed_rows(model, io, jit):
    batch = packed_batch(io)
    run = tf.function(
        lambda b: (model.encode(b)[0], model(b)), jit_compile=jit, autograph=False
    )
    encoder_output, logits = run(batch)
    assert relative_error(encoder_output, io["packed_encoder_output"]) < TOLERANCE
    assert relative_error(logits, io["packed_logits"]) < TOLERANCE
    targets = io["packed_targets"]
    for z_loss, name in ((1e-4, "packed_train_loss"), (0.0, "packed_eval_loss")):
        assert relative_error(T5Loss(z_loss)(targets, logits), io[name]) < TOLERANCE


def test_losses(model, io):
    logits = model(plain_batch(io))
    for z_loss, name in ((1e-4, "train_loss"), (0.0, "eval_loss")):
        loss = T5Loss(z_loss)(io["targets"], logits)
        assert relative_error(loss, io[name]) < TOLERANCE


def test_gradients(model, io, folder):
    weights = named_weights(model)
    with tf.GradientTape() as tape:
        loss = T5Loss()(io["targets"], model(plain_batch(io)))
    got = tape.gradient(loss, [weight.value for weight in weights.values()])
    expected = dict(np.load(folder / "grads.npz"))
    assert set(expected) == set(weights)
    for name, gradient in zip(weights, got, strict=True):
        gradient = tf.convert_to_tensor(gradient)
        assert relative_error(gradient, expected[name]) < TOLERANCE, name


def test_greedy(model, decode):
    expected = decode["greedy_clean"]
    ids = model.generate({"encoder_tokens": decode["decode_inputs"]}, expected.shape[1])
    np.testing.assert_array_equal(ids, expected)


def test_beams(model, decode):
    sizes = [re.fullmatch(r"beam(\d+)_clean", key) for key in decode]
    sizes = [int(match[1]) for match in sizes if match]
    assert sizes
    for beam_size in sizes:
        expected = decode[f"beam{beam_size}_clean"]
        ids, scores = model.generate(
            {"encoder_tokens": decode["decode_inputs"]},
            expected.shape[1],
            beam_size=beam_size,
            return_scores=True,
        )
        assert np.array_equal(ids, expected)
        assert relative_error(scores, decode[f"beam{beam_size}_score"]) < TOLERANCE


@pytest.mark.parametrize("jit", [False, True])
def test_training_goes_on_from_the_checkpoint(folder, io, jit):
    """With slots and step restored, three more steps give the recorded losses."""
    config = hypertf.checkpoints.read_config(folder)
    model = hypertf.T5(dataclasses.replace(config, dropout_rate=0.0))
    optimizer = hypertf.Adafactor(learning_rate=1e-3)
    hypertf.checkpoints.load(model, folder, optimizer=optimizer)
    assert int(optimizer.iterations) == int(io["first_global_step"])
    batch, targets, loss = plain_batch(io), io["targets"], T5Loss()

    @tf.function(jit_compile=jit, autograph=False)
    def step():
        with tf.GradientTape() as tape:
            value = loss(targets, model(batch, training=True))
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(value, [v.value for v in variables]), variables)
        return value

    losses = [step() for _ in io["train_loss_by_step"]]
    assert relative_error(losses, io["train_loss_by_step"]) < TOLERANCE
