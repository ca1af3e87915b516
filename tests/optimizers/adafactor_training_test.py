"""Adafactor in `fit`, under XLA and strategies, through saving and restoring."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from hypertf.optimizers import Adafactor

ROOT = Path(__file__).resolve().parents[2]
INPUTS = np.random.default_rng(0).integers(0, 200, (32, 4))
TARGETS = np.random.default_rng(1).normal(size=(32, 3)).astype("float32")


def create_model(optimizer, jit_compile=False):
    """A model with factored and unfactored variables, and a sparse gradient."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            keras.layers.Embedding(200, 130),
            keras.layers.Flatten(),
            keras.layers.Dense(140),
            keras.layers.Dense(3),
        ]
    )
    model.compile(optimizer, "mse", jit_compile=jit_compile)
    return model


def fit(model, epochs=2):
    model.fit(INPUTS, TARGETS, batch_size=8, epochs=epochs, shuffle=False, verbose=0)


def weights(model):
    # Of variables with replicas, too.
    return [np.array(tf.convert_to_tensor(w.value)) for w in model.weights]


def assert_same(actual, expected, tolerance=1e-6):
    for one, other in zip(actual, expected, strict=True):
        scale = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale)


def test_fit_learns():
    model = create_model(Adafactor(1e-2))
    before = model.evaluate(INPUTS, TARGETS, verbose=0)
    fit(model, epochs=10)
    assert model.evaluate(INPUTS, TARGETS, verbose=0) < 0.5 * before


@pytest.mark.parametrize("accumulate", [None, 2])
def test_fit_is_the_same_under_xla(accumulate):
    trained = []
    for jit_compile in (False, True):
        optimizer = Adafactor(1e-2, gradient_accumulation_steps=accumulate)
        model = create_model(optimizer, jit_compile)
        fit(model)
        trained.append(weights(model))
    assert_same(*trained, tolerance=1e-5)


def test_late_step_rounds_as_mesh_under_xla():
    # 1 - (1 - p) in float32 is not p: XLA must not simplify it.
    decay = np.float32(1) - np.float32(1_000_001) ** np.float32(-0.8)
    for jit_compile in (False, True):
        variable, optimizer = keras.Variable([1.0]), Adafactor()
        optimizer.build([variable])
        optimizer.set_step(1_000_000)
        tf.function(optimizer.apply, jit_compile=jit_compile)([tf.constant([1.0])])
        v = optimizer.slots(variable)["v"]
        np.testing.assert_allclose(v, [np.float32(1) - decay], rtol=1e-6)


@pytest.mark.parametrize("dtype_policy", ["mixed_bfloat16", "mixed_float16"])
def test_fit_in_mixed_precision(dtype_policy):
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype_policy)
    try:
        model = create_model(Adafactor(1e-2))
    finally:
        keras.config.set_dtype_policy(policy)
    before = model.evaluate(INPUTS, TARGETS, verbose=0)
    fit(model, epochs=5)
    assert model.evaluate(INPUTS, TARGETS, verbose=0) < before


@pytest.mark.parametrize("restore_first", [False, True])
def test_checkpoint_continues_the_run(tmp_path, restore_first):
    model = create_model(Adafactor(1e-2, beta1=0.5))
    fit(model)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(
        tmp_path / "checkpoint"
    )
    fit(model)

    other = create_model(Adafactor(1e-2, beta1=0.5))
    other.set_weights([np.zeros_like(w) for w in weights(other)])
    if not restore_first:
        other.optimizer.build(other.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=other, optimizer=other.optimizer)
    status = checkpoint.restore(path)
    if restore_first:
        other.optimizer.build(other.trainable_variables)
    status.assert_consumed()
    fit(other)
    assert_same(weights(other), weights(model), tolerance=0)


def test_saved_keras_model_continues_the_run(tmp_path):
    model = create_model(Adafactor(1e-2, exclude_from_parameter_scale=["embed"]))
    fit(model)
    model.save(tmp_path / "model.keras")
    other = keras.saving.load_model(tmp_path / "model.keras")
    fit(model)
    fit(other)
    assert_same(weights(other), weights(model), tolerance=0)


def test_two_replicas_equal_one_device():
    # In a process of its own: virtual devices must come before all else.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert "replicas equal one device" in result.stdout


def compare_replicas():
    cpu = tf.config.list_physical_devices("CPU")[0]
    halves = [tf.config.LogicalDeviceConfiguration() for _ in range(2)]
    tf.config.set_logical_device_configuration(cpu, halves)
    strategies = [
        tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
        tf.distribute.MirroredStrategy(["CPU:0"]),
        tf.distribute.OneDeviceStrategy("CPU:1"),
    ]
    for accumulate in (None, 2):
        expected = train_with(tf.distribute.get_strategy(), accumulate)
        for strategy in strategies:
            assert_same(train_with(strategy, accumulate), expected)
    with pytest.raises(ValueError, match=r"use_ema=True: .* MirroredStrategy"):
        train_with(strategies[0], accumulate=2, use_ema=True)
    print("replicas equal one device")


def train_with(strategy, accumulate, **options):
    with strategy.scope():
        optimizer = Adafactor(
            1e-2, weight_decay=0.1, gradient_accumulation_steps=accumulate, **options
        )
        optimizer.exclude_from_weight_decay(var_names=["bias"])
        model = create_model(optimizer)
    fit(model)
    return weights(model)


if __name__ == "__main__":
    compare_replicas()
