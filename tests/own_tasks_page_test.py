"""The page about tasks of one's own, from its first command to its last answer."""

import importlib

import pytest

from tests import pages
from tests.conftest import ROOT
from tfds_tasks import check, example, get_vocabulary
from tfds_tasks.named_mixtures import get_mixture
from tfds_tasks.own.declaration import KEYS
from tfds_tasks.scores import named

PAGE = ROOT / "docs" / "own_tasks.md"
# Fewer steps; a prompt, a server and its client have tests of their own.
SMALLER = {"steps": "2", "warmup_steps": "0", "batch_size": "4"}
LEFT_OUT = ("experiments.serve", "experiments.client")


@pytest.fixture
def folder(tmp_path, monkeypatch, own_registries):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "data"))
    return tmp_path


def call(program, arguments):
    """Calls a program of the page as its command line says."""
    if program == "tfds_tasks.example":
        example.copy(arguments[0])
        return
    if program == "tfds_tasks.check":
        for task in get_mixture(arguments[0]).tasks:
            print(check.report(task, get_vocabulary("nano"), 112, 12))
        return
    given = dict(a.removeprefix("--").split("=", 1) for a in arguments)
    given |= {name: value for name, value in SMALLER.items() if name in given}
    flags = [f"--{name}={value}" for name, value in given.items()]
    importlib.import_module(program)._call(pages.read_flags(program, flags))


@pytest.mark.slow
def test_the_page_from_files_to_answers(folder, capsys):
    text = PAGE.read_text()
    called = []
    for words in pages.commands(text):
        program, arguments = words[2], words[3:]
        prompt = program == "experiments.predict" and "--input" not in " ".join(words)
        if program not in LEFT_OUT and not prompt:
            call(program, arguments)
            called.append(program)
    assert len(called) == 6
    told = capsys.readouterr().out
    assert "labels: share of train, validation" in told
    assert (folder / "answers.csv").read_text().count("\n") == 401
    assert (folder / "desk_export" / "1" / "saved_model.pb").exists()
    pages.run_python(PAGE)


def test_the_page_shows_the_file_that_ships():
    shipped = (ROOT / "tfds_tasks" / "examples" / "help_desk.toml").read_text()
    without_title = shipped.split("\n\n", 1)[1]
    assert f"```toml\n{without_title}```" in PAGE.read_text()
    for key in KEYS:
        assert f"`{key}`" in PAGE.read_text()


def test_the_metrics_of_the_page_are_all():
    (row,) = [x for x in PAGE.read_text().splitlines() if x.startswith("| `metrics`")]
    for name in ("accuracy", *named.METRICS):
        assert f"`{name}`" in row


def test_the_example_goes_into_a_new_folder_only(tmp_path):
    paths = example.copy(tmp_path / "new")
    assert {path.rsplit(".", 1)[1] for path in paths} == {"csv", "tsv", "jsonl", "toml"}
    with pytest.raises(FileExistsError, match="is there already"):
        example.copy(tmp_path / "new")
