"""How long the examples of each task are in tokens, and what is trimmed."""

import dataclasses
from collections.abc import Iterable

import numpy as np
from absl import logging

from tfds_tasks import stream
from tfds_tasks.batches import Shape
from tfds_tasks.formats import Tensors
from tfds_tasks.task import Task

SAMPLE = 500  # examples of a task that are looked at before training
TOLERATED = 0.02  # the share of a task that may be trimmed without a word


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Token counts of a task's examples, the end token included: int [examples]."""

    task: str
    inputs: np.ndarray
    targets: np.ndarray

    def trimmed(self, inputs_length: int, targets_length: int) -> tuple[float, float]:
        """Returns the shares of examples with too long inputs, and targets."""
        return (
            float(np.mean(self.inputs > inputs_length)),
            float(np.mean(self.targets > targets_length)),
        )


def measure(
    task: Task,
    split: str,
    shape: Shape,
    limit: int | None = None,
    data_dir: str | None = None,
) -> Lengths:
    """Counts the tokens of a task's first `limit` examples (of all if None)."""
    vocabulary = shape.vocabulary
    examples = stream.texts(task, task.rows(split, data_dir), split, shape)
    if limit is not None:
        examples = examples.take(limit)
    inputs, targets = [], []
    for batch in examples.map(_texts).batch(256):
        inputs.append(vocabulary.encode(batch["inputs"]).row_lengths().numpy() + 1)
        targets.append(vocabulary.encode(batch["targets"]).row_lengths().numpy() + 1)
    return Lengths(task.name, np.concatenate(inputs), np.concatenate(targets))


def _texts(example: Tensors) -> Tensors:
    return {"inputs": example["inputs"], "targets": example["targets"]}


def warn_if_trimmed(
    tasks: Iterable[Task], split: str, shape: Shape, data_dir: str | None = None
) -> None:
    """Warns once, naming each task of which more than a few percent is trimmed."""
    trimmed = []
    for task in tasks:
        if split not in task.parts or task.rate == 0:
            continue
        lengths = measure(task, split, shape, SAMPLE, data_dir)
        shares = lengths.trimmed(shape.inputs_length, shape.targets_length)
        for name, share in zip(("inputs", "targets"), shares, strict=True):
            if share > TOLERATED:
                trimmed.append(
                    f"{task.name}: {share:.0%} of {name} are longer than "
                    f"{getattr(shape, name + '_length')} tokens "
                    f"(95% are within {int(np.percentile(getattr(lengths, name), 95))})"
                )
    if trimmed:
        logging.warning("trimmed (the end token is kept): %s", "; ".join(trimmed))
