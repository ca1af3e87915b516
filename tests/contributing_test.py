"""What CONTRIBUTING.md speaks of is there."""

import re

import pytest

from tests.conftest import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
FOLDERS = "hypertf|tfds_tasks|experiments|tests"
PATHS = re.findall(rf"\b(?:{FOLDERS})(?:/\w+(?:\.\w+)?)+", TEXT)
MODULES = re.findall(r"\b(?:tfds_tasks|experiments)\.[a-z]\w*", TEXT)


@pytest.mark.parametrize("path", sorted(set(PATHS)))
def test_paths_exist(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("module", sorted(set(MODULES)))
def test_programs_exist(module):
    assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists()


def test_targets_of_make_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"\bmake ([a-z-]+)", TEXT))
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
