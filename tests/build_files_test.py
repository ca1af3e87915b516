"""Keeps the Bazel targets complete: one BUILD file for each top-level package.

BUILD files are Starlark, which for these is a subset of Python, so they are run
here with stand-ins for Bazel's functions.
"""

import ast
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("hypertf", "tfds_tasks", "experiments", "tests")
PYTHON_ONLY = (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Starred)
STATEMENTS = (ast.Assign, ast.Expr)


@dataclass
class Target:
    kind: str
    package: str  # the folder of its BUILD file, "" for the root
    name: str
    srcs: list = field(default_factory=list)
    deps: list = field(default_factory=list)
    data: list = field(default_factory=list)
    attributes: dict = field(default_factory=dict)

    @property
    def label(self):
        return f"//{self.package}:{self.name}"

    def files(self, *lists):
        """Files in these lists as paths from the root: {"hypertf/t5/config.py"}."""
        names = [name for files in lists for name in files if name[0] not in "/:@"]
        return {str(Path(self.package, name)) for name in names}


def read_targets(root):
    """The targets of the root and of all packages, by label."""
    targets = {}
    for build in [root / "BUILD", *(root / p / "BUILD" for p in PACKAGES)]:
        for target in run_build_file(build, root) if build.exists() else ():
            assert target.label not in targets, f"{target.label} is there twice"
            targets[target.label] = target
    return targets


def run_build_file(build, root):
    tree = ast.parse(build.read_text(), str(build))
    for node in ast.walk(tree):
        foreign = isinstance(node, PYTHON_ONLY) or (
            isinstance(node, ast.stmt) and not isinstance(node, STATEMENTS)
        )
        assert not foreign, f"{build}:{node.lineno} is not Starlark"

    targets = []
    package = build.parent.relative_to(root).as_posix().removeprefix(".")

    def rule(kind):
        def declare(name, srcs=(), deps=(), data=(), **attributes):
            lists = [list(srcs), list(deps), list(data)]
            targets.append(Target(kind, package, name, *lists, attributes))

        return declare

    def glob(include, exclude=()):
        names = matches(build.parent, include) - matches(build.parent, exclude)
        assert names, f"{build}: glob({include}) is empty, which Bazel refuses"
        return sorted(names)

    scope = {
        "__builtins__": {"len": len},
        "glob": glob,
        "load": lambda *names: None,
        "package": lambda **attributes: None,
    }
    kinds = ("filegroup", "py_library", "py_test")
    exec(compile(tree, build, "exec"), scope | {kind: rule(kind) for kind in kinds})
    return targets


def matches(folder, patterns):
    """Files under the folder; Bazel's final `**` means files at any depth."""
    paths = (
        path
        for pattern in patterns
        for path in folder.glob(f"{pattern}/*" if pattern.endswith("**") else pattern)
    )
    return {p.relative_to(folder).as_posix() for p in paths if p.is_file()}


def without_one_target(root, files):
    """Those of the files that are not in exactly one target, with their count."""
    counts = Counter()
    for target in read_targets(root).values():
        if target.kind == "py_test":  # its other sources are of the library
            counts.update(target.files([f"{target.name}.py"]))
        else:
            counts.update(target.files(target.srcs, target.data))
    return {file: counts[file] for file in files if counts[file] != 1}


