"""Adafactor's arithmetic, for several weights of one shape at a time.

A model has hundreds of weights and few shapes. Passes over whole matrices are made
weight by weight; all that is smaller, rows, columns and scalars, is computed for the
weights of a group together, in a fraction of the operations. Pure: tensors in,
tensors out.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import tensorflow as tf

from hypertf.optimizers.reductions import means, rms, stack, unstack, weighted_means
from hypertf.t5 import target
from hypertf.types import Tensor

# What to subtract from each of n weights, and their next slots.
Changes = tuple[list[Tensor], dict[str, list[Tensor]]]

# How many numbers a group may hold: its gradients wait for one another, and those of
# a group that is not factored are copied side by side.
LARGEST_GROUP = {"factored": 2**22, "full": 2**17}


class Options(Protocol):
    """The options of Adafactor that its arithmetic reads."""

    epsilon1: float
    clipping_threshold: float | None
    min_dim_size_to_factor: int


def groups_of(
    items: Iterable, shape_of: Callable, key_of: Callable, min_dim_size_to_factor: int
) -> list[list]:
    """Splits items into lists of one shape and one key, none too large.

    On a TPU each is alone: there stacks are copies that the compiler does not need.
    """
    if target.current().device == "TPU":
        return [[item] for item in items]
    groups, open_groups = [], {}
    for item in items:
        shape, key = shape_of(item), (shape_of(item), key_of(item))
        kind = "factored" if factored_axes(shape, min_dim_size_to_factor) else "full"
        most = LARGEST_GROUP[kind] // max(1, tf.TensorShape(shape).num_elements())
        group = open_groups.get(key)
        if group is None or len(group) >= most:
            group = open_groups[key] = []
            groups.append(group)
        group.append(item)
    return groups


def factored_axes(
    shape: tuple[int, ...], min_dim_size_to_factor: int
) -> list[int] | None:
    """Returns the axes of the two largest dimensions; None if either is small.

    Of equal dimensions the first counts as the larger.
    """
    axes = sorted(range(len(shape)), key=lambda axis: -shape[axis])[:2]
    if len(axes) < 2 or shape[axes[1]] < min_dim_size_to_factor:
        return None
    return axes


def slot_shapes(
    shape: tuple[int, ...], min_dim_size_to_factor: int
) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a weight's state: `vr` and `vc` if factored, else `v`."""
    axes = factored_axes(shape, min_dim_size_to_factor)
    if not axes:
        return {"v": shape}
    largest, second = axes
    return {"vr": _without(shape, largest), "vc": _without(shape, second)}


def full_changes(
    gradients: list[Tensor],
    slots: dict[str, list[Tensor]],
    decay: Tensor,
    learning_rates: Tensor,
    options: Options,
) -> Changes:
    """Computes what to subtract from n weights of one shape, and their next slots.

    gradients: n tensors; slots: {"v": n tensors}; learning_rates [n].
    """
    gradient = stack(gradients)
    squares = tf.square(gradient) + options.epsilon1
    v = _average(slots["v"], squares, decay)
    update = gradient * tf.math.rsqrt(v)
    clipped = _clip(learning_rates, rms(unstack(update)), options)
    return unstack(update * _like(clipped, update)), {"v": unstack(v)}


def factored_changes(
    gradients: list[Tensor],
    slots: dict[str, list[Tensor]],
    decay: Tensor,
    learning_rates: Tensor,
    options: Options,
) -> Changes:
    """Computes the same for factored weights, with slots "vr" and "vc"."""
    # On a CPU, passes over the whole matrix are the cost. So the RMS of the
    # update is computed without the update, and scalars go into the short factor.
    largest, second = factored_axes(gradients[0].shape, options.min_dim_size_to_factor)
    squares = [tf.square(gradient) for gradient in gradients]
    vr = _average(slots["vr"], means(squares, largest) + options.epsilon1, decay)
    vc = _average(slots["vc"], means(squares, second) + options.epsilon1, decay)
    new_slots = {"vr": unstack(vr), "vc": unstack(vc)}
    # [n, *shape] with 1 in place of the axis that was averaged.
    vr, vc = tf.expand_dims(vr, largest + 1), tf.expand_dims(vc, second + 1)
    r = tf.math.rsqrt(vr)
    c = tf.math.rsqrt(vc) * tf.sqrt(tf.reduce_mean(vr, second + 1, keepdims=True))
    # One c at a time: the square of a c that never saw a gradient may overflow.
    mean_squares = weighted_means(squares, second, r * r) * c * c
    update_rms = tf.sqrt(tf.reduce_mean(mean_squares, range(1, len(r.shape))))
    r *= _like(_clip(learning_rates, update_rms, options), r)
    parts = zip(gradients, unstack(r), unstack(c), strict=True)
    return [gradient * r * c for gradient, r, c in parts], new_slots


def _average(slots, squares, decay):
    # 1 - decay, not the power itself: so late steps round as in Mesh's runs.
    return stack(slots) * decay + squares * (1.0 - decay)


def _clip(learning_rates, update_rms, options):
    threshold = options.clipping_threshold
    if threshold is None:
        return learning_rates
    return learning_rates / tf.maximum(1.0, update_rms / threshold)


def _like(x, other):
    """[n] -> [n, 1, ...], as many dimensions as `other`."""
    return tf.reshape(x, [-1] + [1] * (len(other.shape) - 1))


def _without(shape, axis):
    return shape[:axis] + shape[axis + 1 :]
