"""Trains tiny models on one device and on meshes; prints how far they differ, as JSON.

    python -m tests.mesh.step_program batch:2,model:2/model:4 none+adamw,hypergrid+parts
    python -m tests.mesh.step_program batch:2,model:2/model:4 all

Apart from pytest, because devices are divided before TensorFlow starts. With the
environment variables of `hypertf.mesh.devices` it is one of several processes, which
have four devices together.
"""

import json
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf
from tensorflow.dtensor.python import api as dtensor_api  # counts its expansions
from tensorflow.experimental import dtensor

import hypertf
from hypertf.mesh import devices, parse_layout, parse_shape
from hypertf.mesh.step import MeshStep
from hypertf.mesh.tensors import variables
from hypertf.mesh.updates import slots_of
from hypertf.optimizers import AdamW
from hypertf.t5 import named_weights
from hypertf.training import LinearSchedule, Loop, RunFolder, TrainStep

CONFIG = hypertf.T5Config(
    vocab_size=64,
    d_model=16,
    d_ff=32,
    num_heads=4,
    d_kv=8,
    num_encoder_layers=1,
    num_decoder_layers=1,
    dropout_rate=0.1,
)
PROMPTS = {"bottleneck": 4, "encoder_length": 4, "decoder_length": 2}
OPTIONS = {
    "hypergrid": {"d_r": 4, "d_c": 4},
    "hyperprompt-share": PROMPTS,
    "hyperprompt-sep": PROMPTS,
    "hyperprompt-global": PROMPTS,
    "mpt": {"length": 3},
    "prompt-tuning": {"length": 3},
}
# Of the step, by method and by what follows it: those that are not the default.
STEP_OPTIONS = {
    "none": {"clip_norm": 0.1, "normalization": "tokens", "label_smoothing": 0.1},
    "parts": {"microbatches": 2},
}
MOVED_TO = ("model:2", "batch:1", "batch:4")  # of four devices, what a run moves to
TASKS, STEPS, DEVICES, LEAST_FACTORED = 3, 5, 4, 8


def make_model(method):
    """A model in which no adapter starts so near 0 that rounding decides its steps."""
    options = OPTIONS.get(method, {})
    conditioner = hypertf.conditioning.create(method, CONFIG, TASKS, **options)
    model = hypertf.T5(CONFIG, conditioner=conditioner)
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(weight + 0.05 * rng.normal(size=weight.shape))
    return model


def make_optimizer(name=""):
    """With a rate that changes at every step; small dimensions are factored too."""
    schedule = LinearSchedule(0.01, decay_start=0, steps=10)
    if name == "adamw":  # its steps follow rounding where a gradient is nothing else
        return AdamW(schedule, weight_decay=0.5, epsilon=1e-3)
    decay = 0.5 if name == "decay" else None
    return hypertf.Adafactor(
        schedule, min_dim_size_to_factor=LEAST_FACTORED, weight_decay=decay
    )


def another(optimizer):
    """One like it that has made no step."""
    return type(optimizer).from_config(optimizer.get_config())


def batches():
    """Batches of mixed tasks, with padding."""
    rng, found = np.random.default_rng(2), []
    for _ in range(STEPS):
        inputs = rng.integers(2, CONFIG.vocab_size, (8, 6), "int32")
        targets = rng.integers(2, CONFIG.vocab_size, (8, 4), "int32")
        inputs[::2, 4:], targets[1::2, 3:] = 0, 0
        found.append(
            {
                "encoder_tokens": inputs,
                "decoder_tokens": np.pad(targets[:, :-1], ((0, 0), (1, 0))),
                "targets": targets,
                "task_ids": rng.integers(0, TASKS, 8, "int32"),
            }
        )
    return found


def on_one_device(model, optimizer, **options):
    """Losses of the steps, then weights and slots by name."""
    step = TrainStep(model, optimizer, TASKS, **options)
    losses = [
        step.one({k: tf.constant(x) for k, x in batch.items()}, i)["loss"]
        for i, batch in enumerate(batches())
    ]
    state = {name: np.asarray(w) for name, w in named_weights(model).items()}
    for name, weight in named_weights(model).items():
        if weight.trainable:
            for slot, value in optimizer.slots(weight).items():
                state[f"{name}_slot_{slot}"] = np.asarray(value)
    return np.array(losses), state


def compare(model, optimizer, mesh, losses, expected, **options):
    """How far a mesh is from one device and what its devices hold, and the step."""
    step = MeshStep(model, optimizer, mesh, parse_layout(), num_tasks=TASKS, **options)
    iterator = iter(batches())
    found = [step.run(iterator, 0, 1)["loss"]]
    before = expansions()
    found += [step.one(next(iterator))["loss"] for _ in range(STEPS - 1)]
    expanded_again = expansions() - before
    state = {**step.weights, **step.slots}
    assert set(state) == set(expected)
    off = {name: away(devices.whole(v), expected[name]) for name, v in state.items()}
    worst = max(off, key=off.get)
    return {
        "loss": away(np.array(found), losses),
        "worst": worst,
        "state": off[worst],
        "traces": step.traces,
        "expanded_again": expanded_again,
        "steps": int(devices.whole(step.step)),
        "held": devices.bytes_by_device(state.values()),
        "share": share(step),
    }, step


