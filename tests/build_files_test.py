"""Keeps the Bazel targets complete: every module and test has one, labels exist.

BUILD files are Starlark, which for these is a subset of Python, so they are run
here with stand-ins for Bazel's functions.
"""

import ast
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("hypertf", "tfds_tasks", "experiments")
PYTHON_ONLY = (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Starred)
STATEMENTS = (ast.Assign, ast.Expr)


@dataclass
class Target:
    kind: str
    package: str  # the folder of its BUILD file: "" or "hypertf/t5"
    name: str
    srcs: list = field(default_factory=list)
    deps: list = field(default_factory=list)
    data: list = field(default_factory=list)
    attributes: dict = field(default_factory=dict)

    @property
    def label(self):
        return f"//{self.package}:{self.name}"

    def files(self):
        """Its sources as paths from the root: {"hypertf/t5/config.py", ...}."""
        return {str(Path(self.package, source)) for source in self.srcs}


def read_targets(root):
    """Returns the targets of all BUILD files under the root, by label."""
    targets = {}
    for folder in (".", *LIBRARIES, "tests"):
        builds = [root / "BUILD"] if folder == "." else (root / folder).rglob("BUILD")
        for build in builds:
            for target in run_build_file(build, root):
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
        found = matches(build.parent, include) - matches(build.parent, exclude)
        assert found, f"{build}: glob({include}) is empty, which Bazel refuses"
        return sorted(found)

    scope = {
        "__builtins__": {"len": len},
        "glob": glob,
        "load": lambda *names: None,
        "package": lambda **attributes: None,
    }
    kinds = ("filegroup", "py_binary", "py_library", "py_test")
    exec(compile(tree, build, "exec"), scope | {kind: rule(kind) for kind in kinds})
    return targets


def matches(folder, patterns):
    """Files under the folder; as in Bazel, not those of a package below it."""
    found = set()
    for pattern in patterns:
        for path in folder.glob(pattern):
            between = list(path.relative_to(folder).parents)[:-1]
            if not any((folder / parent / "BUILD").exists() for parent in between):
                found.add(path.relative_to(folder).as_posix())
    return found


def absolute(label, package):
    """Writes ":x" and "//a/b" in full, as "//package:x" and "//a/b:b"."""
    if label.startswith(":"):
        return f"//{package}{label}"
    if ":" not in label:
        return f"{label}:{label.rpartition('/')[2]}"
    return label


def without_one_target(root):
    """Modules and tests that are not in exactly one target, with their count."""
    targets = read_targets(root).values()
    in_libraries = Counter(
        f for t in targets if t.kind == "py_library" for f in t.files()
    )
    in_tests = Counter(f for t in targets if t.kind == "py_test" for f in t.files())
    wrong = {}
    for folder in (*LIBRARIES, "tests"):
        for path in (root / folder).rglob("*.py"):
            name = path.relative_to(root).as_posix()
            count = (in_tests if name.endswith("_test.py") else in_libraries)[name]
            if count != 1:
                wrong[name] = count
    return wrong


def imported_packages(path):
    """First-party folders that a module imports: {"hypertf/t5", ...}."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            here = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            base = ".".join((*here, *([node.module] if node.module else [])))
            # `from a import b` may name the package a.b.
            modules |= {f"{base}.{alias.name}" for alias in node.names}
    return {folder for module in modules if (folder := package_of(module))}


def package_of(module):
    """The folder with a BUILD file that holds a first-party module, or None."""
    parts = module.split(".")
    if parts[0] not in LIBRARIES:
        return None
    while not Path(ROOT, *parts, "BUILD").exists():
        parts.pop()
    return "/".join(parts)


def reachable(label, targets, path=()):
    """The label and all that it depends on, directly or not."""
    assert label not in path, f"a cycle: {' -> '.join([*path, label])}"
    found = {label}
    for dep in targets[label].deps:
        if not dep.startswith("@"):
            dep = absolute(dep, targets[label].package)
            found |= reachable(dep, targets, (*path, label))
    return found


@pytest.fixture(scope="module")
def targets():
    return read_targets(ROOT)


def test_every_module_and_test_has_one_target():
    assert not without_one_target(ROOT)


def test_each_test_target_runs_its_file(targets):
    for target in targets.values():
        if target.kind == "py_test":
            file = f"{target.name}.py"
            assert target.attributes["args"] == [f"$(location {file})"], target.label
            assert set(target.srcs) == {file, target.attributes["main"]}, target.label


def test_labels_exist(targets):
    lock = (ROOT / "requirements_lock.txt").read_text()
    locked = {line.split("==")[0] for line in lock.splitlines() if "==" in line}
    locked = {f"@pypi//{name.lower().replace('-', '_')}" for name in locked}
    missing = [
        f"{target.label} needs {label}"
        for target in targets.values()
        for label in target.deps + target.data
        if label not in locked and absolute(label, target.package) not in targets
    ]
    missing += [
        f"{target.label} needs the file {file}"
        for target in targets.values()
        for file in target.files()
        if not (ROOT / file).is_file()
    ]
    assert not missing


def test_libraries_depend_on_what_they_import(targets):
    missing = []
    for target in targets.values():
        if target.kind == "py_library":
            found = reachable(target.label, targets)
            missing += [
                f"{target.label}: {file} imports {package}"
                for file in sorted(target.files())
                for package in imported_packages(ROOT / file)
                if absolute(f"//{package}", "") not in found
            ]
    assert not missing


def test_a_module_without_a_target_is_found(tmp_path):
    (tmp_path / "hypertf/t5").mkdir(parents=True)
    (tmp_path / "BUILD").touch()
    build = 'py_library(name = "hypertf", srcs = glob(["*.py"]))'
    (tmp_path / "hypertf/BUILD").write_text(build)
    for name in ("hypertf/__init__.py", "hypertf/t5/config.py"):
        (tmp_path / name).touch()
    assert without_one_target(tmp_path) == {"hypertf/t5/config.py": 0}

    build = 'py_library(name = "t5", srcs = ["config.py"])'
    (tmp_path / "hypertf/t5/BUILD").write_text(build)
    assert not without_one_target(tmp_path)


def test_a_build_file_that_is_not_starlark_is_found(tmp_path):
    (tmp_path / "BUILD").write_text('if True:\n    py_library(name = "a")')
    with pytest.raises(AssertionError, match="not Starlark"):
        read_targets(tmp_path)
