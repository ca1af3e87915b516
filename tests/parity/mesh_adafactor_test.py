"""Adafactor equals Mesh TensorFlow's, at every step, for every recorded variable."""

import keras
import numpy as np
import pytest

from hypertf.optimizers import Adafactor
from tests.parity.goldens import golden_files


@pytest.mark.parametrize("path", golden_files("mesh_adafactor*/**/*.npz"))
def test_values_and_slots_equal_mesh(path):
    recorded = dict(np.load(path))
    variables = {
        key.removesuffix("/init"): keras.Variable(value)
        for key, value in recorded.items()
        if key.endswith("/init")
    }
    optimizer = Adafactor(
        learning_rate=float(recorded["learning_rate"]),
        multiply_by_parameter_scale=bool(recorded["multiply_by_parameter_scale"]),
    )
    optimizer.build(list(variables.values()))
    optimizer.iterations.assign(recorded["global_step_before"][0])

    for step, step_before in enumerate(recorded["global_step_before"]):
        assert int(optimizer.iterations) == step_before
        gradients = [recorded[f"{name}/grads"][step] for name in variables]
        optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients])
        for name, variable in variables.items():
            slots = {
                f"slot_{slot}": value
                for slot, value in optimizer.slots(variable).items()
            }
            assert set(slots) == recorded_slots(recorded, name)
            for key, value in {"values": variable, **slots}.items():
                assert_close(value, recorded[f"{name}/{key}"][step], f"{name}/{key}")


def recorded_slots(recorded, name):
    prefix = f"{name}/slot_"
    return {key.removeprefix(f"{name}/") for key in recorded if key.startswith(prefix)}


def assert_close(actual, expected, name):
    # Slots are positive: each must agree by itself, down to the 1e-30 of a slot
    # that never saw a gradient. Values may cross zero and lose digits there.
    rounding = 0 if "/slot_" in name else 5e-7 * np.abs(expected).max()
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(actual),
        expected,
        rtol=5e-6,
        atol=rounding,
        err_msg=name,
    )