def agreements(step):
    """What processes hear from one another."""
    client = dtensor.client_id()
    return {
        "one asked": step.any_process(client == 0),
        "none asked": step.any_process(False),
        "same": step.all_processes_have(7),
        "own": step.all_processes_have(client),
    }


def same_in_loop(step):
    """Whether a loop on a mesh leaves what one device and other meshes restore."""
    rows = {name: [b[name] for b in batches()] for name in batches()[0]}

    def make_dataset(start, host, num_hosts):
        return tf.data.Dataset.from_tensor_slices(rows).repeat().skip(start)

    with tempfile.TemporaryDirectory() as path:
        folder, last = RunFolder(path), STEPS + 2
        Loop(step, make_dataset, folder, last, batch_size=8).run(STEPS)
        other = hypertf.T5.from_config(step.model.get_config())
        optimizer = another(step.optimizer)
        optimizer.build(other.trainable_variables)
        restored = folder.restore(other, optimizer)
        moved = [restored_on(shape, step, folder) for shape in MOVED_TO]
    found = dict(named_weights(other))
    found |= {
        f"{name}_slot_{slot}": value
        for name, weight in named_weights(other).items()
        if weight.trainable
        for slot, value in optimizer.slots(weight).items()
    }
    return restored == last == int(optimizer.iterations) and all(
        np.array_equal(devices.whole(v), np.asarray(other[name]))
        for name, v in {**step.weights, **step.slots, "step": step.step}.items()
        for other in ({**found, "step": optimizer.iterations}, *moved)
    )


def restored_on(shape, step, folder):
    """Weights, slots and step on another mesh, which restored a run."""
    with hypertf.t5.Unallocated():
        model = hypertf.T5.from_config(step.model.get_config())
    mesh, optimizer = devices.create_mesh(parse_shape(shape)), another(step.optimizer)
    step = MeshStep(
        model, optimizer, mesh, parse_layout(), num_tasks=TASKS, values=False
    )
    step.restore(folder)
    state = {**step.weights, **step.slots, "step": step.step}
    return {name: devices.whole(variable) for name, variable in state.items()}


def same_when_gathered(step):
    """Whether model, optimizer and another mesh get what was trained, bit for bit."""
    step.gather()
    other = devices.create_mesh(parse_shape("batch:4"))
    again = MeshStep(step.model, step.optimizer, other, parse_layout(), num_tasks=TASKS)
    named = named_weights(step.model)
    pairs = [(again.step, step.step)]
    pairs += [(again.weights[name], v) for name, v in step.weights.items()]
    pairs += [(again.slots[name], v) for name, v in step.slots.items()]
    return all(
        np.array_equal(devices.whole(a), devices.whole(b)) for a, b in pairs
    ) and all(
        np.array_equal(devices.whole(v), np.asarray(named[name]))
        for name, v in step.weights.items()
    )


def expansions():
    """How many functions DTensor has expanded so far."""
    return dtensor_api._dtensor_device()._get_stats()["function_manager.miss"]


def away(found, expected):
    """The largest difference, of the largest value."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def share(step):
    """Bytes of weights and slots that a device should hold, by the layout rules."""
    weights = variables(step.model)
    tensors = [t for v in weights for t in (v, *slots_of(step.optimizer, v))]
    shape = devices.shape_of(step.mesh)
    return sum(tensor.bytes_per_device(parse_layout(), shape) for tensor in tensors)


def main(shapes, methods):
    devices.start(virtual_cpus=DEVICES // dtensor.num_clients())
    keras.utils.set_random_seed(0)  # all processes start alike
    names = hypertf.conditioning.names() if methods == "all" else methods.split(",")
    meshes = {s: devices.create_mesh(parse_shape(s)) for s in shapes.split("/")}
    results = {}
    for case in names:
        method, _, kind = case.partition("+")
        model = make_model(method)
        options = {**STEP_OPTIONS.get(method, {}), **STEP_OPTIONS.get(kind, {})}
        initial = model.get_weights()
        one_device = on_one_device(model, make_optimizer(kind), **options)
        for shape, mesh in meshes.items():
            model.set_weights(initial)
            optimizer = make_optimizer(kind)
            found, step = compare(model, optimizer, mesh, *one_device, **options)
            if case == names[0]:  # one will do: it takes a while
                found["gathered"] = same_when_gathered(step)
                found["agree"] = agreements(step)
                if dtensor.num_clients() == 1:
                    found["saved"] = same_in_loop(step)
            results[f"{shape} {case}"] = found
            print(shape, case, found, file=sys.stderr, flush=True)
    for mesh in meshes.values():
        dtensor.barrier(mesh)  # or a process that is done first would hang up
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
