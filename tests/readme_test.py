"""The README's Python examples run as printed."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.slow
def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write files
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)
    assert blocks, "the README shows no Python"
    names = {}
    for block in blocks:  # a later block may go on from an earlier one
        exec(compile(block, str(README), "exec"), names)
