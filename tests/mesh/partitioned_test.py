"""The TPU compiler is told how a step's arguments lie, and finds what the plan has."""

import re

import keras
import pytest

from experiments.compile import Parts, compile
from experiments.configs import get_config
from experiments.runs import compiled_on_mesh, on_mesh
from hypertf.mesh import parse_layout, parse_shape
from hypertf.mesh.partitioned import shardings
from hypertf.mesh.tensors import slots, variables
from tests.helpers import shallow_nano
from tests.mesh import launch

CONFIG = get_config("nano").replace(
    batch_size=8, inputs_length=32, targets_length=8, mixture="nano/paraphrase"
)
SHAPE = "batch:2,model:2"


@pytest.fixture(scope="module", autouse=True)
def policy_kept():
    """A run's precision is that of the whole process; it ends with these tests."""
    policy = keras.config.dtype_policy()
    with shallow_nano():
        yield
    keras.config.set_dtype_policy(policy)


@pytest.mark.slow
def test_every_argument_is_split_as_the_layout_says():
    made = Parts(CONFIG, choices=2)
    step, program = made.lowered_on_mesh(on_mesh.asked(SHAPE))
    found = shardings(
        program, made.model, step.optimizer, parse_layout(), parse_shape(SHAPE)
    )
    # And every gradient, by an op of its own: a name comes after its length.
    trained = len(made.model.trainable_variables)
    assert program.hlo.count(b"\x08Sharding") == trained
    assert len(found) == program.given + len(program.captured)
    rows = "{devices=[2,2]<=[4] last_tile_dim_replicate}"
    assert found[:5] == [rows] * 4 + ["{replicated}"]  # the last is the step's number
    named = variables(made.model)
    split = sum(
        "model" in tensor.split_over(parse_layout(), parse_shape(SHAPE))
        for variable in named
        for tensor in (variable, *slots(variable))
    )
    whole = found[program.given :].count("{replicated}")
    assert len(found) - program.given - whole == split > 20


@pytest.mark.slow
def test_the_compiler_finds_what_was_planned():
    if not launch.EVERY_METHOD:
        pytest.skip("make test-mesh compiles it")
    pytest.importorskip("libtpu", reason="the extra tpu-compiler is not installed")
    found = compile(CONFIG, topology="v5e:2x2", parts=[], mesh_shape=SHAPE)["mesh"]
    asked = on_mesh.asked(SHAPE)
    model = Parts(CONFIG, choices=2).model
    figures = compiled_on_mesh.beside_plan(asked, CONFIG, model, found)
    planned, held = figures["weights, slots, batch"]
    assert planned <= held < 1.25 * planned  # it pads to tiles
    planned, sent = figures["results of collectives"]
    assert 0.75 * planned < sent < 1.33 * planned
    assert found.chips == 4 and found.collectives["all-reduce"]
    entry = re.search(r"^ENTRY .*", found.text, re.MULTILINE)[0]
    rows, parts = CONFIG.batch_size // 2, model.config.d_ff // 2
    for part in (
        f"s32[{rows},{CONFIG.inputs_length}]",
        f"f32[{model.config.d_model},{parts}]",
    ):
        assert part in entry


def test_more_devices_than_chips_are_refused():
    with pytest.raises(ValueError, match="has 8 devices, expected at most the 4 chips"):
        compile(CONFIG, topology="v5e:2x2", parts=[], mesh_shape="batch:2,model:4")
