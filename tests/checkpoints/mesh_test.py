"""Mesh TensorFlow checkpoints, read and written."""

import os
import shutil

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from hypertf import checkpoints
from hypertf.checkpoints import mesh, reader
from hypertf.optimizers import Adafactor
from hypertf.t5 import named_weights


def read(path):
    file = tf.train.load_checkpoint(str(path))
    return {n: file.get_tensor(n) for n in file.get_variable_to_shape_map()}


def write(path, arrays):
    tensors = {name: tf.constant(array) for name, array in arrays.items()}
    mesh.write({name: (t, t.dtype) for name, t in tensors.items()}, str(path))


def trained(model, factor_from=8, **options):
    """An Adafactor after one step on the model, so that no slot is zero."""
    optimizer = Adafactor(min_dim_size_to_factor=factor_from, **options)
    random = np.random.default_rng(5)
    variables = model.trainable_variables
    optimizer.apply([random.normal(size=v.shape) for v in variables], variables)
    return optimizer


def slots(optimizer, model):
    return {
        f"{name}_slot_{slot}": value.numpy()
        for name, variable in named_weights(model).items()
        for slot, value in optimizer.slots(variable).items()
    }


@pytest.mark.parametrize("block_bytes", [reader.BLOCK_BYTES, 100])
def test_round_trip(
    make_model, version, tmp_path, assert_equal, monkeypatch, block_bytes
):
    monkeypatch.setattr(reader, "BLOCK_BYTES", block_bytes)
    model = make_model(**version)
    prefix = checkpoints.save(model, tmp_path / "model.ckpt-7", format="mesh")
    assert prefix == str(tmp_path / "model.ckpt-7")
    assert checkpoints.read_config(prefix) == model.config
    other = make_model(seed=1, **version)
    report = checkpoints.load(other, prefix)
    assert_equal(model, other)
    assert (report.format, report.step) == ("Mesh TensorFlow", 7)


def test_variables_have_the_names_of_the_weights(make_model, version, tmp_path, values):
    model = make_model(**version)
    arrays = read(checkpoints.save(model, tmp_path, format="mesh", step=3))
    step = arrays.pop("global_step")
    assert step == 3 and step.dtype == np.int64
    wanted = values(model)
    assert arrays.keys() == wanted.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, wanted[name], err_msg=name)


