"""Lays models out over four virtual CPUs; prints what each device then holds, as JSON.

    python -m tests.mesh.devices_program batch:2,model:2 model:4

Apart from pytest, because devices are divided before TensorFlow starts.
"""

import json
import os
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf

import hypertf
from hypertf.mesh import devices, parse_layout, parse_shape, shards
from hypertf.t5 import named_weights
from tests.helpers import shallow_nano

METHODS = ("none", "hyperprompt-global", "hyperdecoder", "prompt-tuning", "lora")


def make(method):
    """A model of one layer in each stack, and its optimizer."""
    with shallow_nano():
        config = hypertf.T5Config.from_name("t5-nano")
    conditioner = hypertf.conditioning.create(method, config, num_tasks=4)
    model = hypertf.T5(config, conditioner=conditioner)
    optimizer = hypertf.Adafactor()
    optimizer.build(model.trainable_variables)
    # Slots start at 0: give them values that tell whose they are.
    for variable in model.trainable_variables:
        for slot in optimizer.slots(variable).values():
            slot.assign(keras.random.uniform(slot.shape))
    return model, optimizer


def held(model, optimizer, mesh):
    """Bytes by device of weights and slots, and whether the values are the model's."""
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
        "stored_same": stored_same({**weights, **slots}, model, optimizer),
    }


def stored_same(variables, model, optimizer):
    """Whether TensorFlow and another mesh read what was written in parts."""
    values = {name: devices.whole(v) for name, v in variables.items()}
    other = devices.create_mesh(parse_shape("model:2"))
    again = {
        **devices.distribute(model, parse_layout(), other),
        **devices.distribute_slots(optimizer, model, parse_layout(), other),
    }
    for variable in again.values():
        variable.assign(tf.zeros_like(variable))
    with tempfile.TemporaryDirectory() as folder:
        prefix = f"{folder}/model.ckpt-7"
        shards.save(variables, prefix, step=7)
        files = sorted(os.listdir(folder))
        reader = tf.train.load_checkpoint(folder)
        read = {name: reader.get_tensor(name) for name in values}
        restored = shards.restore(again, prefix)
    return (
        restored == 7
        and len(files) == 3  # `checkpoint`, index and data
        and all(np.array_equal(read[n], v) for n, v in values.items())
        and all(np.array_equal(devices.whole(again[n]), v) for n, v in values.items())
    )


def main(shapes):
    devices.start(virtual_cpus=4)
    results, made = {}, {method: make(method) for method in METHODS}
    for shape in shapes:
        mesh = devices.create_mesh(parse_shape(shape))
        for method in METHODS:
            results[f"{shape} {method}"] = held(*made[method], mesh)
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
