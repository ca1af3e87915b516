"""Checks of what is made of a model: copies, files, baked models."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from hypertf import checkpoints
from hypertf.export import bake
from hypertf.t5 import T5, named_weights
from hypertf.testing.case import (
    TARGET_LENGTH,
    Case,
    eagerly,
    require,
    require_close,
)


def check_configuration(case: Case) -> None:
    """A model made from the configuration is the same and trains the same."""
    case.twin.set_weights(case.model.get_weights())
    _require_copy(case, case.twin, "from its configuration")


def check_keras_file(case: Case) -> None:
    """A .keras file holds all of the model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        case.model.save(path)
        _require_copy(case, keras.saving.load_model(path), "from a .keras file")


def check_checkpoint(case: Case) -> None:
    """A checkpoint in Mesh TensorFlow's form holds every weight."""
    other = case.twin
    other.set_weights([np.zeros(weight.shape) for weight in other.weights])
    with tempfile.TemporaryDirectory() as folder:
        report = checkpoints.load(
            other, checkpoints.save(case.model, folder, format="mesh")
        )
    require(not report.kept, f"the checkpoint lacks {', '.join(report.kept)}")
    _require_copy(case, other, "from a checkpoint")


def _require_copy(case: Case, copy: T5, what: str) -> None:
    expected, weights = named_weights(case.model), named_weights(copy)
    require(
        set(weights) == set(expected),
        f"{what}: other weights: {sorted(set(weights) ^ set(expected))}",
    )
    for name, weight in weights.items():
        same = np.array_equal(weight.numpy(), expected[name].numpy())
        require(same, f"{what}: {name} has other values")
        trained, wanted = weight.trainable, expected[name].trainable
        require(
            trained == wanted,
            f"{what}: {name}: trainable={trained}, expected {wanted}",
        )
    require_close(f"a model {what}", copy(case.batch()), case.logits, 1e-6)


def check_baked(case: Case) -> None:
    """A baked model says and writes the same, and holds nothing that trains."""
    baked = bake(case.model)
    require_close("the baked model", baked(case.batch()), case.logits)
    options = {"length_penalty": 0.0, "return_scores": True}
    with eagerly():
        ids, scores = baked.generate(case.inputs(), TARGET_LENGTH, **options)
    expected_ids, expected = case.written
    require_close("what the baked model writes", scores, expected)
    require(np.array_equal(ids, expected_ids), "the baked model writes other tokens")
    require(not baked.trainable_variables, "the baked model has weights that train")
    if not case.model.conditioner.reads_input:
        mine = {id(weight) for weight in case.model.weights}
        shared = [w.path for w in baked.weights if id(w) in mine]
        require(not shared, f"the baked model shares {shared} with the model")


def check_baked_tasks(case: Case) -> str | None:
    """With some tasks baked, those say the same, and others are an error."""
    if case.model.conditioner.reads_input:
        return "the method reads the input: nothing is kept per task"
    last = case.num_tasks - 1
    baked = bake(case.model, tasks=[last, 0])
    tasks = [(0, last)[i % 2] for i in range(len(case.tasks))]
    got, expected = (model(case.batch(tasks)) for model in (baked, case.model))
    require_close("the first task and the last, baked", got, expected)
    if not case.tasks_differ or case.num_tasks < 3:
        return None
    tasks[1] = 1
    try:
        baked(case.batch(tasks))
    except (ValueError, tf.errors.InvalidArgumentError):
        return None
    raise AssertionError("task 1 was not baked, and is no error")


def check_folded(case: Case) -> str | None:
    """One task folded into a plain T5 says what the method says of that task."""
    task = case.num_tasks - 1
    try:
        plain = bake(case.model, tasks=[task], fold=True)
    except ValueError as error:
        require("cannot be folded" in str(error), f"folding says no reason: {error}")
        return str(error)
    batch = case.batch([task] * len(case.tasks))
    expected = case.model(batch)
    del batch["task_ids"]
    require_close(f"a plain T5 of task {task}", plain(batch), expected)