def test_slots_and_step_are_restored(make_model, version, tmp_path, assert_equal):
    model = make_model(**version)
    optimizer = trained(model)
    optimizer.set_step(12)
    checkpoints.save(model, tmp_path, format="mesh", optimizer=optimizer)
    other, restored = make_model(seed=1, **version), Adafactor(min_dim_size_to_factor=8)
    report = checkpoints.load(other, tmp_path, optimizer=restored)
    assert_equal(model, other)
    assert int(restored.iterations) == report.step == 12
    wanted, actual = slots(optimizer, model), slots(restored, other)
    assert wanted.keys() == actual.keys() and report.slots == len(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


def test_without_an_optimizer_slots_are_left_over(make_model, tmp_path):
    model = make_model()
    optimizer = trained(model)
    checkpoints.save(model, tmp_path, format="mesh", optimizer=optimizer)
    report = checkpoints.load(model, tmp_path)
    assert set(report.left_over) == set(slots(optimizer, model))


def test_slots_of_untrained_weights_are_left_over(make_model, tmp_path):
    model = make_model()
    checkpoints.save(model, tmp_path, format="mesh", optimizer=trained(model))
    other = make_model()
    other.shared.trainable = False
    optimizer = Adafactor(min_dim_size_to_factor=8)
    report = checkpoints.load(other, tmp_path, optimizer=optimizer)
    slots = {"shared/embedding_slot_vc", "shared/embedding_slot_vr"}
    assert set(report.left_over) == slots


def test_missing_slots_are_listed(make_model, tmp_path, values):
    model = make_model()
    prefix = tmp_path / "model.ckpt-1"
    write(prefix, values(model))  # neither slots nor a step
    optimizer = Adafactor(min_dim_size_to_factor=8)
    with pytest.raises(ValueError) as error:
        checkpoints.load(model, prefix, optimizer=optimizer)
    lines = {line.strip() for line in str(error.value).splitlines()}
    assert lines >= {*slots(optimizer, model), "global_step"}


def test_slots_of_another_factoring_are_listed(make_model, tmp_path):
    model = make_model()
    checkpoints.save(model, tmp_path, format="mesh", optimizer=trained(model))
    with pytest.raises(ValueError) as error:
        checkpoints.load(model, tmp_path, Adafactor(min_dim_size_to_factor=128))
    missing, left_over = str(error.value).split("left over in the checkpoint")
    assert "shared/embedding_slot_v\n" in missing
    assert "shared/embedding_slot_vr" in left_over
    assert "shared/embedding_slot_vc" in left_over


def test_momentum_has_a_slot(make_model, tmp_path):
    model = make_model()
    optimizer = trained(model, beta1=0.9)
    checkpoints.save(model, tmp_path, format="mesh", optimizer=optimizer)
    restored = Adafactor(min_dim_size_to_factor=8, beta1=0.9)
    checkpoints.load(model, tmp_path, restored)
    for name, value in slots(optimizer, model).items():
        np.testing.assert_array_equal(slots(restored, model)[name], value)
    with pytest.raises(ValueError, match=r"(?s)left over .*embedding_slot_m"):
        checkpoints.load(model, tmp_path, Adafactor(min_dim_size_to_factor=8))


def test_older_names_of_norms(make_model, version, tmp_path, values, assert_equal):
    model = make_model(**version)
    optimizer = trained(model)
    prefix = checkpoints.save(model, tmp_path, format="mesh", optimizer=optimizer)

    def older(name):
        head, _, tail = name.partition("rms_norm")
        is_final = tail and "layer_" not in head
        new = "final_layer_norm" if is_final else "layer_norm"
        return head + new + tail if tail else name

    arrays = {older(name): array for name, array in read(prefix).items()}
    assert "decoder/final_layer_norm/scale" in arrays
    assert "encoder/block_000/layer_001/layer_norm/scale_slot_v" in arrays
    write(tmp_path / "old.ckpt-1", arrays)
    other, restored = make_model(seed=1, **version), Adafactor(min_dim_size_to_factor=8)
    checkpoints.load(other, tmp_path / "old.ckpt-1", restored)
    assert_equal(model, other)
    for name, value in slots(restored, other).items():
        np.testing.assert_array_equal(value, slots(optimizer, model)[name])


def test_bfloat16_weights_and_float32_slots(make_model, tmp_path, values):
    model = make_model()
    optimizer = trained(model)
    prefix = checkpoints.save(
        model, tmp_path, format="mesh", optimizer=optimizer, dtype="bfloat16"
    )
    arrays, wanted = read(prefix), values(model)
    for name, array in arrays.items():
        if name in wanted:
            rounded = wanted[name].astype(ml_dtypes.bfloat16)
            np.testing.assert_array_equal(array, rounded, err_msg=name)
        elif name != "global_step":
            assert array.dtype == np.float32
    other = make_model(seed=1)
    assert checkpoints.load(other, prefix).dtype == "bfloat16"
    for name, value in values(other).items():
        np.testing.assert_array_equal(value, arrays[name].astype("float32"))


def test_several_files_are_one_checkpoint(
    make_model, tmp_path, assert_equal, monkeypatch
):
    monkeypatch.setattr(mesh, "_GROUP_BYTES", (4000, 4000))
    model = make_model()
    checkpoints.save(model, tmp_path, format="mesh")
    assert len(list(tmp_path.glob("*.data-*"))) > 3
    assert not list(tmp_path.glob("*part*")) and not list(tmp_path.glob("*tmp*"))
    other = make_model(seed=1)
    checkpoints.load(other, tmp_path)
    assert_equal(model, other)


def test_a_folder_means_its_latest(make_model, tmp_path, assert_equal):
    first, second = make_model(seed=1), make_model(seed=2)
    checkpoints.save(first, tmp_path, format="mesh", step=100)
    checkpoints.save(second, tmp_path, format="mesh", step=20)
    state = tf.train.get_checkpoint_state(str(tmp_path))
    names = [os.path.basename(p) for p in state.all_model_checkpoint_paths]
    assert names == ["model.ckpt-100", "model.ckpt-20"]
    model = make_model()
    assert checkpoints.load(model, tmp_path).step == 20
    assert_equal(model, second)
    assert checkpoints.load(model, tmp_path / "model.ckpt-100").step == 100
    assert_equal(model, first)
    checkpoints.load(model, tmp_path / "model.ckpt-20.index")
    assert_equal(model, second)


def test_a_moved_folder_is_found(make_model, tmp_path, assert_equal):
    model = make_model()
    checkpoints.save(model, tmp_path / "old", format="mesh", step=5)
    state = tmp_path / "old" / "checkpoint"
    state.write_text(f'model_checkpoint_path: "{tmp_path}/old/model.ckpt-5"\n')
    shutil.move(tmp_path / "old", tmp_path / "new")
    other = make_model(seed=1)
    checkpoints.load(other, tmp_path / "new")
    assert_equal(model, other)


def test_a_folder_whose_latest_is_gone_is_an_error(make_model, tmp_path):
    model = make_model()
    checkpoints.save(model, tmp_path, format="mesh", step=5)
    (tmp_path / "model.ckpt-5.index").unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.ckpt-5, which is absent"):
        checkpoints.load(model, tmp_path)


def test_what_cannot_tell_its_size_says_so(tmp_path):
    write(tmp_path / "model.ckpt-1", {"shared/embedding": np.zeros((8, 4), "float32")})
    with pytest.raises(ValueError, match=r"no variable '.*relative_attention_bias'"):
        checkpoints.read_config(tmp_path / "model.ckpt-1")
