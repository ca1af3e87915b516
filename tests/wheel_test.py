"""The wheel works where there is no checkout: programs, nano data, example files."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGES = ("hypertf", "tfds_tasks", "experiments")
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")
TINY = (
    "--config=nano",
    "--mixture=nano/sentiment",
    "--steps=2",
    "--decay_start=1",
    "--batch_size=4",
    "--steps_per_loop=1",
)

pytestmark = pytest.mark.slow


def run(*command, folder, **options):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, **options
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a copy of the project, built without network."""
    source, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    ignore = shutil.ignore_patterns("__pycache__")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    for name in FILES:
        shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps")
    done = run(*pip, "--no-index", "--wheel-dir", str(output), ".", folder=source)
    assert done.returncode == 0, done.stderr
    (path,) = output.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """An interpreter with the wheel, and what this one has but for the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    made = run(sys.executable, "-m", "venv", "--without-pip", ".", folder=folder)
    assert made.returncode == 0, made.stderr
    python = str(folder / "bin/python")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-index")
    done = run(*pip, "--no-deps", str(wheel), folder=folder)
    assert done.returncode == 0, done.stderr
    # A folder named in a .pth file is searched, but its own .pth files are not read:
    # the one that leads to the checkout has no effect.
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    others = folder / "lib" / version / "site-packages/others.pth"
    others.write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_wheel_holds_what_is_no_module(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"tfds_tasks/nano/spiece.model", "experiments/serving/page.html"} <= names
    examples = ROOT / "tfds_tasks/examples"
    shipped = {f"tfds_tasks/examples/{path.name}" for path in examples.glob("*.*")}
    assert shipped <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]


def test_packages_are_those_of_the_wheel(python, tmp_path):
    code = f"import {', '.join(PACKAGES)}\n"
    code += "\n".join(f"print({name}.__file__)" for name in PACKAGES)
    done = run(python, "-c", code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    environment = Path(python).parents[1]
    for path in done.stdout.split():
        assert environment in Path(path).parents, path


def test_programs_run(python, tmp_path):
    helped = run(python, "-m", "experiments.train", "--help", folder=tmp_path)
    assert "--model_dir" in helped.stdout and "Traceback" not in helped.stderr
    listed = run(python, "-m", "tfds_tasks.list", folder=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "nano/sentiment" in listed.stdout
    flags = (*TINY, "--model_dir=run", "--data_dir=data")
    trained = run(python, "-m", "experiments.train", *flags, folder=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "run/model.ckpt-2.index").exists()
