"""Streams of batches: shapes, order, resuming, hosts, shares."""

import itertools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from tfds_tasks import (
    get_mixture,
    get_task,
    get_vocabulary,
    lengths,
    sources,
    stream,
)
from tfds_tasks.batches import Shape

TASKS = "nano/acceptability,nano/paraphrase,nano/similarity"


@pytest.fixture(scope="module")
def batches(data_dir):
    def make(split="train", mixture=TASKS, number=None, rates=None, **options):
        options = {"batch_size": 16, "inputs_length": 32, "targets_length": 8} | options
        options |= {"vocabulary": get_vocabulary("nano"), "data_dir": data_dir}
        options.setdefault("check_lengths", False)
        data = get_mixture(mixture, **(rates or {})).dataset(split, **options)
        return list(itertools.islice(data.as_numpy_iterator(), number))

    return make


def order(some):
    """Every example's task and row, batch by batch."""
    return [
        list(zip(b["task_ids"].tolist(), b["index"].tolist(), strict=True))
        for b in some
    ]


def test_shapes_and_ends(batches):
    for batch in batches(number=3):
        assert batch["encoder_tokens"].shape == (16, 32)
        assert batch["targets"].shape == batch["decoder_tokens"].shape == (16, 8)
        assert {b.dtype for k, b in batch.items() if k != "index"} == {
            np.dtype("int32")
        }
        for name in ("encoder_tokens", "targets"):
            for row in batch[name]:
                ends = np.flatnonzero(row == 1)
                assert len(ends) == 1 and not row[ends[0] + 1 :].any()
        shifted = np.pad(batch["targets"], ((0, 0), (1, 0)))[:, :-1]
        assert (batch["decoder_tokens"] == shifted).all()


def test_trimming_keeps_the_end(batches):
    (batch,) = batches(number=1, inputs_length=5, targets_length=2)
    assert batch["encoder_tokens"].shape == (16, 5)
    assert (batch["encoder_tokens"][:, -1] == 1).all()
    assert (batch["targets"] == 1).any(axis=1).all()


def test_tokens_are_those_of_the_text(batches, data_dir):
    vocabulary = get_vocabulary("nano")
    task = get_task("nano/paraphrase")
    expected = {int(e["index"]): e for e in task.examples("train", data_dir)}
    (batch,) = batches(mixture="nano/paraphrase", number=1, inputs_length=64)
    for tokens, targets, index in zip(
        batch["encoder_tokens"], batch["targets"], batch["index"], strict=True
    ):
        example = expected[int(index)]
        ids = [*vocabulary.pieces.encode(example["inputs"].numpy().decode()), 1]
        assert tokens[tokens > 0].tolist() == ids
        ids = [*vocabulary.pieces.encode(example["targets"].numpy().decode()), 1]
        assert targets[targets > 0].tolist() == ids


def test_the_seed_decides_the_order(batches, monkeypatch):
    """That of the data, and not the global one."""
    monkeypatch.setattr(context.context(), "_seed", None)
    first = order(batches(number=4, seed=1))
    for seed in (0, 1):
        tf.random.set_seed(seed)
        assert order(batches(number=4, seed=1)) == first
    assert order(batches(number=4, seed=2)) != first


@pytest.mark.parametrize("per_batch", [False, True])
def test_going_on_from_any_batch(batches, per_batch):
    """Past several epochs of the smallest task."""
    options = {"per_batch": per_batch, "seed": 3, "rates": {"rates": "equal"}}
    whole = order(batches(number=60, **options))
    for start in (1, 7, 41):
        assert order(batches(number=3, start=start, **options)) == whole[start:][:3]


