"""Adafactor's options and state: what is refused, kept, named and how large it is."""

import math

import keras
import pytest

from hypertf.optimizers import Adafactor


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("learning_rate", -0.1, "at least 0"),
        ("learning_rate", "fast", "should be float"),
        ("weight_decay", -1, "None or at least 0"),
        ("decay_exponent", 0, "above 0 and at most 1"),
        ("decay_exponent", "0.8", "above 0 and at most 1"),
        ("clipping_threshold", 0, "None or above 0"),
        ("epsilon1", 0.0, "above 0"),
        ("epsilon2", -1e-3, "at least 0"),
        ("min_dim_size_to_factor", 0, "an integer of at least 1"),
        ("min_dim_size_to_factor", 2.5, "an integer of at least 1"),
        ("min_dim_size_to_factor", None, "an integer of at least 1"),
        ("multiply_by_parameter_scale", "no", "True or False"),
        ("exclude_from_parameter_scale", "prompt", "a list of regular expressions"),
        ("exclude_from_parameter_scale", ["("], "a list of regular expressions"),
        ("beta1", 1.0, "at least 0 and below 1"),
    ],
)
def test_bad_options_are_named(option, value, expected):
    with pytest.raises(ValueError, match=expected) as error:
        Adafactor(**{option: value})
    message = str(error.value)
    assert f"{option}={value}" in message or f"{option}={value!r}" in message


def test_unknown_option_is_an_error():
    with pytest.raises(ValueError, match="clip_threshold"):
        Adafactor(clip_threshold=1.0)


def test_config_round_trip():
    options = {
        "decay_exponent": 0.7,
        "clipping_threshold": None,
        "epsilon1": 1e-20,
        "epsilon2": 1e-2,
        "min_dim_size_to_factor": 64,
        "multiply_by_parameter_scale": False,
        "exclude_from_parameter_scale": ["prompt"],
        "beta1": 0.9,
        "weight_decay": 1e-5,
        "gradient_accumulation_steps": 4,
    }
    schedule = keras.optimizers.schedules.CosineDecay(0.3, 100)
    optimizer = Adafactor(schedule, **options)
    serialized = keras.optimizers.serialize(optimizer)
    assert serialized["registered_name"] == "hypertf>Adafactor"
    again = keras.optimizers.deserialize(serialized)
    assert isinstance(again, Adafactor)
    assert again.get_config() == optimizer.get_config()
    assert options.items() <= again.get_config().items()


def test_small_minimum_factors_small_matrices():
    variable = keras.Variable(keras.ops.ones((4, 3)))
    optimizer = Adafactor(min_dim_size_to_factor=3)
    optimizer.build([variable])
    slots = optimizer.slots(variable)
    assert {name: slot.shape for name, slot in slots.items()} == {
        "vr": (3,),
        "vc": (4,),
    }


@pytest.mark.parametrize("accumulate", [None, 4])
def test_set_step_counts_updates(accumulate):
    optimizer = Adafactor(gradient_accumulation_steps=accumulate)
    optimizer.set_step(1_000_000)
    assert int(optimizer.iterations) == 1_000_000


def test_slots_are_named_as_mesh_names_them():
    layer = keras.layers.Dense(130, name="wi")
    layer.build((None, 128))
    optimizer = Adafactor(beta1=0.5)
    optimizer.build(layer.trainable_variables)
    kernel, bias = layer.trainable_variables
    names = {slot: v.name for slot, v in optimizer.slots(kernel).items()}
    assert names == {s: f"wi_kernel_slot_{s}" for s in ("vr", "vc", "m")}
    names = {slot: v.name for slot, v in optimizer.slots(bias).items()}
    assert names == {s: f"wi_bias_slot_{s}" for s in ("v", "m")}


def test_slots_of_strangers_are_errors():
    optimizer = Adafactor()
    with pytest.raises(ValueError, match="before build"):
        optimizer.slots(keras.Variable(1.0))
    optimizer.build([keras.Variable(1.0)])
    with pytest.raises(ValueError, match="Unknown variable"):
        optimizer.slots(keras.Variable(1.0))


def t5_base_shapes():
    """Every shape in T5-base with how often it occurs."""
    layers, d_model, d_ff, heads = 12, 768, 3072, 12
    return {
        (32128, d_model): 1,
        (d_model, d_model): layers * (4 + 8),
        (d_model, d_ff): layers * 2,
        (d_ff, d_model): layers * 2,
        (d_model,): layers * (2 + 3) + 2,
        (heads, 32): 2,
    }


def state_share(optimizer_class, shapes):
    """Bytes of the optimizer's variables per byte of the model's."""
    state = parameters = 0
    for shape, count in shapes.items():
        # One variable of each shape at a time: the model would take 0.9 GB.
        optimizer = optimizer_class()
        own = len(optimizer.variables)
        optimizer.build([keras.Variable(initializer="zeros", shape=shape)])
        slots = optimizer.variables[own:]
        state += count * sum(4 * math.prod(slot.shape) for slot in slots)
        parameters += count * 4 * math.prod(shape)
    return state / parameters


def test_state_is_under_two_percent_of_t5_base():
    shapes = t5_base_shapes()
    assert sum(math.prod(s) * n for s, n in shapes.items()) == 222_903_552
    assert state_share(Adafactor, shapes) < 0.02
    small = {shape: 1 for shape in shapes if shape[0] < 32128}
    assert state_share(Adafactor, small) < 0.02
    assert state_share(keras.optimizers.Adafactor, small) > 1