def imported_packages(path):
    """The top-level packages of ours that a module imports: {"hypertf", ...}."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules.add(node.module)
    return {module.partition(".")[0] for module in modules} & set(PACKAGES)


def missing_dependencies(root):
    """Imports of packages that the target of the importing file does not reach."""
    targets = read_targets(root)
    missing = []
    for target in targets.values():
        labels = reachable(target.label, targets)
        for file in sorted(target.files(target.srcs)):
            if file.endswith(".py") and target.package:
                missing += [
                    f"{target.label}: {file} imports {package}"
                    for package in sorted(imported_packages(root / file))
                    if f"//{package}:{package}" not in labels
                ]
    return missing


def reachable(label, targets, path=()):
    """The label and all that it depends on, directly or not."""
    assert label not in path, f"a cycle: {' -> '.join([*path, label])}"
    labels = {label}
    for dep in map(absolute, targets[label].deps):
        if dep.startswith(":"):
            dep = f"//{targets[label].package}{dep}"
        if not dep.startswith("@"):
            labels |= reachable(dep, targets, (*path, label))
    return labels


def absolute(label):
    """Writes "//hypertf" in full, as "//hypertf:hypertf"."""
    return label if ":" in label or "@" in label else f"{label}:{label[2:]}"


def required(requirements):
    """The labels of requirements: {"@pypi//keras_hub", ...}."""
    names = (Requirement(requirement).name for requirement in requirements)
    return {f"@pypi//{name.lower().replace('-', '_')}" for name in names}


@pytest.fixture(scope="module")
def targets():
    return read_targets(ROOT)


def repository_files():
    """All files of the packages that belong to the project, by their paths."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:  # an archive without a repository: modules at least
        paths = (path for p in PACKAGES for path in (ROOT / p).rglob("*.py"))
        return [path.relative_to(ROOT).as_posix() for path in paths]
    return [file for file in listed.stdout.splitlines() if (ROOT / file).exists()]


def test_every_file_has_one_target():
    files = repository_files()
    assert "hypertf/t5/config.py" in files
    assert not without_one_target(ROOT, files)


def test_each_package_has_one_build_file():
    builds = [path for package in PACKAGES for path in (ROOT / package).rglob("BUILD")]
    assert sorted(builds) == sorted(ROOT / package / "BUILD" for package in PACKAGES)


def test_each_test_target_runs_its_file(targets):
    tests = [target for target in targets.values() if target.kind == "py_test"]
    assert tests
    for target in tests:
        file = f"{target.name}.py"
        assert target.attributes["args"] == [f"$(location {file})"], target.label
        assert set(target.srcs) == {file, target.attributes["main"]}, target.label


def test_files_of_the_front_door_exist(targets):
    files = targets["//:front_door"].files(targets["//:front_door"].srcs)
    assert [file for file in files if not (ROOT / file).is_file()] == []
    assert {path.name for path in ROOT.glob("*.md")} <= files


def test_requirements_are_those_of_setup_py(targets, setup_arguments):
    extras = setup_arguments["extras_require"]
    install = required(setup_arguments["install_requires"])
    assert set(targets["//:requirements"].deps) == install
    assert set(targets["//:test_requirements"].deps) == required(extras["test"])
    lock = (ROOT / "requirements_lock.txt").read_text().splitlines()
    locked = required(line for line in lock if "==" in line)
    assert install | required(extras["test"]) <= locked


def test_packages_depend_on_what_they_import():
    assert not missing_dependencies(ROOT)


@pytest.fixture
def project(tmp_path):
    """A project with one package, whose BUILD file takes modules of one folder."""
    (tmp_path / "hypertf/t5").mkdir(parents=True)
    (tmp_path / "BUILD").touch()
    build = 'py_library(name = "hypertf", srcs = glob(["*.py"]))'
    (tmp_path / "hypertf/BUILD").write_text(build)
    for name in ("hypertf/__init__.py", "hypertf/t5/config.py"):
        (tmp_path / name).touch()
    return tmp_path


def test_a_file_without_a_target_is_noticed(project):
    files = ["hypertf/__init__.py", "hypertf/t5/config.py"]
    assert without_one_target(project, files) == {"hypertf/t5/config.py": 0}
    build = 'py_library(name = "hypertf", srcs = glob(["**/*.py"]))'
    (project / "hypertf/BUILD").write_text(build)
    assert not without_one_target(project, files)


def test_an_import_without_a_dependency_is_noticed(project):
    (project / "hypertf/__init__.py").write_text("from tfds_tasks.task import Task")
    assert missing_dependencies(project) == [
        "//hypertf:hypertf: hypertf/__init__.py imports tfds_tasks"
    ]


def test_a_build_file_that_is_not_starlark_is_noticed(project):
    (project / "BUILD").write_text('if True:\n    py_library(name = "a")')
    with pytest.raises(AssertionError, match="not Starlark"):
        read_targets(project)
