"""Programs of ours through the TPU compiler; `make test-tpu` compiles them all."""

import json
import math
import os

import keras
import pytest

from experiments.compile import compile
from experiments.configs import get_config
from experiments.runs import components
from hypertf.analysis import parameters
from hypertf.conditioning import names

pytest.importorskip("libtpu", reason="the extra tpu-compiler is not installed")
pytestmark = pytest.mark.slow

CONFIG = get_config("nano").replace(
    conditioner="hyperprompt-global",
    batch_size=8,
    precision="mixed_bfloat16",
    inputs_length=32,
    targets_length=8,
)


@pytest.fixture(scope="module", autouse=True)
def policy_kept():
    """A run's precision is that of the whole process; it ends with these tests."""
    policy = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(policy)


@pytest.fixture(scope="module")
def compiled(policy_kept, tmp_path_factory):
    path = tmp_path_factory.mktemp("compiled") / "figures.json"
    figures = compile(CONFIG, topology="v5e:2x2", output=path)
    return figures, json.loads(path.read_text())


def test_arguments_are_weights_slots_and_batch(compiled):
    figures, _ = compiled
    model = components.make_model(CONFIG, components.make_mixture(CONFIG))
    weights = 4 * parameters(model).total
    optimizer = components.make_optimizer(CONFIG)
    optimizer.build(model.trainable_variables)
    slots = 4 * sum(math.prod(v.shape) for v in optimizer.variables)
    state = weights + slots
    assert state <= figures["train"].arguments < 1.25 * state  # it pads to tiles
    assert weights < figures["decode"].arguments < 1.25 * weights
    assert figures["train"].temporary > 0
    assert all(step.fits for step in figures.values())


def test_work_is_that_of_the_formula(compiled):
    """Two per weight and token forward, four backward, besides attention."""
    figures, _ = compiled
    config = components.t5_config(CONFIG)
    block = config.d_model * (4 * config.d_heads + 2 * config.d_ff)
    cross = config.d_model * 4 * config.d_heads
    rows = CONFIG.batch_size // 4
    encoder = config.num_encoder_layers * block * CONFIG.inputs_length
    head = config.d_model * config.vocab_size
    decoder = config.num_decoder_layers * (block + cross) + head
    least = 6 * rows * (encoder + decoder * CONFIG.targets_length)
    assert least < figures["train"].flops < 3 * least


def test_gradients_are_reduced_once(compiled):
    figures, _ = compiled
    step = figures["data_parallel"]
    assert step.chips == 4
    assert figures["train"].collectives == {}
    _, size = step.collectives["all-reduce"]
    model = components.make_model(CONFIG, components.make_mixture(CONFIG))
    weights = parameters(model).total
    assert 1.9 * weights < size < 4.5 * weights  # in bfloat16 or float32


def test_the_file_has_the_figures(compiled):
    figures, written = compiled
    assert written["topology"] == "v5e:2x2"
    assert written["config"]["conditioner"] == "hyperprompt-global"
    for part, step in figures.items():
        row = written["parts"][part]
        assert row["accessed"] == step.accessed
        assert row["roofline_seconds"] == step.roofline
        assert "text" not in row


def test_a_batch_that_does_not_divide():
    with pytest.raises(ValueError, match="batch_size=6, expected a multiple of the 4"):
        compile(CONFIG.replace(batch_size=6), topology="v5e:2x2")
    with pytest.raises(ValueError, match="parts: 'trian', expected some of train"):
        compile(CONFIG, parts=["trian"])


def cases():
    """(method, settings): all of them are some fifteen minutes."""
    for method in names():
        yield method, {}
    for changes in (
        {"precision": "float32"},
        {"rematerialize": True},
        {"loop_layers": True},
        {"microbatches": 2},
        {"decoding": "beam", "beam_size": 2},
    ):
        yield "hyperprompt-global", changes


@pytest.mark.parametrize(("method", "changes"), list(cases()))
def test_every_method_compiles(method, changes):
    if "EVERY_METHOD" not in os.environ:
        pytest.skip("make test-tpu compiles it")
    config = CONFIG.replace(conditioner=method, **changes)
    parts = ["decode"] if "decoding" in changes else ["train", "decode"]
    for step in compile(config, topology="v5e:1x1", parts=parts).values():
        assert step.fits
