"""Keys and values of the steps so far, which decoding keeps for each block.

A cache is [batch * heads * beams, time, d_kv], the shape that attention's products
take. Compiled by XLA it has its full length from the start and is written in place;
elsewhere it grows by a row at each step, so that attention reads no empty places and no
op of the compiler's is needed. On a mesh its dimensions stay apart, [batch, heads,
beams, time, d_kv], so that each may be split.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf
from keras import ops

from hypertf.t5 import target
from hypertf.types import Tensor

Caches = list[tuple[Tensor, Tensor]]  # keys and values of each block


@dataclasses.dataclass(frozen=True)
class FullCache:
    """Of `offset + steps` places, written in place.

    With another shape XLA copies the whole cache at every step instead of writing one
    place.

    Attributes:
        rows: (batch, heads, beams); the batch may be a tensor.
        offset: places before the first real token.
        steps: how many tokens are written at most.
        d_kv: width of keys and values.
    """

    rows: tuple
    offset: int
    steps: int
    d_kv: int

    def start(self, first: Tensor | None, dtype: str) -> Tensor:
        """A cache that holds `first` [batch, heads, offset, d_kv], if there is any."""
        batch, heads, beams = self.rows
        room = self._room()
        if first is None:
            return ops.zeros((batch * heads * beams, room, self.d_kv), dtype)
        if room:
            first = ops.pad(first, ((0, 0), (0, 0), (0, room), (0, 0)))
        first = ops.reshape(first, (-1, self.offset + room, self.d_kv))
        return ops.repeat(first, beams, axis=0)

    def _room(self):
        return self.steps

    def length(self, place: Tensor) -> int | Tensor:
        """How many places there are once `place` is written."""
        return self.offset + self.steps

    def row(self, x: Tensor) -> Tensor:
        """A step's queries, keys or values [batch, heads, beams, d_kv], as in a cache.

        That is [batch * heads * beams, 1, d_kv].
        """
        return ops.reshape(x, (-1, 1, self.d_kv))

    def heads(self, row: Tensor) -> Tensor:
        """Undoes `row`."""
        return ops.reshape(row, (-1, *self.rows[1:], self.d_kv))

    def bias(self, bias: Tensor, query: Tensor, place: Tensor) -> Tensor:
        """The row `query` of bias [1, heads, query, key], for a step at `place`.

        As attention adds it to products of rows: [batch * heads * beams, 1, time].
        """
        batch, heads, beams = self.rows
        time = self.length(place)
        bias = tf.slice(bias, [0, 0, query, 0], [1, heads, 1, time])
        bias = ops.tile(bias, (batch, 1, beams, 1))
        return ops.reshape(bias, (-1, 1, time))

    def write(self, cache: Tensor, row: Tensor, place: Tensor) -> Tensor:
        """The cache with row [batch * heads * beams, 1, d_kv] at `place`."""
        return ops.slice_update(cache, (0, place, 0), row)

    def reorder(self, cache: Tensor, origin: Tensor) -> Tensor:
        """The cache of beams that continue the beams origin [batch, beams]."""
        _, heads, beams = self.rows
        time = ops.shape(cache)[1]
        by_beam = ops.reshape(cache, (-1, heads, beams, time, self.d_kv))
        by_beam = tf.gather(by_beam, origin, axis=2, batch_dims=1)
        return ops.reshape(by_beam, (-1, time, self.d_kv))

    def loop(
        self, unfinished: Callable, body: Callable, state: tuple, most: int
    ) -> tuple:
        """Repeats `body` on a state whose last part are the caches."""
        return tf.while_loop(unfinished, body, state, maximum_iterations=most)


class GrowingCache(FullCache):
    """Of the places written so far."""

    def _room(self):
        return 0

    def length(self, place: Tensor) -> int | Tensor:
        return place + 1

    def write(self, cache: Tensor, row: Tensor, place: Tensor) -> Tensor:
        return ops.concatenate([cache, row], axis=1)

    def loop(
        self, unfinished: Callable, body: Callable, state: tuple, most: int
    ) -> tuple:
        shapes = tf.nest.map_structure(lambda x: x.shape, state[:-1])
        grown = tf.TensorShape([None, None, self.d_kv])
        caches = tf.nest.map_structure(lambda _: grown, state[-1])
        return tf.while_loop(
            unfinished,
            body,
            state,
            shape_invariants=(*shapes, caches),
            maximum_iterations=most,
        )


class SplitCache(FullCache):
    """Of full length, with every dimension by itself."""

    def start(self, first: Tensor | None, dtype: str) -> Tensor:
        batch, heads, beams = self.rows
        if first is None:
            return ops.zeros((batch, heads, beams, self.steps, self.d_kv), dtype)
        first = ops.pad(first, ((0, 0), (0, 0), (0, self.steps), (0, 0)))
        return ops.concatenate([ops.expand_dims(first, 2)] * beams, axis=2)

    def row(self, x: Tensor) -> Tensor:
        return ops.expand_dims(x, 3)

    def heads(self, row: Tensor) -> Tensor:
        return ops.squeeze(row, 3)

    def bias(self, bias: Tensor, query: Tensor, place: Tensor) -> Tensor:
        # A product: a slice whose place is not known would be of a whole tensor.
        here = ops.cast(tf.range(bias.shape[2]) == query, bias.dtype)
        bias = tf.einsum("bhqk,q->bhk", bias, here)
        return ops.expand_dims(ops.expand_dims(bias, 2), 2)

    def write(self, cache: Tensor, row: Tensor, place: Tensor) -> Tensor:
        here = tf.range(self.offset + self.steps) == place
        return tf.where(tf.reshape(here, [1, 1, 1, -1, 1]), row, cache)

    def reorder(self, cache: Tensor, origin: Tensor) -> Tensor:
        beams = self.rows[2]
        chosen = tf.one_hot(origin, beams, dtype=cache.dtype)  # [batch, new, old]
        return tf.einsum("bno,bhotd->bhntd", chosen, cache)


def cache_for_target(**sizes: object) -> FullCache:
    """The cache that fits what the graph is traced for; sizes as `FullCache` has."""
    if target.current().mesh:
        return SplitCache(**sizes)
    kind = FullCache if target.current().xla else GrowingCache
    return kind(**sizes)


def write_at(ids: Tensor, index: Tensor, tokens: Tensor) -> Tensor:
    """Puts tokens [batch, beams] into ids [batch, beams, length] at `index`."""
    here = tf.range(ids.shape[-1]) == index
    return tf.where(here, tokens[:, :, None], ids)
