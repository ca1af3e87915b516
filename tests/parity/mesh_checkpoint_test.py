"""A checkpoint that Mesh TensorFlow wrote: every variable, slot and step of it."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf import checkpoints
from hypertf.t5 import named_weights
from tests.parity.goldens import golden_folders


@pytest.fixture(scope="module", params=golden_folders("mesh_t5*/**/variables.json"))
def golden(request):
    return request.param


@pytest.fixture(scope="module")
def variables(golden):
    """`{name: array}` as TensorFlow reads them, checked against variables.json."""
    listed = json.loads((golden / "variables.json").read_text())
    reader = tf.train.load_checkpoint(str(golden))
    arrays = {v["name"]: reader.get_tensor(v["name"]) for v in listed}
    assert {v["name"]: v["dtype"] for v in listed} == {
        name: str(array.dtype) for name, array in arrays.items()
    }
    return arrays


@pytest.fixture(scope="module")
def trainable(golden):
    listed = json.loads((golden / "variables.json").read_text())
    return {v["name"] for v in listed if v["trainable"]}


@pytest.fixture
def restored(golden):
    model = hypertf.T5(checkpoints.read_config(golden))
    optimizer = hypertf.Adafactor()
    report = checkpoints.load(model, golden, optimizer=optimizer)
    return model, optimizer, report


def slots_of(model, optimizer):
    return {
        f"{name}_slot_{slot}": value
        for name, variable in named_weights(model).items()
        for slot, value in optimizer.slots(variable).items()
    }


def test_config_agrees_with_the_named_dimensions(golden):
    """Mesh names each variable's dimensions; their sizes must be the config's."""
    config = checkpoints.read_config(golden)
    sizes = {
        "vocab": {config.vocab_size},
        "d_model": {config.d_model},
        "d_ff": {config.d_ff},
        "heads": {config.num_heads, config.num_heads * config.d_kv},
        "buckets": {config.num_buckets},
    }
    seen = set()
    for variable in json.loads((golden / "variables.json").read_text()):
        for name, size in variable["mtf_dims"] or ():
            assert size in sizes[name], (variable["name"], name, size)
            seen.add(name)
    assert seen == set(sizes)


def test_every_weight(restored, variables, trainable):
    model, _, report = restored
    weights = named_weights(model)
    assert set(weights) == trainable
    for name, weight in weights.items():
        wanted = variables[name].astype("float32")
        np.testing.assert_array_equal(weight.numpy(), wanted, err_msg=name)
    assert report.tensors == len(trainable)
    types = {str(variables[name].dtype) for name in trainable}
    assert report.dtype == ", ".join(sorted(types))


def test_every_slot_and_the_step(restored, variables, trainable):
    model, optimizer, report = restored
    slots = slots_of(model, optimizer)
    assert set(slots) == set(variables) - trainable - {"global_step"}
    for name, slot in slots.items():
        np.testing.assert_array_equal(slot.numpy(), variables[name], err_msg=name)
        assert np.any(slot.numpy() != 0), name
    assert int(optimizer.iterations) == report.step == variables["global_step"]
    assert report.slots == len(slots) and not report.left_over


def test_by_prefix_and_without_an_optimizer(golden, variables, trainable):
    prefix = tf.train.latest_checkpoint(str(golden))
    model = hypertf.T5(checkpoints.read_config(prefix))
    report = checkpoints.load(model, prefix)
    assert report.path == prefix and report.slots == 0
    assert set(report.left_over) == set(variables) - trainable - {"global_step"}


def test_written_back_as_it_was(restored, variables, trainable, tmp_path):
    model, optimizer, _ = restored
    (dtype,) = {str(variables[name].dtype) for name in trainable}
    prefix = checkpoints.save(
        model, tmp_path, format="mesh", optimizer=optimizer, dtype=dtype
    )
    reader = tf.train.load_checkpoint(prefix)
    assert set(reader.get_variable_to_shape_map()) == set(variables)
    for name, wanted in variables.items():
        array = reader.get_tensor(name)
        assert array.dtype == wanted.dtype, name
        np.testing.assert_array_equal(array, wanted, err_msg=name)


def test_through_hugging_face(restored, variables, trainable, tmp_path):
    model, _, _ = restored
    (dtype,) = {str(variables[name].dtype) for name in trainable}
    checkpoints.save(model, tmp_path / "hf", dtype=dtype)
    other = hypertf.T5(checkpoints.read_config(tmp_path / "hf"))
    checkpoints.load(other, tmp_path / "hf")
    for ours, theirs in zip(other.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_a_restored_optimizer_goes_on(restored, golden):
    """Slots and step belong together: the next update decays by the step's rate."""
    model, optimizer, report = restored
    name, variable = next(
        (n, v) for n, v in named_weights(model).items() if n.endswith("rms_norm/scale")
    )
    before = slots_of(model, optimizer)[f"{name}_slot_v"].numpy()
    grads = [keras.ops.zeros(v.shape) for v in model.trainable_variables]
    optimizer.apply(grads, model.trainable_variables)
    decay = 1.0 - (report.step + 1.0) ** -0.8
    after = optimizer.slots(variable)["v"].numpy()
    np.testing.assert_allclose(after, before * decay, rtol=1e-6)
