"""Batches of packed rows, in an order that a seed decides, from any place on.

The endless order of examples is cut into pools. The rows of a pool are packed and
shuffled together, and depend on nothing before it; batches run on from pool to pool.
Where a batch begins is thus two numbers, and each batch says where the next begins.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfds_tasks import packing
from tfds_tasks.batches import FILLER, Shape, ended
from tfds_tasks.packing import Packing, Room, Tokens

NEXT = "next_position"  # [rows, 2]: pool and row at which the next batch begins


@dataclasses.dataclass(frozen=True)
class Fill:
    """What the rows of a pool hold.

    Attributes:
        rows, examples: their numbers.
        inputs, targets: how many tokens they are.
        room: of a row.
    """

    rows: int
    examples: int
    inputs: int
    targets: int
    room: Room

    def __str__(self) -> str:
        full = self.inputs / (self.rows * self.room.inputs)
        of_targets = self.targets / (self.rows * self.room.targets)
        return (
            f"{self.examples_per_row:.2f} examples a row, {full:.1%} of the inputs' "
            f"and {of_targets:.1%} of the targets' room"
        )

    @property
    def examples_per_row(self) -> float:
        """How many examples a row has, in the mean."""
        return self.examples / self.rows


def room_of(shape: Shape, how: Packing) -> Room:
    """Returns what a row has room for."""
    segments = how.segments(shape.inputs_length)
    return Room(shape.inputs_length, shape.targets_length, segments)


def check_start(start: int | Sequence[int]) -> tuple[int, int]:
    """Returns the pool and the row of a start, which is 0 or the two of them."""
    pair = (0, 0) if start == 0 else tuple(np.ravel(start).tolist())
    if len(pair) != 2 or min(pair) < 0:
        raise ValueError(
            f"start={start!r}, expected 0 or the pool and row that a packed batch "
            f"names in {NEXT!r}"
        )
    return pair


def to_batches(
    examples: tf.data.Dataset,
    shape: Shape,
    how: Packing,
    seed: int,
    start: tuple[int, int] = (0, 0),
) -> tf.data.Dataset:
    """Turns endless text examples, as `with_task_id` makes them, into packed batches.

    A batch has "encoder_tokens" [rows, inputs_length], "decoder_tokens" and "targets"
    [rows, targets_length], beside these "..._segment_ids" and "..._positions" of
    encoder and decoder; "task_ids" [rows] or, if mixed, [rows, segments]; "index"
    [rows, segments], -1 where there is no example; "next_position" [rows, 2]. All are
    int32.

    Args:
        examples: from the first of the pool that `start` names.
        shape: the rows of a batch, and of them those of this host.
        how: to pack.
        seed: decides the order of the rows of a pool.
        start: pool and row that the first batch begins with.
    """
    pool, row = start
    rows = pools(examples, shape, how, seed, pool).unbatch().skip(row)
    first = shape.host * shape.rows

    def mine(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        following = tf.tile(batch[NEXT][-1:], [shape.batch_size, 1])
        batch = {**batch, NEXT: following}
        return {key: x[first : first + shape.rows] for key, x in batch.items()}

    batches = rows.batch(shape.batch_size, drop_remainder=True).map(mine)
    return batches.prefetch(tf.data.AUTOTUNE)


def pools(
    examples: tf.data.Dataset, shape: Shape, how: Packing, seed: int, first: int = 0
) -> tf.data.Dataset:
    """Turns text examples into the rows of one pool after the other.

    Elements are as `to_batches` describes batches, of as many rows as a pool gives.
    """
    pack = _packer(shape, how, seed)
    numbers = tf.data.Dataset.range(first, np.iinfo("int64").max)
    of_pool = tf.data.Dataset.zip(
        numbers, examples.batch(how.pool, drop_remainder=True)
    )
    return of_pool.map(pack, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def measure(pool: Mapping[str, np.ndarray], room: Room) -> Fill:
    """Counts what the rows of a pool hold."""
    return Fill(
        rows=len(pool["index"]),
        examples=int((pool["index"] != FILLER).sum()),
        inputs=int((pool["encoder_segment_ids"] > 0).sum()),
        targets=int((pool["decoder_segment_ids"] > 0).sum()),
        room=room,
    )


def _packer(shape: Shape, how: Packing, seed: int) -> Callable:
    """A function of a pool's number and texts to its rows."""
    room = room_of(shape, how)
    shapes = {
        **{name: [None, room.inputs] for name in _OF_INPUTS},
        **{name: [None, room.targets] for name in _OF_TARGETS},
        "task_ids": [None] if how.mode == "task" else [None, room.segments],
        "index": [None, room.segments],
        NEXT: [None, 2],
    }
    names = sorted(shapes)

    def in_numpy(number, keys, task_ids, index, *tokens):
        inputs, targets = Tokens(*tokens[:2]), Tokens(*tokens[2:])
        rows = pack_pool(inputs, targets, task_ids, how.mode, room)
        rows = [rows[i] for i in np.argsort(keys[: len(rows)], kind="stable")]
        made = packing.lay_out(rows, inputs, targets, room)
        ids = packing.by_segment(rows, task_ids, room.segments, 0)
        made["task_ids"] = ids[:, 0] if how.mode == "task" else ids
        made["index"] = packing.by_segment(rows, index, room.segments, FILLER)
        made[NEXT] = _following(int(number), len(rows))
        return [made[name] for name in names]

    def pack(number: tf.Tensor, texts: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        inputs = ended(texts["inputs"], shape.vocabulary, room.inputs)
        targets = ended(texts["targets"], shape.vocabulary, room.targets)
        # Numbers that every version of TensorFlow draws alike.
        keys = tf.random.stateless_uniform(
            [how.pool], tf.stack([tf.cast(seed, tf.int64), number]), dtype=tf.float64
        )
        of_tokens = [x for t in (inputs, targets) for x in (t.values, t.row_lengths())]
        arguments = [number, keys, texts["task_ids"], texts["index"], *of_tokens]
        values = tf.numpy_function(
            in_numpy, arguments, [tf.int32] * len(names), stateful=False
        )
        return {
            name: tf.ensure_shape(value, shapes[name])
            for name, value in zip(names, values, strict=True)
        }

    return pack


def pack_pool(
    inputs: Tokens, targets: Tokens, task_ids: np.ndarray, mode: str, room: Room
) -> packing.Rows:
    """Decides which examples of a pool share a row."""
    if mode == "task":
        return packing.of_one_task(inputs.lengths, targets.lengths, task_ids, room)
    return packing.best_fit(inputs.lengths, targets.lengths, room)


def _following(pool: int, rows: int) -> np.ndarray:
    """The place after each row of a pool, [rows, 2]."""
    places = np.array([(pool, row + 1) for row in range(rows)], np.int32)
    places[-1] = pool + 1, 0
    return places


_OF_INPUTS = ("encoder_tokens", "encoder_segment_ids", "encoder_positions")
_OF_TARGETS = ("decoder_tokens", "targets", "decoder_segment_ids", "decoder_positions")
