"""Lays models out over four virtual CPUs; prints what each device then holds, as JSON.

    python -m tests.mesh.devices_program batch:2,model:2 model:4

Apart from pytest, because devices are divided before TensorFlow starts.
"""

import json
import sys

import keras
import numpy as np

import hypertf
from hypertf.mesh import devices, parse_layout, parse_shape
from hypertf.t5 import named_weights

METHODS = ("none", "hyperprompt-global", "hyperdecoder", "prompt-tuning", "lora")


def held(method, mesh):
    """Bytes by device of weights and slots, and whether the values are the model's."""
    config = hypertf.T5Config.from_name("t5-nano")
    conditioner = hypertf.conditioning.create(method, config, num_tasks=4)
    model = hypertf.T5(config, conditioner=conditioner)
    optimizer = hypertf.Adafactor()
    optimizer.build(model.trainable_variables)
    # Slots start at 0: give them values that tell whose they are.
    for variable in model.trainable_variables:
        for slot in optimizer.slots(variable).values():
            slot.assign(keras.random.uniform(slot.shape))
    weights = devices.distribute(model, parse_layout(), mesh)
    slots = devices.distribute_slots(optimizer, model, parse_layout(), mesh)
    return {
        "weights": devices.bytes_by_device(weights.values()),
        "slots": devices.bytes_by_device(slots.values()),
        "same": all(
            np.array_equal(devices.whole(weights[name]), np.asarray(weight))
            for name, weight in named_weights(model).items()
        ),
        "slots_same": all(
            np.array_equal(
                devices.whole(slots[f"{name}_slot_{slot}"]), np.asarray(value)
            )
            for name, weight in named_weights(model).items()
            if weight.trainable
            for slot, value in optimizer.slots(weight).items()
        ),
    }


def main(shapes):
    devices.start(virtual_cpus=4)
    results = {}
    for shape in shapes:
        mesh = devices.create_mesh(parse_shape(shape))
        for method in METHODS:
            results[f"{shape} {method}"] = held(method, mesh)
    try:
        devices.create_mesh(parse_shape("batch:2,model:4"))
    except ValueError as error:
        results["too many"] = str(error)
    try:
        devices.start()
    except RuntimeError as error:
        results["again"] = str(error)
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1:])
