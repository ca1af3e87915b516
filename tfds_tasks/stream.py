"""Examples of many tasks in one endless order that a seed decides.

The order is a function of the position alone: which task is drawn at a position, and
which of its examples, can be told without having seen the ones before. So a run goes
on from where it stopped by knowing one number, and any number of hosts agree on it.
"""

import zlib

import numpy as np
import tensorflow as tf

from tfds_tasks.batches import Shape
from tfds_tasks.task import Task

BLOCK = 4096  # draws made at a time
BUFFER = 8192  # rows held to shuffle; TFDS has written them in a random order already


def texts(
    task: Task, rows: tf.data.Dataset, split: str, shape: Shape
) -> tf.data.Dataset:
    """Writes (index, row) as examples, cut into chunks if the task asks for that.

    Args:
        task: whose rows they are.
        rows: tf.data as `Task.rows` gives it.
        split: which may have a format of its own.
        shape: has the `vocabulary`, and the `inputs_length` of a chunk.
    """
    examples = task.format_rows(rows, split)
    if task.chunks is None:
        return examples
    return examples.flat_map(
        lambda example: tf.data.Dataset.from_tensor_slices(
            task.chunks(example, shape.vocabulary.tokenizer, shape.inputs_length)
        )
    )


def endless(
    task: Task,
    split: str,
    shape: Shape,
    seed: int,
    start: int,
    data_dir: str | None = None,
) -> tf.data.Dataset:
    """Gives a task's examples from the start-th on, each epoch in another order."""
    rows, buffer = task.rows(split, data_dir), task.num_rows(split, data_dir)
    if buffer <= BUFFER:
        rows = rows.cache()  # few rows of many would be looked for in every epoch
    buffer = min(buffer, BUFFER)
    seeds = np.array([seed, zlib.crc32(task.name.encode())], "int64")

    def epoch(number: tf.Tensor) -> tf.data.Dataset:
        tf.compat.v1.set_random_seed(1)  # of this graph: not the caller's global seed
        mixed = tf.random.stateless_uniform(
            [], seeds + tf.stack([0, number]), maxval=2**31 - 1, dtype=tf.int64
        )
        return rows.shuffle(buffer, seed=mixed, reshuffle_each_iteration=False)

    size = num_texts(task, split, shape, data_dir) if start else 1
    numbers = tf.data.Dataset.range(start // size, np.iinfo("int64").max)
    rows_of_all, skipped = numbers.flat_map(epoch), start % size
    if task.one_example_a_row(split):  # rows are skipped faster than texts
        return texts(task, rows_of_all.skip(skipped), split, shape)
    return texts(task, rows_of_all, split, shape).skip(skipped)


def num_texts(task: Task, split: str, shape: Shape, data_dir: str | None = None) -> int:
    """Counts the examples that an epoch of the task has."""
    if task.chunks is None:
        return task.num_examples(split, data_dir)
    examples = texts(task, task.rows(split, data_dir), split, shape)
    return int(examples.reduce(0, lambda n, _: n + 1))


def draws(
    probabilities: np.ndarray, seed: int, block: tf.Tensor, repeats: int = 1
) -> tf.Tensor:
    """Draws the tasks at the positions of a block: [BLOCK * repeats], int64."""
    cumulative = tf.constant(np.cumsum(probabilities) / np.sum(probabilities))
    uniform = tf.random.stateless_uniform(
        [BLOCK], tf.stack([tf.cast(seed, tf.int64), block]), dtype=tf.float64
    )
    drawn = tf.searchsorted(cumulative, uniform, side="right")
    last = int(np.flatnonzero(probabilities)[-1])
    drawn = tf.minimum(tf.cast(drawn, tf.int64), last)
    return tf.repeat(drawn, repeats)


def choices(
    probabilities: np.ndarray, seed: int, start: int, repeats: int = 1
) -> tf.data.Dataset:
    """Gives the task drawn at each position from `start` on, as tf.data."""
    length = BLOCK * repeats
    blocks = tf.data.Dataset.range(start // length, np.iinfo("int64").max)
    drawn = blocks.map(lambda block: draws(probabilities, seed, block, repeats))
    return drawn.unbatch().skip(start % length)


def counts(
    probabilities: np.ndarray, seed: int, stop: int, repeats: int = 1
) -> np.ndarray:
    """Counts how often each task is drawn before position `stop`: int64 [tasks]."""
    number, length = len(probabilities), BLOCK * repeats

    def count(block: tf.Tensor) -> tf.Tensor:
        drawn = draws(probabilities, seed, block, repeats)
        inside = tf.clip_by_value(stop - block * length, 0, length)
        return tf.math.bincount(
            tf.cast(drawn[:inside], tf.int32), minlength=number, dtype=tf.int64
        )

    blocks = tf.data.Dataset.range(-(-stop // length))
    per_block = blocks.map(count, num_parallel_calls=tf.data.AUTOTUNE)
    return per_block.reduce(np.zeros(number, "int64"), lambda a, b: a + b).numpy()
