"""Examples by the length of their inputs, so that short ones are not padded to long.

    for part in split(examples, vocabulary, inputs_length=512):
        part.length                     # tokens: the longest of the part fits
        part.numbers["glue/rte"]        # which examples of the task are in it

There are few parts, because a model is compiled for each length.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfds_tasks.batches import ended
from tfds_tasks.vocabulary import Vocabulary

MOST = 4  # parts
STEP = 8  # lengths are multiples of it
ENOUGH = 1.1  # times the least padding: so many parts are not worth one more
AT_ONCE = 4096  # texts that are made tokens together


class Part(NamedTuple):
    """Examples of about one length.

    Attributes:
        length: tokens of an input that all of them fit into.
        numbers: {task: numbers of its examples, ascending}; no task has none.
    """

    length: int
    numbers: dict[str, np.ndarray]

    def of(self, examples: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """Takes the part's own out of the examples of all tasks."""
        return {
            task: [examples[task][i] for i in numbers]
            for task, numbers in self.numbers.items()
        }


def split(
    examples: Mapping[str, Sequence[Mapping[str, Any]]],
    vocabulary: Vocabulary,
    inputs_length: int,
    most: int = MOST,
) -> list[Part]:
    """Splits {task: examples} into at most `most` parts, short ones first."""
    lengths = {
        task: input_lengths([e["inputs"] for e in of_task], vocabulary, inputs_length)
        for task, of_task in examples.items()
    }
    every = np.concatenate([np.empty(0, np.int64), *lengths.values()])
    parts, least = [], 0
    for longest in edges(every, inputs_length, most):
        inside = {
            task: np.flatnonzero((least < values) & (values <= longest))
            for task, values in lengths.items()
        }
        parts.append(Part(longest, {t: n for t, n in inside.items() if len(n)}))
        least = longest
    return parts


def input_lengths(
    texts: Sequence[str], vocabulary: Vocabulary, inputs_length: int
) -> np.ndarray:
    """Counts the tokens of each text, trimmed to `inputs_length`, the end included."""
    counts = [np.empty(0, np.int64)]
    for start in range(0, len(texts), AT_ONCE):
        some = tf.constant(texts[start : start + AT_ONCE], tf.string)
        counts.append(ended(some, vocabulary, inputs_length).row_lengths().numpy())
    return np.concatenate(counts)


def edges(lengths: np.ndarray, longest: int, most: int = MOST) -> list[int]:
    """Chooses the lengths of the parts, ascending, so that little is padded.

    >>> edges(np.array([5, 6, 7, 60]), longest=512)
    [8, 64]
    >>> edges(np.array([30, 31, 32, 500]), longest=500, most=1)
    [500]
    """
    if not len(lengths):
        return []
    steps = -(-np.asarray(lengths) // STEP)
    values, counts = np.unique(steps, return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)])
    size = len(values)
    # cost[i]: padded tokens, in steps, of the i shortest lengths in so many parts.
    cost = np.where(np.arange(size + 1) == 0, 0.0, np.inf)
    costs, cuts = [], []
    for _ in range(min(most, size)):
        of_last = (below[None, 1:] - below[:-1, None]) * values[None, :].astype(float)
        total = cost[:-1, None] + np.where(
            np.arange(size)[:, None] <= np.arange(size)[None], of_last, np.inf
        )
        cuts.append(total.argmin(axis=0))  # where the last part begins
        cost = np.concatenate([[0.0], total.min(axis=0)])
        costs.append(cost[-1])
    parts = next(i for i, c in enumerate(costs) if c <= ENOUGH * min(costs))
    chosen, end = [], size
    for number in range(parts, -1, -1):
        chosen.append(min(int(values[end - 1]) * STEP, longest))
        end = int(cuts[number][end - 1])
        if not end:
            break
    return chosen[::-1]
