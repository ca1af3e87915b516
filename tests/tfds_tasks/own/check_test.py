"""The program that looks through declared tasks."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tfds_tasks import get_mixture, get_vocabulary
from tfds_tasks.check import check_split, report

TABLE = """[topic]
train = "topic.csv"
validation = "dev.csv"
inputs = "{text}"
targets = "{label}"
labels = ["bug", "praise"]
"""
TRAIN = "text,label\na,bug\nb,praise\na,praise\na,bug\n" + 96 * "long,bug\n"
DEV = "text,label\na,bug\nnew,praise\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "topic.csv").write_text(TRAIN.replace("long", "x" * 20))
    (tmp_path / "dev.csv").write_text(DEV)
    (tmp_path / "mine.toml").write_text(TABLE)
    return tmp_path


def test_what_is_counted(folder):
    (task,) = get_mixture(str(folder / "mine.toml")).tasks
    data_dir, vocabulary = str(folder / "data"), get_vocabulary("nano")
    train, seen = check_split(task, "train", vocabulary, set(), data_dir)
    assert train.rows == 100
    assert train.labels == {"bug": 98, "praise": 2}
    assert (train.doubled, train.in_train) == (97, 0)
    assert train.contradicting in (1, 2)  # by the order in which TFDS wrote the three
    assert train.lengths.trimmed(10, 64) == (0.96, 0.0)
    dev, _ = check_split(task, "validation", vocabulary, seen, data_dir)
    assert (dev.rows, dev.doubled, dev.in_train) == (2, 0, 1)
    text = report(task, vocabulary, 10, 64, data_dir)
    for words in (
        "train: 100 rows",
        "97 inputs stood there before",
        "96.0% trimmed at 10",
        "! 1 inputs stand in train too",
        " 98.0%  50.0%  bug",
        "scored by accuracy",
        "targets: bug",
    ):
        assert words in text


def test_whoever_reads_may_have_enough(folder):
    command = f"{sys.executable} -m tfds_tasks.check mine.toml | true"
    told = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TFDS_DATA_DIR": "data"},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0
    assert "Broken pipe" not in told.stderr


def test_the_command(folder):
    (folder / "dev.csv").write_text(DEV + "x,bag\n")
    (folder / "good.csv").write_text(TRAIN)
    (folder / "good.toml").write_text(
        TABLE.replace("topic", "good").replace("dev.csv", "good.csv")
    )
    told = subprocess.run(
        [sys.executable, "-m", "tfds_tasks.check", "good.toml", "mine.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TFDS_DATA_DIR": "data"},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 1
    assert "prepared good: train 100, validation 100" in told.stdout
    assert "as the model sees it:" in told.stdout
    assert "dev.csv, line 4, column 'label': unknown label 'bag'" in told.stderr
    assert "Traceback" not in told.stderr
