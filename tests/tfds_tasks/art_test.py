"""The builder of abductive NLI reads the official archive."""

import json
import zipfile

import pytest
import tensorflow_datasets as tfds

from tfds_tasks import art, get_task

ROWS = {
    "train": [("1", "Ann left.", "Ann was wet."), ("2", "Bo ate.", "Bo was “full”.")],
    "dev": [("2", "It was late.", "He slept.")],
}


@pytest.fixture
def archive(tmp_path):
    """An archive laid out as the official one, with few rows."""
    path = tmp_path / "alphanli-train-dev.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, rows in ROWS.items():
            texts = [
                {"story_id": f"s{i}", "obs1": a, "obs2": b, "hyp1": "h1", "hyp2": "h2"}
                for i, (_, a, b) in enumerate(rows)
            ]
            file.writestr(f"{name}.jsonl", "".join(json.dumps(t) + "\n" for t in texts))
            file.writestr(f"{name}-labels.lst", "".join(f"{r[0]}\n" for r in rows))
    return path


@pytest.fixture
def data_dir(archive, tmp_path, monkeypatch):
    """The archive downloaded, extracted and written by TFDS."""
    monkeypatch.setattr(art, "URL", str(archive))
    folder = str(tmp_path / "data")
    tfds.builder("art:1.0.0", data_dir=folder).download_and_prepare()
    return folder


def test_rows_are_those_of_the_archive(data_dir):
    for split, name in {"train": "train", "validation": "dev"}.items():
        rows = tfds.as_numpy(tfds.load("art", split=split, data_dir=data_dir))
        got = sorted(
            (
                str(row["label"]),
                row["observation_1"].decode(),
                row["observation_2"].decode(),
            )
            for row in rows
        )
        assert got == sorted(ROWS[name])


def test_the_task_reads_what_the_builder_wrote(data_dir):
    (example,) = get_task("art").examples("validation", data_dir).as_numpy_iterator()
    assert example["inputs"].decode() == (
        "art observation 1: It was late. observation 2: He slept. "
        "hypothesis 1: h1 hypothesis 2: h2"
    )
    assert example["targets"] == b"2"


def test_files_of_different_length_are_refused(archive, tmp_path, monkeypatch):
    again = pytest.warns(UserWarning, match="Duplicate")
    with zipfile.ZipFile(archive, "a") as file, again:
        file.writestr("dev-labels.lst", "2\n1\n")
    monkeypatch.setattr(art, "URL", str(archive))
    with pytest.raises(ValueError, match="longer"):
        tfds.builder(
            "art:1.0.0", data_dir=str(tmp_path / "other")
        ).download_and_prepare()
