"""The examples in the docstrings of public names run."""

import doctest
import importlib
import re
import textwrap

import numpy as np
import pytest

import hypertf
import tfds_tasks

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


MODULES = [
    hypertf.conditioning.registry,
    hypertf.names,
    hypertf.optimizers.adafactor,
    *(
        importlib.import_module(f"tfds_tasks.{name}")
        for name in (
            "formats",
            "mixtures",
            "rates",
            "reading",
            "registry",
            "splits",
            "task",
            "vocabulary",
            "scores.averages",
            "scores.metrics",
            "scores.qa",
            "scores.readers",
        )
    ),
    *(
        importlib.import_module(f"experiments.{name}")
        for name in (
            "configs.paper_row",
            "reports.paper_comparison",
            "reports.tables",
            "runs.config_file",
            "runs.flags",
            "runs.prediction",
            "runs.training_run",
        )
    ),
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_lines_of_examples_give_what_they_say(module):
    names = {"get_task": tfds_tasks.get_task, "Style": tfds_tasks.Style}
    result = doctest.testmod(module, extraglobs=names)
    assert result.attempted and not result.failed
