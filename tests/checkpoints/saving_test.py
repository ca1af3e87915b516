"""Saving never harms what is already there."""

import os

import pytest
import tensorflow as tf

import hypertf
from hypertf import checkpoints
from hypertf.checkpoints import mesh, reader, safetensors_file, saving
from hypertf.optimizers import Adafactor

FORMATS = ("huggingface", "mesh")


class Failure(Exception):
    pass


def failing(after):
    """Makes a function that fails on its call number `after`."""

    def wrap(function):
        calls = iter(range(10**6))

        def wrapper(*args, **kwargs):
            if next(calls) == after:
                raise Failure
            return function(*args, **kwargs)

        return wrapper

    return wrap


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("format", FORMATS)
def test_an_existing_checkpoint_is_refused(make_model, format, tmp_path):
    checkpoints.save(make_model(), tmp_path / "x", format=format)
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        checkpoints.save(make_model(seed=1), tmp_path / "x", format=format)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("format", FORMATS)
def test_overwrite_replaces_all_of_it(make_model, format, tmp_path, assert_equal):
    options = {"max_shard_size": 5000} if format == "huggingface" else {}
    checkpoints.save(make_model(), tmp_path / "x", format=format, **options)
    model = make_model(seed=1)
    checkpoints.save(model, tmp_path / "x", format=format, overwrite=True)
    other = make_model()
    checkpoints.load(other, tmp_path / "x")
    assert_equal(model, other)
    assert len(list((tmp_path / "x").iterdir())) == (2 if options else 3)
    assert os.listdir(tmp_path) == ["x"]


# Where it may break: a tensor, a file, each move into place.
BREAKS = [
    ("huggingface", safetensors_file.os, "fsync", 0),
    ("huggingface", safetensors_file.os, "fsync", 2),
    ("huggingface", saving.huggingface, "to_json", 0),
    ("huggingface", saving.os, "replace", 0),
    ("huggingface", saving.os, "replace", 1),
    ("mesh", mesh.tf.raw_ops, "SaveV2", 0),
    ("mesh", mesh.tf.raw_ops, "SaveV2", 2),
    ("mesh", mesh.tf.raw_ops, "MergeV2Checkpoints", 0),
    ("mesh", mesh, "state_text", 0),
    *[("mesh", saving.os, "replace", n) for n in range(0, 8)],
]


@pytest.mark.parametrize(("format", "module", "name", "call"), BREAKS)
def test_a_failure_leaves_the_old_checkpoint(
    make_model, tmp_path, monkeypatch, assert_equal, format, module, name, call
):
    monkeypatch.setattr(mesh, "_GROUP_BYTES", (10**4, 10**4))
    options = {"max_shard_size": 5000} if format == "huggingface" else {}
    model = make_model()
    checkpoints.save(model, tmp_path / "x", format=format, **options)
    before = contents(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module, name, failing(call)(getattr(module, name)))
        with pytest.raises(Failure):
            checkpoints.save(
                make_model(seed=1),
                tmp_path / "x",
                format=format,
                overwrite=True,
                **options,
            )
    assert contents(tmp_path) == before
    other = make_model(seed=2)
    checkpoints.load(other, tmp_path / "x")
    assert_equal(model, other)


@pytest.mark.parametrize("format", FORMATS)
def test_a_failure_leaves_nothing_behind(make_model, format, tmp_path, monkeypatch):
    monkeypatch.setattr(saving.os, "replace", failing(0)(os.replace))
    with pytest.raises(Failure):
        checkpoints.save(make_model(), tmp_path / "x", format=format)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("overwrite", [False, True])
def test_other_files_of_a_folder_stay(make_model, tmp_path, overwrite):
    folder = tmp_path / "x"
    if overwrite:
        checkpoints.save(make_model(), folder)
    (folder / "deep").mkdir(parents=True)
    (folder / "spiece.model").write_text("vocabulary")
    (folder / "deep" / "config.json").write_text("not ours")
    checkpoints.save(make_model(seed=1), folder, overwrite=overwrite)
    assert (folder / "spiece.model").read_text() == "vocabulary"
    assert (folder / "deep" / "config.json").read_text() == "not ours"
    assert checkpoints.load(make_model(), folder).tensors
    assert os.listdir(tmp_path) == ["x"]


def test_a_mesh_folder_keeps_its_other_steps(make_model, tmp_path, assert_equal):
    first = make_model()
    checkpoints.save(first, tmp_path, format="mesh", step=1)
    checkpoints.save(make_model(seed=1), tmp_path, format="mesh", step=11)
    checkpoints.save(
        make_model(seed=2), tmp_path, format="mesh", step=11, overwrite=True
    )
    other = make_model(seed=3)
    checkpoints.load(other, tmp_path / "model.ckpt-1")
    assert_equal(first, other)


def test_the_working_folder_is_not_replaced(make_model, tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    for path in (".", tmp_path):
        with pytest.raises(ValueError, match="its own folder"):
            checkpoints.save(make_model(), path)


def test_permissions_are_those_of_any_new_folder(make_model, tmp_path):
    checkpoints.save(make_model(), tmp_path / "x")
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "onnx"}, "format='onnx', expected 'huggingface' or 'mesh'"),
        ({"dtype": "float8"}, "dtype='float8'"),
        ({"step": 3}, "neither optimizer nor step"),
        ({"optimizer": Adafactor()}, "neither optimizer nor step"),
        ({"format": "mesh", "optimizer": Adafactor()}, "build it first"),
    ],
)
def test_bad_options(make_model, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        checkpoints.save(make_model(), tmp_path / "x", **options)
    assert not list(tmp_path.iterdir())


def test_remote_paths_are_refused(make_model):
    with pytest.raises(ValueError, match="remote"):
        checkpoints.save(make_model(), "gs://bucket/x")


@pytest.mark.parametrize(("source", "target"), [FORMATS, FORMATS[::-1]])
def test_through_both_formats_and_back(
    make_model, version, tmp_path, source, target, assert_equal
):
    model = make_model(**version)
    checkpoints.save(model, tmp_path / "a", format=source)
    middle = hypertf.T5(checkpoints.read_config(tmp_path / "a"))
    checkpoints.load(middle, tmp_path / "a")
    checkpoints.save(middle, tmp_path / "b", format=target)
    last = hypertf.T5(checkpoints.read_config(tmp_path / "b"))
    checkpoints.load(last, tmp_path / "b")
    assert_equal(model, last)


@pytest.mark.parametrize("format", FORMATS)
def test_under_a_strategy(make_model, format, tmp_path, assert_equal, monkeypatch):
    monkeypatch.setattr(reader, "BLOCK_BYTES", 100)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    model = make_model()
    checkpoints.save(model, tmp_path / "a", format=format)
    with strategy.scope():
        mirrored = hypertf.T5(model.config)
    checkpoints.load(mirrored, tmp_path / "a")
    assert_equal(model, mirrored)
    checkpoints.save(mirrored, tmp_path / "b", format=format)
    other = make_model(seed=1)
    checkpoints.load(other, tmp_path / "b")
    assert_equal(model, other)
