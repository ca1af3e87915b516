"""The folder of an export: versions, and nothing half-written."""

import os
from unittest import mock

import numpy as np
import pytest

import hypertf
from tests.export.helpers import TASKS, save, small_model

VERIFY = "hypertf.export.saving.warmup.verify"


@pytest.fixture(scope="module")
def model():
    return small_model("lora", {"rank": 2})


def save_quickly(model, path, **options):
    """One signature, without warm-up."""
    with mock.patch(VERIFY):
        return save(model, path, signatures=("encode",), **options)


def contents(folder):
    """{file: its bytes}, of all files."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_versions(model, tmp_path):
    path = tmp_path / "new" / "model"
    assert save_quickly(model, path) == str(path / "1")
    assert save_quickly(model, path, version=7) == str(path / "7")
    (path / "notes").mkdir()
    assert save_quickly(model, path) == str(path / "8")
    assert save_quickly(model, path, version=3) == str(path / "3")
    before = contents(path)
    with pytest.raises(FileExistsError, match=r"7 exists .* such as 9"):
        save_quickly(model, path, version=7)
    assert contents(path) == before
    names = {"1", "3", "7", "8", "notes", "models.config", "monitoring.config"}
    assert set(os.listdir(path)) == names
    assert hypertf.export.load(path).folder == str(path / "8")


def test_what_was_written_beside_versions_stays(model, tmp_path):
    (tmp_path / "models.config").write_text("mine")
    save_quickly(model, tmp_path)
    assert (tmp_path / "models.config").read_text() == "mine"
    assert (tmp_path / "monitoring.config").exists()


@pytest.mark.parametrize("what", [VERIFY, "tensorflow.saved_model.save"])
@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_a_failed_export_leaves_nothing(model, tmp_path, what, kind):
    path, seen = tmp_path / "new", []

    def fail(*args, **kwargs):
        (half,) = [name for name in os.listdir(path) if name.startswith("half")]
        (path / half / "part").write_text("of it")
        seen.append(os.listdir(path))
        raise kind("on purpose")

    with mock.patch(what, side_effect=fail), pytest.raises(kind, match="on purpose"):
        save(model, path, signatures=("encode",))
    assert not path.exists()
    save_quickly(model, path)
    before = contents(path)
    with mock.patch(what, side_effect=fail), pytest.raises(kind, match="on purpose"):
        save(model, path, signatures=("encode",))
    assert contents(path) == before
    assert set(os.listdir(path)) == {"1", "models.config", "monitoring.config"}
    # A server that looks while it is written takes only numbers for versions.
    assert len(seen) == 2
    assert [n for names in seen for n in names if n.isdigit()] == ["1"]


def test_a_failed_export_leaves_others_alone(model, tmp_path):
    def other_finishes_first(*args):
        (tmp_path / "new" / "2").mkdir()
        raise RuntimeError("on purpose")

    with (
        mock.patch(VERIFY, side_effect=other_finishes_first),
        pytest.raises(RuntimeError, match="on purpose"),
    ):
        save(model, tmp_path / "new", signatures=("encode",))
    assert os.listdir(tmp_path / "new") == ["2"]


def test_a_model_that_answers_nonsense_is_not_exported(tmp_path):
    model = small_model("lora", {"rank": 2})
    scale = model.encoder.rms_norm.scale
    scale.assign(np.full(scale.shape, np.nan))
    with pytest.raises(RuntimeError, match="encode answered vector="):
        save(model, tmp_path / "new", signatures=("encode",))
    assert not (tmp_path / "new").exists()


BAD = {
    "task": ({"task": "d"}, ValueError, "unknown task 'd'.*a/two"),
    "signature": ({"signatures": ["predict"]}, ValueError, "unknown signature 'pred"),
    "no signature": ({"signatures": []}, ValueError, "signatures="),
    "quantize": ({"quantize": "int4"}, ValueError, "quantize='int4'.*int8"),
    "precision": ({"precision": "float16"}, ValueError, "'float16'.*bfloat16"),
    "both": ({"quantize": "int8", "precision": "bfloat16"}, ValueError, "one of them"),
    "version": ({"version": 0}, ValueError, "version=0, expected an integer >= 1"),
    "version's type": ({"version": "1"}, ValueError, "version='1'"),
    "task ids": ({"task_ids": [0, 1, 3]}, ValueError, "'c': id 3.*num_tasks=3"),
    "too few ids": ({"task_ids": [0]}, ValueError, "an id for each"),
    "same names": ({"tasks": [TASKS[0]] * 2}, ValueError, "different names"),
    "vocabulary": (
        {"vocabulary": None, "signatures": ["encode"]},
        ValueError,
        "tokens",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_arguments_leave_nothing(model, tmp_path, what):
    options, kind, message = BAD[what]
    with pytest.raises(kind, match=message):
        save(model, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_load_says_what_it_looks_for(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a SavedModel"):
        hypertf.export.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="absent"):
        hypertf.export.load(tmp_path / "absent")
