"""How often tasks are drawn whose long examples are cut: by their chunks."""

import dataclasses

from experiments.runs.config import Config
from tfds_tasks import Mixture, Vocabulary, stream
from tfds_tasks.batches import Shape
from tfds_tasks.task import Task

CHUNKS = "chunks"  # of `Config.rates`
ROWS = 512  # of a task, whose chunks are counted for all


def by_chunks(
    config: Config, mixture: Mixture, vocabulary: Vocabulary, data_dir: str | None
) -> Mixture:
    """Returns the mixture with rates by chunks, if the configuration asks for it.

    As Hyperdecoders' code, which puts the chunks of all sets together and draws from
    them alike. A task's chunks are its rows times the mean over its first 512 rows.
    """
    if config.rates != CHUNKS:
        return mixture
    shape = Shape(vocabulary, inputs_length=config.inputs_length)
    tasks = [
        dataclasses.replace(task, rate=count_chunks(task, shape, data_dir))
        if is_cut(task)
        else task
        for task in mixture.tasks
    ]
    return dataclasses.replace(mixture, tasks=tuple(tasks))


def is_cut(task: Task) -> bool:
    """Whether a task is trained, on all of its rows, and its examples are cut."""
    return task.chunks is not None and "train" in task.parts and task.style.rows is None


def count_chunks(task: Task, shape: Shape, data_dir: str | None = None) -> int:
    """Estimates the chunks of a task's training rows."""
    rows = task.num_rows("train", data_dir)
    taken = min(rows, ROWS)
    sample = task.rows("train", data_dir).take(taken)
    chunks = sum(1 for _ in stream.texts(task, sample, "train", shape))
    return round(rows * chunks / taken)