def test_every_epoch_has_every_row_once_in_another_order(batches, data_dir):
    task = get_task("nano/similarity")
    size = task.num_examples("train", data_dir)
    some = batches(mixture="nano/similarity", number=-(-2 * size // 16))
    rows = [row for batch in order(some) for _, row in batch]
    epochs = rows[:size], rows[size : 2 * size]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(size))
    assert epochs[0] != epochs[1]


def test_hosts_make_the_parts_of_one_batch(batches):
    whole = order(batches(number=5))
    for host in range(4):
        part = order(batches(number=5, host=host, num_hosts=4))
        assert part == [batch[4 * host :][:4] for batch in whole]


def test_hosts_share_out_a_finite_split(batches, data_dir):
    hosts = [batches("validation", host=h, num_hosts=2) for h in range(2)]
    rows = Counter(pair for host in hosts for b in order(host) for pair in b)
    filler = sum(n for (_, row), n in rows.items() if row == -1)
    real = {pair: n for pair, n in rows.items() if pair[1] != -1}
    sizes = [
        get_task(name).num_examples("validation", data_dir) for name in TASKS.split(",")
    ]
    assert set(real.values()) == {1}
    assert len(real) == sum(sizes)
    assert filler < 16


def test_fillers_have_no_targets(batches):
    last = batches("validation", mixture="nano/acceptability", batch_size=37)[-1]
    filler = last["index"] == -1
    assert filler.any() and not filler.all()
    assert not last["targets"][filler].any() and last["targets"][~filler].any()


def test_shares_are_the_mixtures(batches, data_dir):
    shares = get_mixture(TASKS, temperature=3).probabilities(data_dir=data_dir)
    counts = Counter(
        int(task)
        for b in batches(number=250, rates={"temperature": 3})
        for task in b["task_ids"]
    )
    for task, share in enumerate(shares.values()):
        expected = 250 * 16 * share
        assert abs(counts[task] - expected) < 5 * np.sqrt(expected)


def test_per_batch_draws_one_task(batches):
    tasks = [set(b["task_ids"]) for b in batches(number=40, per_batch=True)]
    assert all(len(t) == 1 for t in tasks)
    assert len(set.union(*tasks)) > 1


def test_counts_are_those_of_the_choices():
    shares = np.array([0.5, 0.0, 0.2, 0.3])
    for repeats, stop in ((1, 0), (1, 5000), (1, 3 * stream.BLOCK), (7, 40001)):
        drawn = stream.choices(shares, 5, 0, repeats).take(stop).batch(4096)
        drawn = [choice for some in drawn.as_numpy_iterator() for choice in some]
        expected = np.bincount(np.array(drawn, int), minlength=4)
        assert stream.counts(shares, 5, stop, repeats).tolist() == expected.tolist()
        assert expected[1] == 0


def test_few_rows_are_looked_for_once_not_in_every_epoch(data_dir, monkeypatch):
    read, rows = [], sources.rows

    def counted(*given):
        def note(row):
            tf.py_function(read.append, [0], [])
            return row

        return rows(*given).map(note)

    monkeypatch.setattr(sources, "rows", counted)
    task, shape = get_task("nano/similarity", rows=4), Shape(get_vocabulary("nano"))
    examples = stream.endless(task, "train", shape, 0, 0, data_dir).take(20)
    drawn = [int(example["index"]) for example in examples]
    assert all(set(drawn[i : i + 4]) == set(drawn) for i in range(0, 20, 4))
    assert len(set(drawn)) == 4
    assert len(read) == get_task("nano/similarity").num_rows("train", data_dir)


def test_a_warning_names_the_task_that_is_trimmed(batches, data_dir, caplog):
    mixture, shape = get_mixture(TASKS), Shape(get_vocabulary("nano"))
    measured = [
        lengths.measure(task, "train", shape, 200, data_dir) for task in mixture.tasks
    ]
    short = int(np.percentile(measured[0].inputs, 50)) - 1
    batches(number=1, inputs_length=short, check_lengths=True)
    assert "nano/acceptability" in caplog.text and f"{short} tokens" in caplog.text
    caplog.clear()
    longest = int(max(m.inputs.max() for m in measured))
    batches(number=1, inputs_length=longest + 8, check_lengths=True)
    assert not caplog.text


SHAPE = {"batch_size": 37, "inputs_length": 12, "targets_length": 3}


@pytest.mark.parametrize("hosts", [{}, {"host": 1, "num_hosts": 37}])
def test_examples_make_the_batches_that_the_data_makes(batches, data_dir, hosts):
    mixture, vocabulary = get_mixture(TASKS), get_vocabulary("nano")
    read = mixture.examples("validation", data_dir=data_dir)
    for part in (mixture, mixture.only(["nano/similarity", "nano/paraphrase"])):
        made = part.batches_of(read, vocabulary=vocabulary, **SHAPE, **hosts)
        options = {**SHAPE, **hosts, "vocabulary": vocabulary, "data_dir": data_dir}
        expected = part.dataset("validation", check_lengths=False, **options)
        assert made.element_spec == expected.element_spec
        pairs = list(zip(made, expected, strict=True))
        assert len(pairs) == -(-len(part.tasks) * 312 // 37)
        for ours, theirs in pairs:
            tf.nest.map_structure(np.testing.assert_array_equal, ours, theirs)


def test_no_examples_make_no_batches():
    mixture, vocabulary = get_mixture(TASKS), get_vocabulary("nano")
    for examples in ({}, {"nano/yes_no": []}):
        with pytest.raises(ValueError, match="expected one of nano/acceptability"):
            mixture.batches_of(examples, vocabulary=vocabulary)
    assert not list(
        mixture.batches_of({TASKS.split(",")[0]: []}, vocabulary=vocabulary)
    )


@pytest.mark.parametrize(
    "options, words",
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"inputs_length": -1}, "inputs_length=-1"),
        ({"host": 2, "num_hosts": 2}, "host=2, expected 0 to 1"),
        ({"num_hosts": 3}, "batch_size=16 does not divide by num_hosts=3"),
        ({"start": -1}, "start=-1"),
        ({"split": "dev"}, "no task has split 'dev'"),
    ],
)
def test_bad_options(batches, options, words):
    with pytest.raises(ValueError, match=words):
        batches(**options)
