"""A checkpoint that does not fit: one error that lists all, and nothing changed."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from hypertf import checkpoints
from hypertf.checkpoints import mesh
from hypertf.optimizers import Adafactor
from hypertf.t5 import Conditioner

FORMATS = ("huggingface", "mesh")


def save_changed(model, folder, format, drop=(), add=None):
    """Saves a model without some tensors, and with others in addition."""
    add = add or {}
    if format == "huggingface":
        checkpoints.save(model, folder, format=format)
        tensors = load_file(folder / "model.safetensors")
        tensors = {k: v for k, v in tensors.items() if k not in drop} | add
        save_file(tensors, folder / "model.safetensors")
        return folder
    tensors = mesh.tensors_to_write(model, "float32")
    tensors = {k: v for k, v in tensors.items() if k not in drop}
    tensors |= {k: (tf.constant(v), tf.as_dtype(v.dtype)) for k, v in add.items()}
    folder.mkdir()
    prefix = str(folder / "model.ckpt-0")
    mesh.write(tensors, prefix)
    return prefix


def refused(model, path, values, **options):
    """The text of the error that loading gives; asserts that no weight changed."""
    before = values(model)
    with pytest.raises(ValueError) as error:
        checkpoints.load(model, path, **options)
    for name, value in values(model).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    return str(error.value)


@pytest.mark.parametrize(
    ("format", "names"),
    [
        (
            "huggingface",
            ["decoder.block.2.layer.1.EncDecAttention.k.weight", "shared.weight"],
        ),
        ("mesh", ["decoder/block_002/layer_001/EncDecAttention/k", "shared/embedding"]),
    ],
)
def test_every_missing_name_is_listed(make_model, format, names, tmp_path, values):
    path = save_changed(make_model(), tmp_path / "x", format, drop=names)
    message = refused(make_model(seed=1), path, values)
    assert f"missing from the checkpoint ({len(names)}):" in message
    assert all(name in message for name in names)
    assert "left over" not in message


@pytest.mark.parametrize("format", FORMATS)
def test_every_name_left_over_is_listed(make_model, format, tmp_path, values):
    more = {f"extra{i}": np.zeros((2, i), "float32") for i in range(1, 4)}
    path = save_changed(make_model(), tmp_path / "x", format, add=more)
    message = refused(make_model(seed=1), path, values)
    assert "left over in the checkpoint (3):\n  extra1\n  extra2\n  extra3" in message


@pytest.mark.parametrize("format", FORMATS)
def test_another_size_names_fields_and_shapes(make_model, format, tmp_path, values):
    sizes = {"d_model": 20, "num_heads": 3, "num_encoder_layers": 1}
    path = save_changed(make_model(**sizes), tmp_path / "x", format)
    message = refused(make_model(), path, values)
    lines = message.splitlines()
    assert "does not fit the model" in lines[0]
    assert lines[1] == "of another config (3):"
    assert lines[2:5] == [
        "  d_model: 20 in the checkpoint, 16 in the model",
        "  num_heads: 3 in the checkpoint, 2 in the model",
        "  num_encoder_layers: 1 in the checkpoint, 2 in the model",
    ]
    missing = 8  # weights of an encoder block without a table
    assert f"missing from the checkpoint ({missing}):" in message
    # All but the feed-forward's hidden size differ; norms have d_model, too.
    assert "[64, 20], expected [64, 16]" in message
    assert message.count("expected [16]") == 2 + 2 + 3 * 3


@pytest.mark.parametrize("format", FORMATS)
def test_another_version_is_an_error(make_model, format, tmp_path, values):
    v1_1 = {"activation": "gated-gelu", "tie_embeddings": False}
    path = save_changed(make_model(**v1_1), tmp_path / "x", format)
    message = refused(make_model(), path, values)
    assert "activation: 'gated-gelu' in the checkpoint, 'relu' in the model" in message
    assert "tie_embeddings: False in the checkpoint, True in the model" in message


@pytest.mark.parametrize("format", FORMATS)
def test_integers_are_not_weights(make_model, format, tmp_path, values):
    name = {"huggingface": "shared.weight", "mesh": "shared/embedding"}[format]
    integers = {name: np.zeros((64, 16), "int32")}
    path = save_changed(make_model(), tmp_path / "x", format, [name], integers)
    assert "expected a float type" in refused(make_model(), path, values)


class Weights(Conditioner):
    """Some weights, as a method of conditioning has them."""

    def __init__(self):
        super().__init__(name="conditioner")

    def build(self, input_shape=None):
        self.table = self.add_weight(name="table", shape=(3, 5))
        self.scale = self.add_weight(name="scale", shape=())
        self.built = True


@pytest.mark.parametrize("format", FORMATS)
def test_a_plain_checkpoint_leaves_a_conditioner_as_it_is(
    make_model, format, tmp_path, values
):
    plain = make_model(seed=1)
    checkpoints.save(plain, tmp_path / "x", format=format)
    model = make_model(conditioner=Weights())
    table = values(model)["conditioner/table"]
    report = checkpoints.load(model, tmp_path / "x")
    assert set(report.kept) == {"conditioner/table", "conditioner/scale"}
    assert "left at their values: conditioner/" in str(report)
    loaded = values(model)
    np.testing.assert_array_equal(loaded["conditioner/table"], table)
    for name, value in values(plain).items():
        np.testing.assert_array_equal(loaded[name], value, err_msg=name)


@pytest.mark.parametrize("format", FORMATS)
def test_a_conditioner_is_saved_and_asked_for(
    make_model, format, tmp_path, values, assert_equal
):
    model = make_model(conditioner=Weights())
    checkpoints.save(model, tmp_path / "x", format=format)
    other = make_model(seed=1, conditioner=Weights())
    assert checkpoints.load(other, tmp_path / "x").kept == ()
    assert_equal(model, other)
    message = refused(make_model(seed=1), tmp_path / "x", values)
    assert "left over in the checkpoint (2):" in message


def test_a_plain_checkpoint_leaves_a_conditioners_slots(make_model, tmp_path):
    plain = make_model()
    optimizer = Adafactor()
    optimizer.build(plain.trainable_variables)
    checkpoints.save(plain, tmp_path, format="mesh", optimizer=optimizer)
    model = make_model(conditioner=Weights())
    report = checkpoints.load(model, tmp_path, optimizer=Adafactor())
    assert report.slots == len(plain.trainable_variables)


def test_pickles_are_refused_by_name(make_model, tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04")
    for path in (tmp_path, tmp_path / "pytorch_model.bin"):
        with pytest.raises(ValueError, match=r"pytorch_model\.bin.*safe_serialization"):
            checkpoints.load(make_model(), path)


def test_a_path_that_is_not_there(make_model, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        checkpoints.load(make_model(), tmp_path / "nothing")
    for name in ("nothing", ".index", "model.safetensors", "model.weights.h5"):
        assert name in str(error.value)


def test_a_folder_of_something_else(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"looked for .*; found notes\.txt"):
        checkpoints.read_config(tmp_path)


def test_two_checkpoints_in_a_folder_need_a_name(make_model, tmp_path, assert_equal):
    one, two = make_model(seed=1), make_model(seed=2)
    checkpoints.save(one, tmp_path, format="mesh")
    checkpoints.save(two, tmp_path, format="huggingface")
    model = make_model()
    with pytest.raises(ValueError, match="Mesh TensorFlow and Hugging Face"):
        checkpoints.load(model, tmp_path)
    checkpoints.load(model, tmp_path / "model.ckpt-0")
    assert_equal(model, one)
    checkpoints.load(model, tmp_path / "model.safetensors")
    assert_equal(model, two)


def test_a_damaged_safetensors_file(make_model, tmp_path, values):
    path = save_changed(make_model(), tmp_path / "x", "huggingface")
    file = path / "model.safetensors"
    for damaged in (file.read_bytes()[:-10], b"", b"\xff" * 100):
        file.write_bytes(damaged)
        assert "is not a safetensors file" in refused(make_model(), path, values)


@pytest.mark.parametrize("keep", [0, 1000, -1])
def test_a_mesh_checkpoint_cut_short(make_model, tmp_path, values, keep):
    prefix = checkpoints.save(make_model(), tmp_path, format="mesh")
    (file,) = tmp_path.glob("*.data-*")
    file.write_bytes(file.read_bytes()[:keep])
    message = refused(make_model(), prefix, values)
    assert "is not a whole TensorFlow checkpoint" in message
    file.unlink()
    message = refused(make_model(), prefix, values)
    assert "is not a whole TensorFlow checkpoint" in message


def test_a_missing_shard_is_named(make_model, tmp_path, values):
    checkpoints.save(make_model(), tmp_path / "x", max_shard_size=5000)
    shard = sorted((tmp_path / "x").glob("*.safetensors"))[1]
    shard.unlink()
    assert shard.name in refused(make_model(), tmp_path / "x", values)


def test_optimizer_state_that_is_not_there(make_model, tmp_path, values):
    model = make_model()
    checkpoints.save(model, tmp_path)
    message = refused(model, tmp_path, values, optimizer=Adafactor())
    assert "a Hugging Face checkpoint holds no optimizer state" in message


def test_an_optimizer_without_slots(make_model, tmp_path, values):
    model = make_model()
    checkpoints.save(model, tmp_path, format="mesh")
    message = refused(model, tmp_path, values, optimizer=keras.optimizers.SGD())
    assert "SGD keeps no slots" in message
