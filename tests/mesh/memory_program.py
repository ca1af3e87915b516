"""Saves and loads a model split over a mesh; prints what that took of memory, as JSON.

    python -m tests.mesh.memory_program /tmp/folder

Apart from pytest, because devices are divided before TensorFlow starts. With the
environment variables of `hypertf.mesh.devices` it is one of several processes.
"""

import dataclasses
import json
import math
import os
import sys

from tensorflow.experimental import dtensor

import hypertf
from hypertf.mesh import devices, parse_layout, parse_shape
from hypertf.mesh.step import MeshStep
from hypertf.training import RunFolder

# 46 million parameters; a whole kernel is little beside the model.
CONFIG = hypertf.T5Config(
    vocab_size=1024,
    d_model=512,
    d_ff=4096,
    num_heads=8,
    d_kv=64,
    num_encoder_layers=4,
    num_decoder_layers=4,
    dropout_rate=0.1,
)
SMALL = dataclasses.replace(CONFIG, d_ff=64, num_heads=4)  # what is made first
PARTS = 4
STEP = 7


def now():
    """Bytes of memory that the process has at present, and has had at most."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return [1024 * int(lines[name].split()[0]) for name in ("VmRSS", "VmHWM")]


def grown(action):
    """What `action` returns, and how much memory it took at its worst."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the most so far is what it is now
    before, _ = now()
    found = action()
    return found, now()[1] - before


def make(mesh, values, config=CONFIG):
    """A step whose model has no values of its own."""
    with hypertf.t5.Unallocated():
        model = hypertf.T5(config)
    return MeshStep(model, hypertf.Adafactor(), mesh, parse_layout(), 1, values=values)


def save(mesh, folder, took):
    """Makes and saves a step: bytes of all, those that the process holds."""
    step, took["make"] = grown(lambda: make(mesh, values=True))
    state = [*step.weights.values(), *step.slots.values()]
    _, took["save"] = grown(lambda: step.save(folder, STEP))
    whole = sum(4 * math.prod(variable.shape) for variable in state)
    return whole, sum(devices.bytes_by_device(state).values())


def load(mesh, folder, took):
    """Restores what was saved, and loads it as any checkpoint; the step it had."""
    step = make(mesh, values=False)
    reached, took["restore"] = grown(lambda: step.restore(folder))
    _, took["load"] = grown(lambda: step.load(folder.prefix(STEP)))
    return reached


def main(path):
    devices.start(virtual_cpus=PARTS // dtensor.num_clients())
    mesh = devices.create_mesh(parse_shape(f"model:{PARTS}"))
    folder = RunFolder(path, writes=not dtensor.client_id())
    make(mesh, values=True, config=SMALL)  # TensorFlow itself takes some at first
    dtensor.barrier(mesh)
    took = {}
    whole, share = save(mesh, folder, took)
    reached = load(mesh, folder, took)
    dtensor.barrier(mesh)
    found = {"took": took, "whole": whole, "share": share, "reached": reached}
    print(json.dumps({**found, "files": sorted(os.listdir(path))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
