"""What holds for every method: the kit that is shipped for users' own."""

import functools

import pytest

import hypertf
from hypertf.conditioning import create, names
from hypertf.t5 import Unallocated
from hypertf.testing import CHECKS, Case
from tests.helpers import tiny_config

NAMES = names()  # when tests are collected: those that a test adds are its own
# Sizes that fit the kit's T5: d_model 16, d_ff 24, 2 heads of 6.
PROMPTS = {"encoder_length": 3, "decoder_length": 2, "bottleneck": 4}
BESIDE = {"encoder_size": 4, "decoder_size": 3}
METHODS = {
    "hypergrid": {"d_r": 4, "d_c": 8},
    "hyperprompt-share": PROMPTS,
    "hyperprompt-sep": PROMPTS,
    "hyperprompt-global": PROMPTS,
    "hyperformer": {"bottleneck": 4},
    "hyperformer++": {"bottleneck": 4},
    "hyperdecoder": {**BESIDE, "bottleneck": 5},
    "task-hypernet": {**BESIDE, "bottleneck": 5},
    "parallel-adapters": BESIDE,
    "adapters": {"bottleneck": 4},
    "adapters-shared-norm": {"bottleneck": 4},
    "prompt-tuning": {"length": 3},
    "modular-skills": {"skills": 2, "rank": 2, "temperature": None},  # no draws
    "lora": {"rank": 2},
    "ia3": {},
    "mpt": {"length": 3, "rank": 2},
    # Tokens, keys, a kernel that reads the tokens, and adapters in one model.
    "prompt-tuning+hyperprompt-share+hypergrid": {
        "prompt-tuning.length": 3,
        **{f"hyperprompt-share.{name}": size for name, size in PROMPTS.items()},
        "hypergrid.d_r": 4,
        "hypergrid.d_c": 8,
    },
}
SAME_FOR_ALL_TASKS = {"parallel-adapters", "hyperdecoder"}
COMPILED = {"compiled_generate", "compiled_step"}


@pytest.fixture(scope="module", params=METHODS)
def case(request):
    """Made once for all checks of a method, the model with it."""
    name = request.param
    differ = name not in SAME_FOR_ALL_TASKS
    return Case(name, METHODS[name], tasks_differ=differ)


@pytest.mark.parametrize(
    "check",
    [pytest.param(c, marks=[pytest.mark.slow] * (c in COMPILED)) for c in CHECKS],
)
def test_method(case, check):
    reason = CHECKS[check](case)
    if reason:
        pytest.skip(reason)
    assert case.model.conditioner.method == case.method


def test_every_name_is_covered():
    assert {name for name in METHODS if name in NAMES} == set(NAMES) - {"none"}


@functools.cache
def plain_size(config):
    with Unallocated():
        return hypertf.T5(config).count_params()


@pytest.mark.parametrize("name", NAMES)
def test_defaults_fit_a_published_size(name):
    config = hypertf.T5Config.from_name("t5-small")
    with Unallocated():
        model = hypertf.T5(config, conditioner=create(name, config, 8))
    assert (model.count_params() > plain_size(config)) == (name != "none")


def test_unknown_method():
    with pytest.raises(ValueError, match=r"unknown conditioner 'hyperformer\+'"):
        create("hyperformer+", tiny_config(), 3)
    with pytest.raises(ValueError, match="unknown option 'length'"):
        create("none", tiny_config(), 3, length=3)
    assert create("none", tiny_config(), 3) is None
