"""Pairs a model's weights with a checkpoint's tensors, or lists all that differ."""

import dataclasses
import itertools
from typing import Any, NamedTuple

import keras
import numpy as np

from hypertf.checkpoints.mesh import STEP, is_trained, slot_name
from hypertf.checkpoints.reader import FLOAT_TYPES, Reader
from hypertf.checkpoints.rules import CONDITIONER, translate
from hypertf.t5 import T5
from hypertf.t5.weights import named_weights


class Pair(NamedTuple):
    """A variable and the tensor that it takes its values from."""

    variable: Any
    name: str  # the tensor's
    transpose: bool = False


@dataclasses.dataclass
class Matching:
    """What fits, and what does not."""

    weights: list = dataclasses.field(default_factory=list)  # of Pair
    slots: list = dataclasses.field(default_factory=list)  # of Pair
    used: set = dataclasses.field(default_factory=set)  # names of tensors
    kept: list = dataclasses.field(default_factory=list)  # weights left as they are
    unused: list = dataclasses.field(default_factory=list)  # tensors of no use
    config: list = dataclasses.field(default_factory=list)
    missing: list = dataclasses.field(default_factory=list)
    left_over: list = dataclasses.field(default_factory=list)
    misshapen: list = dataclasses.field(default_factory=list)
    unequal: list = dataclasses.field(default_factory=list)

    def check(self, reader: Reader) -> None:
        """Raises one error with everything that does not fit."""
        parts = {
            "of another config": self.config,
            "missing from the checkpoint": self.missing,
            "left over in the checkpoint": self.left_over,
            "of another shape or type": self.misshapen,
            "stored twice, with different values": self.unequal,
        }
        lines = [f"{reader.path} ({reader.format}) does not fit the model"]
        for title, items in parts.items():
            if items:
                lines += [f"{title} ({len(items)}):", *(f"  {i}" for i in items)]
        if len(lines) > 1:
            raise ValueError("\n".join(lines))


def match(
    model: T5, reader: Reader, optimizer: keras.optimizers.Optimizer | None = None
) -> Matching:
    """Pairs what can be paired; reads no values but of tensors stored twice."""
    matching = Matching()
    _compare_configs(matching, model.config, reader)
    rules = reader.rules(model.config)
    # A plain T5's checkpoint says nothing of a conditioner, and need not.
    is_plain = not any(name.startswith(CONDITIONER) for name in reader.tensors)
    for name, variable in named_weights(model).items():
        if is_plain and name.startswith(CONDITIONER):
            matching.kept.append(name)
            continue
        names, transpose = translate(name, rules)
        source = _match_weight(matching, name, variable, names, transpose, reader)
        if optimizer is not None and source and is_trained(optimizer, variable):
            _match_slots(matching, optimizer.slots(variable), source, reader)
    if optimizer is not None and reader.step is None:
        matching.missing.append(STEP)
    _sort_left_over(matching, reader)
    return matching


def _compare_configs(matching, wanted, reader):
    try:
        config = reader.config()
    except ValueError as error:
        matching.config.append(str(error))
        return
    if config is None:
        return
    for field in dataclasses.fields(config):
        there, here = getattr(config, field.name), getattr(wanted, field.name)
        if there != here and field.name not in reader.unknown_fields:
            matching.config.append(
                f"{field.name}: {there!r} in the checkpoint, {here!r} in the model"
            )


def _match_weight(matching, ours, variable, names, transpose, reader):
    present = [name for name in names if name in reader.tensors]
    matching.used.update(present)
    if not present:
        matching.missing.append(
            names[0] if names[0] == ours else f"{names[0]} ({ours})"
        )
        return None
    shape = tuple(variable.shape)
    fits = [
        _check_shape(
            matching, name, shape[::-1] if transpose else shape, reader.tensors
        )
        for name in present
    ]
    if all(fits):
        matching.weights.append(Pair(variable, present[0], transpose))
        for name in present[1:]:
            if not _are_equal(reader.blocks(present[0]), reader.blocks(name)):
                matching.unequal.append(f"{name} and {present[0]}")
    return present[0]


def _match_slots(matching, slots, source, reader):
    for slot, variable in slots.items():
        name = slot_name(source, slot)
        if name not in reader.slots:
            matching.missing.append(name)
            continue
        matching.used.add(name)
        if _check_shape(matching, name, tuple(variable.shape), reader.slots):
            matching.slots.append(Pair(variable, name))
    for name in reader.slots:
        owner, _, slot = name.rpartition("_slot_")
        if owner == source and slot not in slots:
            matching.left_over.append(name)


def _check_shape(matching, name, shape, tensors):
    tensor = tensors[name]
    if tensor.shape != shape:
        matching.misshapen.append(
            f"{name}: {list(tensor.shape)}, expected {list(shape)}"
        )
    elif tensor.dtype not in FLOAT_TYPES:
        matching.misshapen.append(f"{name}: {tensor.dtype}, expected a float type")
    else:
        return True
    return False


def _are_equal(blocks, others):
    pairs = itertools.zip_longest(blocks, others)
    return all(a and b and np.array_equal(a[2], b[2]) for a, b in pairs)


def _sort_left_over(matching, reader):
    for name in sorted(reader.tensors):
        if name not in matching.used:
            kind = matching.unused if reader.is_unused(name) else matching.left_over
            kind.append(name)
