"""Parts of like length hold every example once, and pad little."""

import itertools

import numpy as np
import pytest

from tfds_tasks import buckets, get_vocabulary


def padded(lengths, edges):
    """Tokens of all rows, each padded to the least edge that it fits into."""
    edges = np.asarray(edges)
    return int(edges[np.searchsorted(edges, lengths)].sum())


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_other_lengths_pad_less(most):
    lengths = np.random.default_rng(most).integers(1, 60, 40)
    chosen = buckets.edges(lengths, 64, most)
    assert len(chosen) <= most and sorted(set(chosen)) == chosen
    last = -(-lengths.max() // buckets.STEP) * buckets.STEP
    others = range(buckets.STEP, last, buckets.STEP)
    best = min(
        padded(lengths, [*some, last])
        for some in itertools.combinations(others, most - 1)
    )
    assert padded(lengths, chosen) <= buckets.ENOUGH * best
    assert len(chosen) == most or padded(lengths, chosen) <= buckets.ENOUGH * best


def test_lengths_that_are_alike_are_one_part():
    assert buckets.edges(np.full(10, 33), 512) == [40]
    assert buckets.edges(np.full(10, 33), 36) == [36]
    assert buckets.edges(np.empty(0, int), 512) == []


def test_every_example_is_in_one_part_that_it_fits_into():
    vocabulary = get_vocabulary("nano")
    words = ["one", "a longer text of some words", "and " * 60]
    examples = {
        "first": [{"inputs": words[i % 3]} for i in range(7)],
        "second": [{"inputs": words[0]}] * 2,
        "none": [],
    }
    parts = buckets.split(examples, vocabulary, inputs_length=32)
    assert [part.length for part in parts] == sorted(part.length for part in parts)
    for name in ("first", "second"):
        numbers = [n for part in parts for n in part.numbers.get(name, ())]
        assert sorted(numbers) == list(range(len(examples[name])))
    assert all("none" not in part.numbers for part in parts)
    for part in parts:
        for task, rows in part.of(examples).items():
            texts = [row["inputs"] for row in rows]
            counts = buckets.input_lengths(texts, vocabulary, 32)
            assert counts.max() <= part.length, task
    assert parts[-1].length == 32  # what is longer is trimmed
