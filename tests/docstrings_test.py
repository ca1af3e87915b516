"""The examples in the docstrings of public names run."""

import doctest
import re
import textwrap

import numpy as np
import pytest

import hypertf

NANO = "t5-nano"
EXAMPLES = [
    hypertf.T5Config,
    hypertf.T5,
    hypertf.T5.generate,
    hypertf.T5.score,
    hypertf.t5.Unallocated,
    hypertf.training.T5Loss,
]


@pytest.mark.parametrize("item", EXAMPLES, ids=lambda item: item.__qualname__)
def test_examples_run(item):
    blocks = re.findall(r"```python\n(.*?)```", item.__doc__, flags=re.DOTALL)
    assert blocks
    model = hypertf.T5(hypertf.T5Config.from_name(NANO))
    for block in blocks:
        exec(textwrap.dedent(block), {"hypertf": hypertf, "np": np, "model": model})


def test_adafactor_example():
    module = hypertf.optimizers.adafactor
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
