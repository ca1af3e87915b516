"""The front door: setup.py states what the code needs, make and CI do as told."""

import ast
import functools
import os
import shlex
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from experiments.benchmarks import flax_t5

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("hypertf", "tfds_tasks", "experiments")


def parse(requirements):
    """{"keras-hub": Requirement("keras-hub>=0.32,<0.33"), ...}"""
    parsed = map(Requirement, requirements)
    return {canonicalize_name(requirement.name): requirement for requirement in parsed}


@functools.cache
def providers():
    """{"sklearn": ["scikit-learn"], ...}, of all that is installed."""
    return metadata.packages_distributions()


def imported_distributions(path):
    """The PyPI names of the third-party packages that a module imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module)
    names = {name.partition(".")[0] for name in names}
    names -= {*sys.stdlib_module_names, *LIBRARIES, "tests"}
    # Not installed, as torch is without the extra `bench`: its name is its import's.
    return {
        frozenset(map(canonicalize_name, providers().get(name, [name])))
        for name in names
    }


def undeclared(folders, declared):
    return [
        f"{path.relative_to(ROOT)} imports {sorted(names)}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for names in imported_distributions(path)
        if not names & declared
    ]


def test_imports_are_declared(setup_arguments):
    required = set(parse(setup_arguments["install_requires"]))
    extras = {
        name: set(parse(requirements))
        for name, requirements in setup_arguments["extras_require"].items()
    }
    # Warm-up requests need the protos of TF Serving; without them none are written.
    protos = {"tensorflow-serving-api"}
    assert protos <= extras["serve"]
    compiler = extras["tpu-compiler"] | {"jaxlib"}  # which jax brings
    assert not undeclared(["hypertf", "tfds_tasks"], required | protos | compiler)
    peer = set(parse(flax_t5.REQUIRES))  # which has an environment of its own
    optional = extras["bench"] | extras["serve"] | peer
    assert not undeclared(["experiments"], required | optional)
    tools = {"packaging", "setuptools"}  # of pytest and of TensorFlow
    assert not undeclared(["tests"], required | extras["test"] | tools)


def test_peers_stay_in_the_bench_extra(setup_arguments):
    extras = setup_arguments["extras_require"]
    others = setup_arguments["install_requires"] + extras["test"]
    assert set(parse(extras["bench"])) == {"ctranslate2", "torch", "transformers"}
    assert not set(parse(extras["bench"])) & set(parse(others))


def test_bounds_hold_what_is_tested(setup_arguments):
    extras = setup_arguments["extras_require"]
    pins = (ROOT / "requirements_lock.txt").read_text().splitlines()
    locked = parse(pin for pin in pins if pin and not pin.startswith("#"))
    requirements = parse(setup_arguments["install_requires"] + extras["test"])
    for name, requirement in requirements.items():
        operators = {part.operator for part in requirement.specifier}
        assert operators in ({">=", "<"}, {"=="}), f"{requirement} lacks a bound"
        assert requirement.specifier.contains(metadata.version(name)), requirement
        (pin,) = locked[name].specifier
        assert requirement.specifier.contains(pin.version), f"{requirement}, {pin}"


def test_every_folder_of_modules_is_installed(setup_arguments):
    folders = {
        path.parent.relative_to(ROOT)
        for library in LIBRARIES
        for path in (ROOT / library).rglob("*.py")
    }
    names = {".".join(folder.parts) for folder in folders}
    assert names == set(setup_arguments["packages"])


@pytest.fixture
def make(tmp_path):
    """Runs make in a new checkout that has only the Makefile and setup.py."""
    for name in ("Makefile", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)

    def run(*arguments):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
        return subprocess.run(
            ["make", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )

    run.folder = tmp_path
    return run


@pytest.mark.parametrize("goal", ["quickstart", "test", "test-quick", "lint", "docs"])
def test_make_installs_once(make, goal):
    assert "-m pip install" in make("--dry-run", goal).stdout
    python = make.folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    (make.folder / ".venv/.installed").touch()
    assert "pip" not in make("--dry-run", goal).stdout
    os.utime(make.folder / ".venv/.installed", (0, 0))  # now older than setup.py
    assert "-m pip install" in make("--dry-run", goal).stdout


def test_make_says_which_python_it_needs(make):
    done = make("lint", "PYTHON=false no-such-python")
    assert done.returncode != 0
    assert "needs Python 3.11 or 3.12" in done.stderr
    assert "no-such-python" in done.stderr


def test_ci_runs_what_the_readme_says():
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    lines = script.read_text().splitlines()
    assert "set -euo pipefail" in lines
    made = [line for line in lines if line.startswith("make")]
    assert made[:2] == ["make lint", "make test"]
    (other,) = made[2:]
    goal, line, tests = shlex.split(other)[1:]
    assert (goal, line) == ("test", "TF=2.20")
    folders = tests.removeprefix("TESTS=").split()
    assert {"tests/t5", "tests/optimizers", "tests/training", "tests/export"} <= {
        *folders
    }
    assert all((ROOT / folder).is_dir() for folder in folders)
    readme = (ROOT / "README.md").read_text()
    assert "make test" in readme
    assert "make quickstart" in readme
