"""The programs that list and prepare tasks."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tfds_tasks import MissingData, get_mixture, get_task, sources, task_names
from tfds_tasks import list as listing
from tfds_tasks.prepare import wanted


def run(module, *flags):
    return subprocess.run(
        [sys.executable, "-m", module, *flags], cwd=ROOT, capture_output=True, text=True
    )


def test_the_list_names_every_task_once(tmp_path):
    rows = [listing.row(get_task(name), str(tmp_path)) for name in task_names()]
    assert len({row[0] for row in rows}) == len(rows) == len(task_names())
    lines = listing.table(rows)
    (cola,) = [line for line in lines if line.startswith("glue/cola ")]
    for cell in ("glue/cola:2.0.0", "(8,551)", "matthews_corrcoef", "en_mix, glue"):
        assert cell in cola


def test_list_and_prepare_as_programs(tmp_path):
    folder = f"--data_dir={tmp_path}"
    result = run("tfds_tasks.prepare", "--source=nano/cause_effect:1.0.0", folder)
    assert result.returncode == 0, result.stderr
    assert "[1/1] nano/cause_effect" in result.stdout
    result = run("tfds_tasks.list", folder, "--only=nano/cause_effect")
    assert result.returncode == 0, result.stderr
    assert "nano/cause_effect" in result.stdout and "glue" not in result.stdout


@pytest.mark.parametrize(
    "module, flags, words",
    [
        ("tfds_tasks.list", ["--only=glew"], "--only=glew"),
        ("tfds_tasks.prepare", [], "--mixture=... or --source=..."),
    ],
)
def test_bad_flags(module, flags, words):
    result = run(module, *flags)
    assert result.returncode and words in result.stdout + result.stderr


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
