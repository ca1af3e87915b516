"""Rematerialisation: a block's inner values are computed again in the backward pass."""

import dataclasses

import keras
import tensorflow as tf


def rematerialized(block, seed_generator, x, bias, sites, **kwargs):
    """`block(x, bias, sites=sites, **kwargs)` that remembers its inputs only.

    What the sites hold is an input too, for gradients to reach who made it. The
    random state is handed over, so that dropout draws the same numbers both times.
    """
    values, put_back = _tensors((x, bias, sites, kwargs))
    state = seed_generator.state

    def run(seed, *values):
        x, bias, sites, kwargs = put_back(values)
        with keras.StatelessScope(state_mapping=[(state, seed)]):
            return block(x, bias, sites=sites, **kwargs)

    # A seed of its own, far from the counting on of the generator within the block.
    seed = tf.random.experimental.stateless_fold_in(
        tf.cast(seed_generator.next(), tf.int64), 0
    )
    seed = tf.cast(seed, tf.as_dtype(state.dtype))
    return tf.recompute_grad(run)(seed, *values)


def _tensors(value):
    """The tensors in a nest of sites, and what puts others in their place."""
    leaves = []

    def take(value):
        if tf.is_tensor(value):
            leaves.append(value)
            return _Place(len(leaves) - 1)
        return _map(take, value)

    template = take(value)

    def put_back(values):
        def put(value):
            return (
                values[value.index] if isinstance(value, _Place) else _map(put, value)
            )

        return put(template)

    return leaves, put_back


@dataclasses.dataclass(frozen=True)
class _Place:
    index: int


def _map(function, value):
    """Applies to what containers and sites hold; other values stay."""
    if isinstance(value, dict):
        return {key: function(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(function(v) for v in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, _Place):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        changed = {name: function(v) for name, v in fields.items()}
        return dataclasses.replace(value, **changed)
    return value
