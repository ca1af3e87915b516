"""Packing: several examples in a row of tokens, side by side, none cut.

    inputs  [7, 8, 1] and [9, 1], targets [5, 1] and [6, 1]
    -> {"encoder_tokens":      [7, 8, 1, 9, 1, 0],
        "encoder_segment_ids": [1, 1, 1, 2, 2, 0],
        "encoder_positions":   [0, 1, 2, 0, 1, 0],
        "targets":             [5, 1, 6, 1],
        "decoder_tokens":      [0, 5, 0, 6],
        "decoder_segment_ids": [1, 1, 2, 2],
        "decoder_positions":   [0, 1, 0, 1]}

Which examples share a row is decided for a pool of them at a time, here, in numpy;
`packed_batches` makes batches of it.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MODES = ("off", "task", "mixed")
POOL = 4096
MOST_SEGMENTS = 32  # of a row, unless it is said
# No row is expected to hold more examples than of these lengths, in tokens.
SHORT, SHORT_IN_LONG_ROWS = 8, 16
TRIES = 64  # rows looked at that have room for the inputs but not for the targets

Rows = list[list[int]]  # the examples of each row, by their numbers


@dataclasses.dataclass(frozen=True)
class Packing:
    """How rows are packed.

    Attributes:
        mode: "task", examples of one task in a row, or "mixed", any.
        max_segments: examples of a row at most; by default one for each 16 tokens of
            inputs and no more than 32, or one for each 8 where that is at most 8.
        pool: consecutive examples that are packed together.

    >>> Packing("task").segments(128), Packing("mixed", max_segments=5).segments(128)
    (8, 5)
    """

    mode: str
    max_segments: int | None = None
    pool: int = POOL

    def __post_init__(self) -> None:
        if self.mode not in MODES[1:]:
            raise ValueError(
                f"packing={self.mode!r}, expected one of {', '.join(MODES[1:])}"
            )
        for name in ("max_segments", "pool"):
            value = getattr(self, name)
            unset = name == "max_segments" and value is None
            if not unset and (type(value) is not int or value < 1):
                raise ValueError(f"{name}={value!r}, expected an integer >= 1")

    def segments(self, inputs_length: int) -> int:
        """Returns how many examples a row of so many input tokens holds at most."""
        if self.max_segments is not None:
            return self.max_segments
        most = max(SHORT, inputs_length // SHORT_IN_LONG_ROWS)
        return max(1, min(MOST_SEGMENTS, most, inputs_length // SHORT))


class Room(NamedTuple):
    """What a row has room for: tokens of inputs and of targets, and examples."""

    inputs: int
    targets: int
    segments: int


class Tokens(NamedTuple):
    """Ids of examples one after the other: values [tokens], lengths [examples]."""

    values: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, ids: Sequence[Sequence[int]], longest: int) -> "Tokens":
        """Makes them of lists; what is longer is trimmed."""
        parts = [np.asarray(one[:longest], np.int32) for one in ids]
        lengths = np.array([len(part) for part in parts], np.int64)
        return cls(np.concatenate([*parts, np.empty(0, np.int32)]), lengths)


def in_order(inputs: np.ndarray, targets: np.ndarray, room: Room) -> Rows:
    """Fills row after row with examples as they come, as SeqIO and Mesh T5 do.

    Args:
        inputs, targets: lengths of the examples, [examples].
        room: of a row.
    """
    rows, left = [], (0, 0)
    both = zip(inputs.tolist(), targets.tolist(), strict=True)
    for example, lengths in enumerate(both):
        fits = lengths[0] <= left[0] and lengths[1] <= left[1]
        if not rows or not fits or len(rows[-1]) == room.segments:
            rows.append([])
            left = room.inputs, room.targets
        rows[-1].append(example)
        left = left[0] - lengths[0], left[1] - lengths[1]
    return rows


def best_fit(inputs: np.ndarray, targets: np.ndarray, room: Room) -> Rows:
    """Puts the longest first, each into the row whose inputs it fills up best.

    Takes what `in_order` takes. No example may be longer than a row.
    """
    share = np.maximum(inputs / room.inputs, targets / room.targets)
    order = np.argsort(-share, kind="stable").tolist()
    inputs, targets = inputs.tolist(), targets.tolist()
    rows, opened = [], _OpenRows(room)
    for example in order:
        row = opened.take(inputs[example], targets[example])
        if row is None:
            row = len(rows)
            rows.append([])
            opened.add(inputs[example], targets[example])
        rows[row].append(example)
    return rows


class _OpenRows:
    """Rows that have room left, to be found by how much."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._targets, self._segments = [], []  # that each row has left
        self._by_gap = [[] for _ in range(room.inputs + 1)]
        self._gaps = 0  # bit g is set if by_gap[g] has rows

    def add(self, inputs: int, targets: int) -> None:
        """Opens a row for an example."""
        self._targets.append(self._room.targets - targets)
        self._segments.append(self._room.segments - 1)
        self._put(len(self._targets) - 1, self._room.inputs - inputs)

    def take(self, inputs: int, targets: int) -> int | None:
        """Gives the row that an example fills up best its place; None has room."""
        tries, gaps = TRIES, self._gaps >> inputs
        gap = inputs
        while gaps:
            step = (gaps & -gaps).bit_length()  # to just after the lowest bit
            gap, gaps = gap + step, gaps >> step
            rows = self._by_gap[gap - 1]
            for place in range(len(rows) - 1, -1, -1):
                row = rows[place]
                if targets <= self._targets[row]:
                    self._remove(gap - 1, place)
                    self._targets[row] -= targets
                    self._segments[row] -= 1
                    self._put(row, gap - 1 - inputs)
                    return row
                tries -= 1
                if not tries:
                    return None
        return None

    def _put(self, row: int, gap: int) -> None:
        if gap and self._targets[row] and self._segments[row]:
            self._by_gap[gap].append(row)
            self._gaps |= 1 << gap

    def _remove(self, gap: int, place: int) -> None:
        rows = self._by_gap[gap]
        rows[place] = rows[-1]
        rows.pop()
        if not rows:
            self._gaps &= ~(1 << gap)


