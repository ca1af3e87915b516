"""Text examples to batches of tokens of static shape.

    {"inputs": "rte sentence1: ...", "targets": "entailment", "index": 7}
    -> {"encoder_tokens": [[..., 1, 0]], "decoder_tokens": [[0, 3, 35, ...]],
        "targets": [[3, 35, ..., 1, 0]], "task_ids": [2], "index": [7]}

This is the home of the keys of both.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfds_tasks.vocabulary import END, Vocabulary

KEYS = ("inputs", "targets", "index")  # what a batch takes of an example
FILLER = -1  # the index of rows that only fill up the last batch


@dataclasses.dataclass(frozen=True)
class Shape:
    """The shape of a global batch, and the part of it that this host makes."""

    vocabulary: Vocabulary
    batch_size: int = 128
    inputs_length: int = 512
    targets_length: int = 64
    host: int = 0
    num_hosts: int = 1

    def __post_init__(self):
        for name in ("batch_size", "inputs_length", "targets_length", "num_hosts"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise ValueError(
                    f"{name}={getattr(self, name)!r}, expected an integer >= 1"
                )
        if not 0 <= self.host < self.num_hosts:
            raise ValueError(
                f"host={self.host}, expected 0 to {self.num_hosts - 1} (num_hosts="
                f"{self.num_hosts})"
            )
        if self.batch_size % self.num_hosts:
            raise ValueError(
                f"batch_size={self.batch_size} does not divide by num_hosts="
                f"{self.num_hosts}"
            )

    @property
    def rows(self) -> int:
        """Rows of a batch on this host."""
        return self.batch_size // self.num_hosts


def tokens(
    texts: tf.Tensor | Sequence[str], vocabulary: Vocabulary, length: int
) -> tf.Tensor:
    """Turns strings [batch] into ids [batch, length]: trimmed, ended, padded with 0."""
    return ended(texts, vocabulary, length).to_tensor(0, shape=[None, length])


def ended(
    texts: tf.Tensor | Sequence[str], vocabulary: Vocabulary, length: int
) -> tf.RaggedTensor:
    """Turns strings [batch] into ragged ids, of `length` at most, the end included."""
    ids = vocabulary.encode(texts)[:, : length - 1]
    return tf.concat([ids, tf.fill([tf.shape(texts)[0], 1], END)], axis=1)


def shift_right(targets: tf.Tensor) -> tf.Tensor:
    """Makes the decoder's inputs of targets: 0 first, the last target dropped."""
    return tf.pad(targets[:, :-1], [[0, 0], [1, 0]])


def with_task_id(examples: tf.data.Dataset, task_id: int) -> tf.data.Dataset:
    """Keeps what a batch takes of each example, and adds the id of its task."""

    def keep(example: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {key: example[key] for key in KEYS} | {
            "task_ids": tf.constant(task_id, tf.int32)
        }

    return examples.map(keep)


def from_python(examples: Sequence[Mapping[str, Any]], task_id: int) -> tf.data.Dataset:
    """Makes of examples of Python values what `with_task_id` makes of tf.data."""
    texts = {
        key: np.array([example[key].encode("utf-8") for example in examples], object)
        for key in ("inputs", "targets")
    }
    index = np.array([example["index"] for example in examples], np.int64)
    task_ids = np.full(len(examples), task_id, np.int32)
    return tf.data.Dataset.from_tensor_slices(
        {
            **{key: tf.constant(value, tf.string) for key, value in texts.items()},
            "index": index,
            "task_ids": task_ids,
        }
    )


def to_batches(
    examples: tf.data.Dataset, shape: Shape, endless: bool
) -> tf.data.Dataset:
    """Turns the text examples that `with_task_id` makes into batches of tokens.

    A batch is {"encoder_tokens" [rows, inputs_length], "decoder_tokens" and "targets"
    [rows, targets_length], "task_ids" [rows], "index" [rows]}, all int32 but index,
    int64. The last batch of a finite dataset is filled up with rows whose index is -1
    and whose targets are padding.
    """
    first = shape.host * shape.rows
    if not endless:
        examples = _fill(examples, shape)

    def encode(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        mine = {key: value[first : first + shape.rows] for key, value in batch.items()}
        targets = tokens(mine["targets"], shape.vocabulary, shape.targets_length)
        targets = tf.where(mine["index"][:, None] == FILLER, 0, targets)
        inputs = tokens(mine["inputs"], shape.vocabulary, shape.inputs_length)
        batch = {
            "encoder_tokens": inputs,
            "decoder_tokens": shift_right(targets),
            "targets": targets,
            "task_ids": mine["task_ids"],
            "index": mine["index"],
        }
        return {
            k: tf.ensure_shape(v, [shape.rows, *v.shape[1:]]) for k, v in batch.items()
        }

    batches = examples.batch(shape.batch_size, drop_remainder=True)
    batches = batches.map(encode, num_parallel_calls=tf.data.AUTOTUNE)
    return batches.prefetch(tf.data.AUTOTUNE)


def _fill(examples: tf.data.Dataset, shape: Shape) -> tf.data.Dataset:
    """Adds fillers so that no example is left over; they make no batch alone."""
    filler = {
        "inputs": tf.constant(""),
        "targets": tf.constant(""),
        "index": tf.constant(FILLER, tf.int64),
        "task_ids": tf.constant(0, tf.int32),
    }
    fillers = tf.data.Dataset.from_tensors(filler).repeat(shape.batch_size - 1)
    return examples.concatenate(fillers)
