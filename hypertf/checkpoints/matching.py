"""Pairs a model's weights with a checkpoint's tensors, or lists all that differ."""

import dataclasses
import itertools
from typing import Any, NamedTuple

import numpy as np

from hypertf.checkpoints.mesh import STEP, is_trained, slot_name
from hypertf.checkpoints.reader import FLOAT_TYPES
from hypertf.checkpoints.rules import CONDITIONER, translate
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

    def check(self, reader):
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


def match(model, reader, optimizer=None):
    """Pairs what can be paired; reads no values but of tensors stored twice."""
    found = Matching()
    _compare_configs(found, model.config, reader)
    rules = reader.rules(model.config)
    # A plain T5's checkpoint says nothing of a conditioner, and need not.
    is_plain = not any(name.startswith(CONDITIONER) for name in reader.tensors)
    for name, variable in named_weights(model).items():
        if is_plain and name.startswith(CONDITIONER):
            found.kept.append(name)
            continue
        names, transpose = translate(name, rules)
        source = _match_weight(found, name, variable, names, transpose, reader)
        if optimizer is not None and source and is_trained(optimizer, variable):
            _match_slots(found, optimizer.slots(variable), source, reader)
    if optimizer is not None and reader.step is None:
        found.missing.append(STEP)
    _sort_left_over(found, reader)
    return found


def _compare_configs(found, wanted, reader):
    try:
        config = reader.config()
    except ValueError as error:
        found.config.append(str(error))
        return
    if config is None:
        return
    for field in dataclasses.fields(config):
        there, here = getattr(config, field.name), getattr(wanted, field.name)
        if there != here and field.name not in reader.unknown_fields:
            found.config.append(
                f"{field.name}: {there!r} in the checkpoint, {here!r} in the model"
            )


def _match_weight(found, ours, variable, names, transpose, reader):
    present = [name for name in names if name in reader.tensors]
    found.used.update(present)
    if not present:
        found.missing.append(names[0] if names[0] == ours else f"{names[0]} ({ours})")
        return None
    shape = tuple(variable.shape)
    fits = [
        _check_shape(found, name, shape[::-1] if transpose else shape, reader.tensors)
        for name in present
    ]
    if all(fits):
        found.weights.append(Pair(variable, present[0], transpose))
        for name in present[1:]:
            if not _are_equal(reader.blocks(present[0]), reader.blocks(name)):
                found.unequal.append(f"{name} and {present[0]}")
    return present[0]


def _match_slots(found, slots, source, reader):
    for slot, variable in slots.items():
        name = slot_name(source, slot)
        if name not in reader.slots:
            found.missing.append(name)
            continue
        found.used.add(name)
        if _check_shape(found, name, tuple(variable.shape), reader.slots):
            found.slots.append(Pair(variable, name))
    for name in reader.slots:
        owner, _, slot = name.rpartition("_slot_")
        if owner == source and slot not in slots:
            found.left_over.append(name)


def _check_shape(found, name, shape, tensors):
    tensor = tensors[name]
    if tensor.shape != shape:
        found.misshapen.append(f"{name}: {list(tensor.shape)}, expected {list(shape)}")
    elif tensor.dtype not in FLOAT_TYPES:
        found.misshapen.append(f"{name}: {tensor.dtype}, expected a float type")
    else:
        return True
    return False


def _are_equal(blocks, others):
    pairs = itertools.zip_longest(blocks, others)
    return all(a and b and np.array_equal(a[2], b[2]) for a, b in pairs)


def _sort_left_over(found, reader):
    for name in sorted(reader.tensors):
        if name not in found.used:
            kind = found.unused if reader.is_unused(name) else found.left_over
            kind.append(name)
