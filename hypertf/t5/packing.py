"""Packed rows: several examples in one row, its segments.

Segment ids count from 1 in a row, and 0 is padding; positions begin at 0 in each
segment. With packing `"task"` the segments of a row are of one task, with `"mixed"` of
any: task ids are then [rows, segments].

The extra tokens of a stack have a place for every segment that a row may have, and so
have extra keys if they differ from segment to segment: the first of all segments, then
the second of all. Those of methods combined so follow one another in every segment, as
they do in a row of one example. What belongs to a segment that a row has not is seen by
nobody.
"""

import dataclasses

import numpy as np
from keras import ops

from hypertf.t5.inputs import (
    DECODER_POSITIONS,
    DECODER_SEGMENT_IDS,
    ENCODER_POSITIONS,
    ENCODER_SEGMENT_IDS,
    INDEX,
    PACKED,
    TASK_IDS,
)
from hypertf.t5.sites import StackSites
from hypertf.types import Batch, Tensor

MODES = ("task", "mixed")


@dataclasses.dataclass(frozen=True, eq=False)
class Segments:
    """Which segment each token of a stack belongs to, for `Sites.by_segment`.

    Attributes:
        own: [rows, length, count], 1 where a token, extra ones first, is of a segment.
        own_of_memory: the same for the encoder's output; None in the encoder.
        count: how many segments a row has at most.
    """

    own: Tensor
    own_of_memory: Tensor | None
    count: int

    def in_rows(self, x: Tensor) -> Tensor:
        """Takes what segments have, [rows * count, ...], to [rows, count, ...]."""
        return ops.reshape(x, (-1, self.count, *x.shape[1:]))

    def choose(self, x: Tensor, memory: bool = False) -> Tensor:
        """Gives each token what its segment has: x [rows * count, 1, size].

        Returns [rows, length, size], 0 at padding. With `memory` for the tokens of the
        encoder's output.
        """
        x = self.in_rows(x)[:, :, 0]
        return ops.matmul(self.own_as(x, memory), x)

    def inward(self, kernels: Tensor) -> Tensor:
        """Puts [rows * count, in, size] side by side: [rows, in, count * size]."""
        x = ops.transpose(self.in_rows(kernels), (0, 2, 1, 3))
        return ops.reshape(x, (-1, x.shape[1], x.shape[2] * x.shape[3]))

    def outward(self, kernels: Tensor) -> Tensor:
        """Puts [rows * count, size, out] below one another: [rows, count * size, out].

        Between these two products `only_own` leaves each token its own segment's.
        """
        size, out = kernels.shape[1:]
        return ops.reshape(kernels, (-1, self.count * size, out))

    def only_own(self, x: Tensor, memory: bool = False) -> Tensor:
        """Leaves of x [rows, length, count * size] what is of each token's segment."""
        parts = ops.reshape(x, (-1, x.shape[1], self.count, x.shape[2] // self.count))
        own = ops.expand_dims(self.own_as(x, memory), 3)
        return ops.reshape(parts * own, (-1, *x.shape[1:]))

    def extra_keys(self, x: Tensor) -> Tensor:
        """Keys or values of segments [rows * count, heads, extra, d_kv], in rows.

        Returns [rows, heads, extra * count, d_kv].
        """
        _, heads, extra, d_kv = x.shape
        x = ops.transpose(self.in_rows(x), (0, 2, 3, 1, 4))
        return ops.reshape(x, (-1, heads, extra * self.count, d_kv))

    def own_as(self, x: Tensor, memory: bool = False) -> Tensor:
        """Returns `own`, or with `memory` that of the memory, in the type of x."""
        return ops.cast(self.own_of_memory if memory else self.own, x.dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class PackedRows:
    """The segments of a batch's rows, as one stack sees them.

    Attributes:
        ids: segment ids [rows, length] of the stack's own tokens.
        positions: [rows, length], within the segment.
        memory: segment ids [rows, length] of the encoder's own tokens, in the decoder.
        count: how many segments a row has at most.
    """

    ids: Tensor
    positions: Tensor
    memory: Tensor | None
    count: int

    def task_ids(self, task_ids: Tensor) -> Tensor:
        """Task ids of all segments one after the other, [rows * count].

        Of task ids [rows, count], or [rows] if a row's segments are of one task.
        """
        if len(task_ids.shape) == 1:
            return ops.repeat(task_ids, self.count)
        return ops.reshape(task_ids, (-1,))

    def masks(self, ids: Tensor, x: Tensor) -> Tensor:
        """Where in x, the encoder's output, each segment is: [rows, count, length].

        ids are the segments of the encoder's own tokens.
        """
        own = self._own(self._with_extra(ids, x.shape[1]))
        return ops.transpose(own > 0, (0, 2, 1))

    def join(self, sites: StackSites, memory: Tensor | None = None) -> StackSites:
        """Turns the sites of [rows * count] examples into those of packed rows."""
        extra = sites.num_tokens * self.count
        length = extra + self.ids.shape[1]
        own_of_memory = None
        if memory is not None:
            ids = self._with_extra(self.memory, memory.shape[1])
            own_of_memory = self._own(ids)
        own = self._own(self._with_extra(self.ids, length))
        segments = Segments(own, own_of_memory, self.count)
        tokens, norm_scale = sites.tokens, sites.norm_scale
        if tokens is not None:  # [rows * count, extra, d_model]
            tokens = ops.transpose(segments.in_rows(tokens), (0, 2, 1, 3))
            tokens = ops.reshape(tokens, (-1, extra, tokens.shape[3]))
        if norm_scale is not None:
            norm_scale = segments.choose(norm_scale)
        return StackSites(
            blocks=tuple(block.by_segment(segments) for block in sites.blocks),
            tokens=tokens,
            num_keys=sites.num_keys,
            key_copies=self.count,
            norm_scale=norm_scale,
        )

    def with_copies(self, sites: StackSites) -> StackSites:
        """Gives every segment its own copy of the extra tokens that a row has."""
        if sites.tokens is None:
            return sites
        tokens = ops.repeat(sites.tokens, self.count, axis=1)
        return dataclasses.replace(sites, tokens=tokens)

    def arguments(self, sites: StackSites) -> dict[str, Tensor | None]:
        """What a `Stack` is to be told of packed rows: the arguments of its call."""
        each = sites.num_tokens // self.count
        ids = self._of_stream(sites)
        positions = self.positions + each
        if each:
            extra = np.repeat(np.arange(each, dtype="int32"), self.count)
            positions = _before(positions, extra)
        keys_visible = None
        if sites.num_keys and sites.key_copies > 1:
            keys_visible = _same(ids, self._of_extra(sites.num_keys)[None])
        return {
            "token_mask": self.ids > 0,
            "visible": _same(ids, ids),
            "positions": positions,
            "keys_visible": keys_visible,
        }

    def memory_visible(self, sites: StackSites, memory: Tensor) -> Tensor:
        """Which places of the memory each place of the decoder sees."""
        of_memory = self._with_extra(self.memory, memory.shape[1])
        return _same(self._of_stream(sites), of_memory)

    def _of_stream(self, sites):
        return self._with_extra(self.ids, sites.num_tokens + self.ids.shape[1])

    def _with_extra(self, ids, length):
        """Segment ids [rows, length], of the extra tokens before too."""
        extra = length - ids.shape[1]
        return _before(ids, self._of_extra(extra // self.count)) if extra else ids

    def _of_extra(self, number):
        """Segment ids of extra tokens or keys, `number` for each segment."""
        return np.tile(np.arange(1, self.count + 1, dtype="int32"), number)

    def _own(self, ids):
        """1 where a token is of a segment, else 0: [rows, length, count]."""
        segments = np.arange(1, self.count + 1, dtype="int32")
        return ops.cast(ops.expand_dims(ids, 2) == segments, "float32")


def packed_rows(inputs: Batch, stack: str) -> PackedRows | None:
    """What a stack is told of a batch's segments, None if its rows are not packed."""
    if inputs.get(ENCODER_SEGMENT_IDS) is None:
        return None
    names, memory = (ENCODER_SEGMENT_IDS, ENCODER_POSITIONS), None
    if stack == "decoder":
        names = (DECODER_SEGMENT_IDS, DECODER_POSITIONS)
        memory = _int32(inputs[ENCODER_SEGMENT_IDS])
    ids, positions = (_int32(inputs[name]) for name in names)
    return PackedRows(ids, positions, memory, most_segments(inputs))


def most_segments(inputs: Batch) -> int:
    """How many segments a row has at most, by the shapes of a packed batch."""
    for name in (TASK_IDS, INDEX):
        value = inputs.get(name)
        if value is not None and len(value.shape) == 2:
            return value.shape[1]
    ids = (inputs[name] for name in (ENCODER_SEGMENT_IDS, DECODER_SEGMENT_IDS))
    return min(x.shape[1] for x in ids)  # a segment has a token of each


def mode_of(inputs: Batch) -> str | None:
    """How rows are packed, one of `MODES`, None if they are not."""
    if not isinstance(inputs, dict):  # which is told when they are checked
        return None
    if all(inputs.get(name) is None for name in PACKED):
        return None
    task_ids = inputs.get(TASK_IDS)
    return "mixed" if task_ids is not None and len(task_ids.shape) == 2 else "task"


def _same(query_segments, key_segments):
    """Which keys each query sees in packed rows: [batch, query, key]."""
    return query_segments[:, :, None] == key_segments[:, None, :]


def _before(x, extra):
    """The numbers `extra` in front of every row of x [rows, length]."""
    shape = (ops.shape(x)[0], len(extra))
    return ops.concatenate([ops.broadcast_to(extra[None], shape), x], axis=1)


def _int32(x):
    return ops.cast(x, "int32")
