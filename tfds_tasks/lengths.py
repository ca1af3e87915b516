"""How long the examples of each task are in tokens, and what is trimmed."""

import dataclasses

import numpy as np
from absl import logging

from tfds_tasks import stream

SAMPLE = 500  # examples of a task that are looked at before training
TOLERATED = 0.02  # the share of a task that may be trimmed without a word


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Token counts of a task's examples, the end token included: int [examples]."""

    task: str
    inputs: np.ndarray
    targets: np.ndarray

    def trimmed(self, inputs_length, targets_length):
        """The shares of examples whose inputs and whose targets are too long."""
        return (
            float(np.mean(self.inputs > inputs_length)),
            float(np.mean(self.targets > targets_length)),
        )


def measure(task, split, shape, limit=None, data_dir=None):
    """The lengths of a task's first `limit` examples (all if None)."""
    vocabulary = shape.vocabulary
    examples = stream.texts(task, task.rows(split, data_dir), split, shape)
    if limit is not None:
        examples = examples.take(limit)
    inputs, targets = [], []
    for batch in examples.map(_texts).batch(256):
        inputs.append(vocabulary.encode(batch["inputs"]).row_lengths().numpy() + 1)
        targets.append(vocabulary.encode(batch["targets"]).row_lengths().numpy() + 1)
    return Lengths(task.name, np.concatenate(inputs), np.concatenate(targets))


def _texts(example):
    return {"inputs": example["inputs"], "targets": example["targets"]}


def table(all_lengths, inputs_length, targets_length):
    """Lines of a table: median, 95th percentile, longest, and the share trimmed."""
    lines = [
        f"{'task':<24}{'':>9}{'median':>8}{'95%':>8}{'longest':>9}{'trimmed':>9}",
    ]
    for lengths in all_lengths:
        shares = lengths.trimmed(inputs_length, targets_length)
        for name, share in zip(("inputs", "targets"), shares, strict=True):
            counts = getattr(lengths, name)
            median, high = np.percentile(counts, [50, 95]).astype(int)
            lines.append(
                f"{lengths.task if name == 'inputs' else '':<24}{name:>9}{median:>8}"
                f"{high:>8}{counts.max():>9}{share:>9.1%}"
            )
    return lines


def warn_if_trimmed(tasks, split, shape, data_dir=None):
    """One warning that names each task of which more than a few percent is trimmed."""
    found = []
    for task in tasks:
        if split not in task.parts or task.rate == 0:
            continue
        lengths = measure(task, split, shape, SAMPLE, data_dir)
        shares = lengths.trimmed(shape.inputs_length, shape.targets_length)
        for name, share in zip(("inputs", "targets"), shares, strict=True):
            if share > TOLERATED:
                found.append(
                    f"{task.name}: {share:.0%} of {name} are longer than "
                    f"{getattr(shape, name + '_length')} tokens "
                    f"(95% are within {int(np.percentile(getattr(lengths, name), 95))})"
                )
    if found:
        logging.warning("trimmed (the end token is kept): %s", "; ".join(found))
    return found
