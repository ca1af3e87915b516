"""The training step on meshes of virtual CPU devices beside one device.

The devices share this machine's cores, so a mesh does not get faster: the figures tell
what DTensor costs, and what each device holds. All steps take turns in one process, a
new one, because devices are divided before TensorFlow starts:

    python -m experiments.benchmarks.mesh_suite '{"size": "t5-nano", ...}'
"""

import gc
import json
import subprocess
import sys
import time

import numpy as np
import tensorflow as tf

import hypertf
from experiments.benchmarks import timing
from experiments.benchmarks.peers import Operation, Workload
from experiments.reports.tables import aligned
from hypertf.mesh import MeshShape, devices, parse_layout, parse_shape
from hypertf.mesh.plan import plan
from hypertf.mesh.step import MeshStep
from hypertf.training import TrainStep

MESHES = ("batch:4", "batch:2,model:2", "model:4")
ONE = "one device"
BATCH, TASKS = 16, 8


def run(options: timing.Options) -> dict:
    """Measures in a new process, prints the table, returns what goes into the JSON."""
    shapes = [str(parse_shape(text)) for text in options.only or MESHES]
    workload = Workload(hypertf.T5Config.from_name(options.size), batch=BATCH)
    asked = {"size": options.size, "rounds": options.rounds, "shapes": shapes}
    process = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(asked)],
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise RuntimeError(
            f"measuring {' and '.join(shapes)} failed: {process.stderr.strip()[-2000:]}"
        )
    results = json.loads(process.stdout.splitlines()[-1])
    report(results, workload, options.size)
    return {
        "size": options.size,
        "batch": BATCH,
        "input_length": workload.input_length,
        "target_length": workload.target_length,
        "operations": {"training step": results},
    }


def measure(size: str, rounds: int, shapes: list[str]) -> dict[str, dict]:
    """Measures each mesh and one device; starts the virtual devices before."""
    meshes = {str(shape): shape for shape in map(parse_shape, shapes)}
    devices.start(virtual_cpus=max(shape.size for shape in meshes.values()))
    workload = Workload(hypertf.T5Config.from_name(size), batch=BATCH)
    cases, first, held = {}, {}, {}
    for name, shape in {ONE: None, **meshes}.items():
        began = time.perf_counter()
        cases[name], held[name] = training_step(workload, shape)
        cases[name]()
        first[name] = time.perf_counter() - began
        gc.collect()  # what was traced refers to itself
    seconds = timing.in_turns(cases, rounds, "training step")
    rows = timing.summary(seconds, reference=ONE)
    for name, shape in {ONE: parse_shape("batch:1"), **meshes}.items():
        rows[name] |= {
            "first_step_s": first[name],
            "bytes_per_device": held[name],
            "planned_bytes": planned(size, shape),
        }
    return rows


def training_step(workload: Workload, shape: MeshShape | None) -> tuple[Operation, int]:
    """Makes the step on a mesh, or one device; and the bytes that a device holds."""
    model = hypertf.T5(workload.config, seed=0)
    batch = make_batch(workload)
    if shape is None:
        step = TrainStep(model, hypertf.Adafactor(), TASKS)
        own = list(model.trainable_variables)
        own += [s for v in own for s in step.optimizer.slots(v).values()]
        tensors = {name: tf.constant(x) for name, x in batch.items()}
        return lambda: step.one(tensors, 0), sum(np.asarray(v).nbytes for v in own)
    mesh = devices.create_mesh(shape)
    step = MeshStep(model, hypertf.Adafactor(), mesh, parse_layout(), TASKS)
    parts = devices.bytes_by_device([*step.weights.values(), *step.slots.values()])
    return lambda: step.one(batch), max(parts.values())


def make_batch(workload: Workload) -> dict[str, np.ndarray]:
    """Draws a batch of mixed tasks."""
    w = workload
    return {
        "encoder_tokens": w.tokens(w.batch, w.input_length, 0),
        "decoder_tokens": w.tokens(w.batch, w.target_length, 1),
        "targets": w.tokens(w.batch, w.target_length, 2),
        "task_ids": np.arange(w.batch, dtype="int32") % TASKS,
    }


def planned(size: str, shape: MeshShape) -> int:
    """Bytes of weights and slots on a device, as `hypertf.mesh.plan` has them."""
    found = plan(size, shape, batch_size=BATCH, precision="float32")
    return found.of_weights("weights") + found.of_weights("slots")


def report(results: dict[str, dict], workload: Workload, size: str) -> None:
    """Prints the table."""
    print(
        f"\n{size}, batch {workload.batch}, {workload.input_length}/"
        f"{workload.target_length} tokens; all devices share this machine's cores\n"
    )
    rows = [
        (
            name,
            f"{row['first_step_s']:.1f}",
            f"{row['median_ms']:.1f}",
            timing.times(row["ratio"], row["error"]),
            f"{row['bytes_per_device'] / 1e6:.2f}",
            f"{row['planned_bytes'] / 1e6:.2f}",
        )
        for name, row in results.items()
    ]
    headings = ("mesh", "first step s", "median ms", f"x {ONE}", "MB held", "planned")
    print(aligned(headings, rows))


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
