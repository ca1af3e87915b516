"""Blocks that are alike, run as one loop: the compiler sees one block, not all.

Weights and what the sites hold are stacked, and the loop takes one slice of each at a
time. Results, gradients and dropout's draws are those of the blocks one by one.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from hypertf.t5.sites import Sites, map_parts
from hypertf.types import Tensor

Weights = Sequence[tuple[keras.Variable, Tensor]]
Run = Callable[[keras.layers.Layer, Tensor, Sites, Weights], Tensor]


def run_blocks(
    run: Run,
    blocks: Sequence[keras.layers.Layer],
    sites: Sequence[Sites],
    seed_generator: keras.random.SeedGenerator,
    x: Tensor,
) -> Tensor:
    """Runs x through the blocks in order, those alike that follow each other in a loop.

    Args:
        run: `run(block, x, sites, weights)` runs one block; the shape of x stays.
            `weights` are pairs of a variable and what is read in its place.
        blocks: built.
        sites: of each block.
        seed_generator: the only one that blocks draw from.
        x: [batch, length, d_model].
    """
    pairs = list(zip(blocks, sites, strict=True))
    for _, group in itertools.groupby(pairs, key=lambda pair: _Parts(*pair).kind):
        group = list(group)
        if len(group) == 1:
            x = run(group[0][0], x, group[0][1], ())
        else:
            x = _loop(run, [_Parts(*pair) for pair in group], seed_generator.state, x)
    return x


class _Parts:
    """A block and its sites, taken apart into what may differ from block to block.

    Attributes:
        variables: weights of the block and of layers that the sites hold.
        tensors: what else the sites hold.
        kind: what is equal for blocks that are alike.
    """

    def __init__(self, block: keras.layers.Layer, sites: Sites) -> None:
        self.block, self.sites, self.tensors, layers = block, sites, [], [block]
        rest = map_parts(self.tensors.append, layers.append, sites)
        # Outside the blocks the first one's relative bias serves them all.
        names = [[w.path.removeprefix(x.path) for w in x.weights] for x in layers]
        self.variables = [
            weight
            for layer, paths in zip(layers, names, strict=True)
            for weight, path in zip(layer.weights, paths, strict=True)
            if not path.endswith("relative_attention_bias")
        ]
        self.kind = (
            [type(layer) for layer in layers],
            [(tuple(x.shape), _dtype(x)) for x in (*self.variables, *self.tensors)],
            repr(rest),  # by its words: sites need not be comparable
        )

    def with_tensors(self, tensors: Iterator[Tensor]) -> Sites:
        """The sites with other tensors."""
        return map_parts(lambda _: next(tensors), lambda layer: layer, self.sites)


def _dtype(x):
    return tf.as_dtype(x.dtype).name


def _loop(run, parts, state, x):
    """One loop over blocks that are alike; the random state goes along."""
    first = parts[0]
    columns = zip(*([*p.variables, *p.tensors] for p in parts), strict=True)
    taken = [_Column(column) for column in columns]
    lists = [column.list for column in taken if column.list is not None]

    def body(step, seed, x, *lists):
        given, rest = iter(lists), []
        values = [column.next(given, rest) for column in taken]
        tensors = iter(values[len(first.variables) :])
        mapping = list(zip(first.variables, values, strict=False))
        scope = keras.StatelessScope(state_mapping=[(state, seed), *mapping])
        with scope:
            y = run(first.block, x, first.with_tensors(tensors), mapping)
        return [step + 1, scope.get_current_value(state), y, *rest]

    _, seed, x, *_ = tf.while_loop(
        lambda step, *_: step < len(parts),
        body,
        [tf.constant(0), tf.convert_to_tensor(state.value), x, *lists],
        maximum_iterations=len(parts),
    )
    state.assign(seed)
    return x


class _Column:
    """A tensor of each block: the same for all, or a list that a slice is taken off.

    A list, and not an index into a stack, whose gradient is as large as the whole for
    each slice.
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.common = self.list = None
        if all(tensor is tensors[0] for tensor in tensors):
            self.common = tf.convert_to_tensor(tensors[0])
            return
        values = [tf.convert_to_tensor(tensor) for tensor in reversed(tensors)]
        self.shape, self.dtype = values[0].shape, values[0].dtype
        self.list = tf.raw_ops.TensorListFromTensor(
            tensor=tf.stack(values), element_shape=self.shape
        )

    def next(self, lists: Iterator[Tensor], rest: list[Tensor]) -> Tensor:
        """The tensor of the next block; what is left of its list is put to `rest`."""
        if self.list is None:
            return self.common
        left, value = tf.raw_ops.TensorListPopBack(
            input_handle=next(lists),
            element_shape=self.shape,
            element_dtype=self.dtype,
        )
        rest.append(left)
        return tf.ensure_shape(value, self.shape)
