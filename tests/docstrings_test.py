"""The examples in the docstrings of public names run."""

import doctest
import importlib
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

import hypertf
import tfds_tasks

ROOT = Path(__file__).resolve().parents[1]
NANO = "t5-nano"
EXAMPLES = [
    hypertf.T5Config,
    hypertf.T5,
    hypertf.T5.generate,
    hypertf.T5.score,
    hypertf.t5.Unallocated,
    hypertf.training.T5Loss,
    hypertf.analysis.parameters,
    hypertf.conditioning.create,
    hypertf.export.bake,
    hypertf.t5.map_tensors,
]


@pytest.mark.parametrize("item", EXAMPLES, ids=lambda item: item.__qualname__)
def test_examples_run(item, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write files
    blocks = re.findall(r"```python\n(.*?)```", item.__doc__, flags=re.DOTALL)
    assert blocks
    model = hypertf.T5(hypertf.T5Config.from_name(NANO))
    for block in blocks:
        exec(textwrap.dedent(block), {"hypertf": hypertf, "np": np, "model": model})


def modules_with_examples():
    """Names of all modules that have a line to type, `>>> ...`."""
    for library in ("hypertf", "tfds_tasks", "experiments"):
        for path in sorted((ROOT / library).rglob("*.py")):
            if ">>> " in path.read_text():
                yield ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("module", modules_with_examples())
def test_lines_of_examples_give_what_they_say(module):
    module = importlib.import_module(module.removesuffix(".__init__"))
    names = {"get_task": tfds_tasks.get_task, "Style": tfds_tasks.Style}
    result = doctest.testmod(module, extraglobs=names)
    assert result.attempted and not result.failed
