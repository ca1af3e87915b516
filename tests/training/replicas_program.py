"""Trains and predicts on virtual CPUs; writes what came of it to FOLDER/results.npz.

    python -m tests.training.replicas_program FOLDER 2

Apart from pytest, because devices are split before TensorFlow starts. With 2, one
device takes its turn too; 4 are for themselves, because TensorFlow's collectives allow
one number of devices in a process.
"""

import sys

import numpy as np
import tensorflow as tf

from hypertf.optimizers import Adafactor, AdamW
from hypertf.training import (
    Loop,
    Predictor,
    RunFolder,
    TrainStep,
    distribute,
    make_strategy,
    read_log,
)
from tests.training.tiny import ROWS, TASKS, batch_at, make_batches, make_model

STEPS = 3
# Large epsilons, so that a rounded gradient makes a rounded update.
CASES = {
    "adafactor": {
        "method": "hypergrid",
        "optimizer": lambda: Adafactor(0.05, epsilon1=1e-4),
        "normalization": "target_size",
    },
    "adamw": {
        "method": "hyperprompt-global",
        "optimizer": lambda: AdamW(0.05, weight_decay=0.1, epsilon=1e-2),
        "normalization": "tokens",
        "clip_norm": 0.5,
        "microbatches": 2,
    },
}


def dataset_of(batches):
    def make(host, num_hosts):
        assert (host, num_hosts) == (0, 1)
        return tf.data.Dataset.from_tensor_slices(batches)

    return make


def train(strategy, folder, method, optimizer, **options):
    """The losses that a loop logs, and the tensors of its checkpoint."""
    with strategy.scope():
        model, optimizer = make_model(method), optimizer()
    step = TrainStep(model, optimizer, TASKS, strategy, **options)
    data = dataset_of(make_batches(STEPS))
    loop = Loop(
        step,
        lambda start, host, num_hosts: data(host, num_hosts),
        RunFolder(folder),
        steps=STEPS,
        batch_size=ROWS,
        steps_per_loop=1,
    )
    loop.run()
    log = read_log(folder)
    reader = tf.train.load_checkpoint(loop.folder.prefix(STEPS))
    names = reader.get_variable_to_shape_map()
    return {
        "loss": [record["loss"] for record in log],
        "task_loss": [list(record["task_loss"].values()) for record in log],
        "examples": [list(record["task_examples"].values()) for record in log],
        **{f"tensor/{name}": reader.get_tensor(name) for name in names},
    }


def losses_of_equal_rows(strategy, replicas):
    """Every replica has the same rows, under a task id of its own."""
    some = batch_at(make_batches(), 0)
    batch = {name: np.repeat(x[-1:], ROWS, axis=0) for name, x in some.items()}
    batch["task_ids"] = np.repeat(np.arange(replicas), ROWS // replicas).astype("int32")
    with strategy.scope():
        model, optimizer = make_model(dropout_rate=0.3), Adafactor(0.0)
    step = TrainStep(model, optimizer, replicas, strategy)
    data = dataset_of({name: value[None] for name, value in batch.items()})
    return step.run(iter(distribute(strategy, data)), 0, 1)["loss"]


def predict(strategy):
    """Ids, log probabilities and the likelihoods of three choices, row by row."""
    batches = make_batches(3)
    batches["index"] = np.arange(3 * ROWS).reshape(3, ROWS)
    batches["index"][2, 5:] = -1  # fillers
    with strategy.scope():
        model = make_model("hyperprompt-global")
    predictor = Predictor(model, 5, strategy)
    ids, scores = predictor.generate(dataset_of(batches))
    choices = np.array([[5, 1, 0], [6, 7, 1], [9, 1, 0]])
    ranks = predictor.rank(dataset_of(batches), choices)
    return {"ids": ids, "scores": scores, "ranks": ranks}


def main(folder, replicas):
    cpu = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(replicas)]
    tf.config.set_logical_device_configuration(cpu, parts)
    strategies = {replicas: make_strategy("mirrored")}
    if replicas == 2:
        strategies[1] = make_strategy("one_device")
    results = {}
    for count, strategy in strategies.items():
        assert strategy.num_replicas_in_sync == count
        for name in CASES if replicas == 2 else ["adamw"]:
            case = CASES[name]
            parts = train(strategy, f"{folder}/{name}_{count}", **case)
            results |= {f"{name}/{count}/{key}": value for key, value in parts.items()}
        if replicas == 2:
            parts = predict(strategy)
            results |= {f"predictions/{count}/{k}": value for k, value in parts.items()}
    if replicas == 2:
        results["losses_of_equal_rows"] = losses_of_equal_rows(strategies[2], 2)
    np.savez(f"{folder}/results.npz", **results)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