def of_one_task(
    inputs: np.ndarray, targets: np.ndarray, task_ids: np.ndarray, room: Room
) -> Rows:
    """Packs as `best_fit` does, but no row has examples of two tasks."""
    rows = []
    for task in np.unique(task_ids):
        mine = np.flatnonzero(task_ids == task)
        packed = best_fit(inputs[mine], targets[mine], room)
        rows += [mine[row].tolist() for row in packed]
    return rows


def lay_out(
    rows: Rows, inputs: Tokens, targets: Tokens, room: Room
) -> dict[str, np.ndarray]:
    """Writes the tokens of each row side by side: arrays [rows, length], int32.

    Segments count from 1 in a row, positions from 0 in a segment; 0 pads.
    """
    tokens, segments, positions = _side_by_side(rows, inputs, room.inputs)
    batch = {
        "encoder_tokens": tokens,
        "encoder_segment_ids": segments,
        "encoder_positions": positions,
    }
    tokens, segments, positions = _side_by_side(rows, targets, room.targets)
    shifted = np.pad(tokens, ((0, 0), (1, 0)))[:, :-1]
    return batch | {
        "targets": tokens,
        "decoder_tokens": np.where((positions > 0) & (segments > 0), shifted, 0),
        "decoder_segment_ids": segments,
        "decoder_positions": positions,
    }


def _side_by_side(rows, tokens, length):
    """Tokens, segments and positions [rows, length]."""
    counts = np.array([len(row) for row in rows], np.int64)
    order = np.concatenate([np.asarray(row, np.int64) for row in rows])
    lengths = tokens.lengths[order]
    total = int(lengths.sum())
    row = np.repeat(np.arange(len(rows)), counts)  # of each example
    segment = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    before = np.cumsum(lengths) - lengths  # tokens of all rows
    in_row = before - np.repeat(before[np.cumsum(counts) - counts], counts)
    position = np.arange(total) - np.repeat(before, lengths)  # of each token
    source = np.cumsum(tokens.lengths) - tokens.lengths
    at = np.repeat(row, lengths), np.repeat(in_row, lengths) + position
    made = np.zeros((3, len(rows), length), np.int32)
    made[0][at] = tokens.values[np.repeat(source[order], lengths) + position]
    made[1][at] = np.repeat(segment, lengths)
    made[2][at] = position
    return made


def by_segment(
    rows: Rows, values: np.ndarray, segments: int, absent: int
) -> np.ndarray:
    """Writes a number of each example where its segment is: [rows, segments], int32."""
    made = np.full((len(rows), segments), absent, np.int32)
    for row, examples in zip(made, rows, strict=True):
        row[: len(examples)] = values[examples]
    return made
