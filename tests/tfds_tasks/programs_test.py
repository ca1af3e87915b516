"""The programs that list and prepare tasks."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from absl import app

from tests.conftest import ROOT
from tfds_tasks import MissingData, get_mixture, get_task, prepare, sources, task_names
from tfds_tasks import list as listing
from tfds_tasks.prepare import wanted


def run(module, *flags):
    return subprocess.run(
        [sys.executable, "-m", module, *flags], cwd=ROOT, capture_output=True, text=True
    )


def test_the_list_names_every_task_once(data_dir):
    rows = [listing.row(get_task(name), data_dir) for name in task_names()]
    assert len({row[0] for row in rows}) == len(rows) == len(task_names())
    lines = listing.table(rows)
    (cola,) = [line for line in lines if line.startswith("glue/cola ")]
    for cell in ("glue/cola:2.0.0", "(8,551)", "matthews_corrcoef", "en_mix, glue"):
        assert cell in cola


@pytest.mark.slow
def test_list_and_prepare_as_programs(data_dir, tmp_path):
    flags = ("--source=nano/cause_effect:1.0.0", f"--data_dir={tmp_path}")
    result = run("tfds_tasks.prepare", *flags)
    assert result.returncode == 0, result.stderr
    assert "[1/1] nano/cause_effect" in result.stdout
    assert (tmp_path / "nano").is_dir()
    flags = (f"--data_dir={data_dir}", "--only=nano/cause_effect")
    result = run("tfds_tasks.list", *flags)
    assert result.returncode == 0, result.stderr
    assert "nano/cause_effect" in result.stdout and "glue" not in result.stdout


@pytest.mark.parametrize(
    "module, flags, words",
    [
        (listing, {"only": "glew"}, "--only=glew"),
        (prepare, {"mixture": None, "source": []}, "--mixture=... or --source=..."),
    ],
)
def test_bad_flags(module, flags, words, data_dir, monkeypatch):
    given = SimpleNamespace(data_dir=data_dir, module_import=None, **flags)
    monkeypatch.setattr(module, "FLAGS", given)
    with pytest.raises(app.UsageError, match=words):
        module.main(["program"])


def test_prepare_wants_each_source_once():
    en_mix = wanted("en_mix", ["glue/cola:2.0.0"])
    assert en_mix[0] == "glue/cola:2.0.0"
    assert len(set(en_mix)) == len(en_mix) == len(get_mixture("en_mix").tasks)
    assert wanted("anli", []) == [f"anli/r{i}:0.1.0" for i in (1, 2, 3)]


def test_data_prepared_later_is_read(tmp_path):
    """An answer that data is missing is not kept."""
    source = "art:1.0.0"
    with pytest.raises(MissingData):
        sources.open_builder(source, str(tmp_path))
    nano = "nano/cause_effect:1.0.0"
    assert sources.num_rows(nano, "train", str(tmp_path)) > 0
    with pytest.raises(ValueError, match=r"split 'dev' is unknown.*train"):
        sources.rows(nano, "dev", str(tmp_path))
