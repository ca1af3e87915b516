"""Packed rows: SeqIO's, none lost or repeated, the same from any place and host."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import shared_path
from tfds_tasks import batches, get_mixture, get_vocabulary, packing
from tfds_tasks.packed_batches import NEXT
from tfds_tasks.packing import Packing, Room, Tokens

TASKS = "nano/acceptability,nano/paraphrase,nano/similarity"
POOL = 50
SHAPE = {"inputs_length": 40, "targets_length": 10}
NAMES = {
    "encoder_tokens": "encoder_input_tokens",
    "decoder_tokens": "decoder_input_tokens",
    "targets": "decoder_target_tokens",
    "encoder_segment_ids": "encoder_segment_ids",
    "decoder_segment_ids": "decoder_segment_ids",
    "encoder_positions": "encoder_positions",
    "decoder_positions": "decoder_positions",
}


def golden():
    return json.loads((shared_path("goldens") / "seqio_packing.json").read_text())


def test_in_order_it_is_seqios():
    cases = [case for case in golden().values() if "packed" in case]
    assert cases
    for case in cases:
        inputs, targets = (
            Tokens.of([e[key] for e in case["examples"]], case["lengths"][key])
            for key in ("inputs", "targets")
        )
        room = Room(case["lengths"]["inputs"], case["lengths"]["targets"], 1000)
        rows = packing.in_order(inputs.lengths, targets.lengths, room)
        made = packing.lay_out(rows, inputs, targets, room)
        for name, value in made.items():
            expected = [row[NAMES[name]] for row in case["packed"]]
            np.testing.assert_array_equal(value, expected, err_msg=name)


def test_padded_rows_are_seqios():
    """One example a row is what batches are without packing."""
    for case in golden().values():
        if "padded" not in case:
            continue
        targets = [row["decoder_target_tokens"] for row in case["padded"]]
        expected = [row["decoder_input_tokens"] for row in case["padded"]]
        made = batches.shift_right(tf.constant(targets))
        np.testing.assert_array_equal(made, expected)


def lengths(seed, number=300):
    room = Room(64, 16, 7)
    rng = np.random.default_rng(seed)
    inputs = np.minimum(rng.geometric(0.06, number), room.inputs)
    return inputs, rng.integers(1, room.targets // 2, number), room


@pytest.mark.parametrize("seed", range(3))
def test_best_fit_loses_nothing_overfills_nothing_and_fills_better(seed):
    inputs, targets, room = lengths(seed)
    rows = packing.best_fit(inputs, targets, room)
    assert sorted(itertools.chain(*rows)) == list(range(len(inputs)))
    for row in rows:
        assert inputs[row].sum() <= room.inputs
        assert targets[row].sum() <= room.targets
        assert len(row) <= room.segments
    least = max(inputs.sum() / room.inputs, targets.sum() / room.targets)
    assert len(rows) < 1.15 * least < len(packing.in_order(inputs, targets, room))


def test_a_row_has_as_many_examples_as_it_may():
    ones = np.ones(30, np.int64)
    assert [len(r) for r in packing.best_fit(ones, ones, Room(64, 64, 7))] == [
        *[7] * 4,
        2,
    ]


def test_of_one_task_no_row_has_two():
    inputs, targets, room = lengths(0)
    task_ids = np.random.default_rng(1).integers(0, 4, len(inputs))
    rows = packing.of_one_task(inputs, targets, task_ids, room)
    assert sorted(itertools.chain(*rows)) == list(range(len(inputs)))
    assert all(len(set(task_ids[row])) == 1 for row in rows)


@pytest.fixture(scope="module")
def draw(data_dir):
    """Batches of a mixture by mode and number; `None` is not packed."""

    def make(mode, number, batch_size=4, **options):
        how = Packing(mode, pool=POOL) if mode else None
        data = get_mixture(TASKS, rates="equal").dataset(
            vocabulary=get_vocabulary("nano"),
            batch_size=batch_size,
            data_dir=data_dir,
            check_lengths=False,
            packing=how,
            **SHAPE,
            **options,
        )
        return list(data.take(number).as_numpy_iterator())

    return make


@pytest.fixture(scope="module", params=["task", "mixed"])
def packed(draw, request):
    """A mode, and batches of it over some pools."""
    return request.param, draw(request.param, 24)


def segments(batch, row):
    """(task, index, input ids, target ids) of the examples of a row."""
    for number, index in enumerate(batch["index"][row].tolist()):
        if index < 0:
            continue
        ids = batch["task_ids"][row]
        task = int(ids if ids.ndim == 0 else ids[number])
        yield (
            task,
            index,
            *(
                tuple(batch[tokens][row][batch[ids][row] == number + 1].tolist())
                for tokens, ids in (
                    ("encoder_tokens", "encoder_segment_ids"),
                    ("targets", "decoder_segment_ids"),
                )
            ),
        )


def test_the_examples_are_those_of_the_unpacked_order(packed, draw):
    """Every whole pool has the same examples as that part of the endless order."""
    _, some = packed
    plain = [
        (task, index, tuple(i[i > 0].tolist()), tuple(t[t > 0].tolist()))
        for batch in draw(None, 3, batch_size=POOL)
        for task, index, i, t in zip(
            batch["task_ids"].tolist(),
            batch["index"].tolist(),
            batch["encoder_tokens"],
            batch["targets"],
            strict=True,
        )
    ]
    rows = [
        list(segments(batch, row))
        for batch in some
        for row in range(len(batch["index"]))
    ]
    start, rows = 0, iter(rows)
    for _ in range(3):
        expected = Counter(plain[start : start + POOL])
        got = Counter()
        while got.total() < POOL:
            got.update(next(rows))
        assert got == expected
        start += POOL


def test_the_contract_of_a_packed_batch(packed):
    mode, some = packed
    most = Packing(mode).segments(SHAPE["inputs_length"])
    batch = some[0]
    assert {x.dtype for x in batch.values()} == {np.dtype("int32")}
    assert batch["index"].shape == (4, most)
    assert batch["task_ids"].shape == ((4,) if mode == "task" else (4, most))
    assert max(b["encoder_segment_ids"].max() for b in some) > 1
    for stack, tokens in (("encoder", "encoder_tokens"), ("decoder", "targets")):
        ids, at = batch[f"{stack}_segment_ids"], batch[f"{stack}_positions"]
        assert ((ids == 0) == (batch[tokens] == 0)).all()
        begins = np.diff(ids, prepend=0) > 0
        assert (at[begins] == 0).all()
        within = (np.diff(ids, prepend=0) == 0) & (ids > 0)
        assert (at[within] == np.roll(at, 1, axis=1)[within] + 1).all()
    first = (batch["decoder_positions"] == 0) | (batch["decoder_segment_ids"] == 0)
    assert not batch["decoder_tokens"][first].any()
    before = np.roll(batch["targets"], 1, axis=1)
    assert (batch["decoder_tokens"][~first] == before[~first]).all()


def test_going_on_from_where_a_batch_says(packed, draw):
    mode, some = packed
    crossings = np.flatnonzero(np.diff([b[NEXT][0][0] for b in some])) + 1
    assert len(crossings) >= 2  # batches that take rows of two pools
    for step in {1, int(crossings[0]), int(crossings[1]) + 1}:
        start = some[step - 1][NEXT][0].tolist()
        more = draw(mode, 2, start=start)
        tf.nest.map_structure(
            np.testing.assert_array_equal, more, some[step : step + 2]
        )


def test_hosts_have_the_rows_of_one_batch(packed, draw):
    mode, some = packed
    hosts = [draw(mode, 12, host=host, num_hosts=2) for host in range(2)]
    for whole, *parts in zip(some, *hosts, strict=False):
        for name, value in whole.items():
            got = np.concatenate([part[name] for part in parts])
            np.testing.assert_array_equal(got, value, err_msg=name)


def test_the_seed_decides(draw):
    first, again, other = (draw("mixed", 2, seed=s)[1]["index"] for s in (1, 1, 2))
    assert (first == again).all() and not (first == other).all()


def test_fill_is_what_batches_hold(draw, data_dir):
    fill = get_mixture(TASKS, rates="equal").fill(
        Packing("mixed", pool=POOL),
        vocabulary=get_vocabulary("nano"),
        data_dir=data_dir,
        **SHAPE,
    )
    rows = draw("mixed", fill.rows, batch_size=1)
    assert rows[-1][NEXT].tolist() == [[1, 0]]
    assert fill.examples == POOL == sum((b["index"] >= 0).sum() for b in rows)
    assert fill.inputs == sum((b["encoder_tokens"] > 0).sum() for b in rows)
    assert f"{POOL / fill.rows:.2f} examples a row" in str(fill)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"start": 3}, "start=3, expected 0 or the pool and row"),
        ({"per_batch": True}, "per_batch=True: expected no packing, not 'task'"),
        ({"split": "validation"}, "split='validation', which ends: expected no"),
    ],
)
def test_what_is_refused(draw, options, words):
    with pytest.raises(ValueError, match=words):
        draw("task", 1, **options)


def test_modes_are_named():
    with pytest.raises(
        ValueError, match="packing='tasks', expected one of task, mixed"
    ):
        Packing("tasks")
    with pytest.raises(ValueError, match="pool=0, expected an integer >= 1"):
        Packing("task", pool=0)
