"""What each device of a mesh would hold and send, computed without allocating it."""

import dataclasses
import re
from typing import Any

import keras
import tensorflow as tf

from hypertf import conditioning
from hypertf.mesh.activations import (
    Extra,
    Sizes,
    decoding_cache,
    extras,
    kept_in_training,
)
from hypertf.mesh.layouts import Layout, inert_rules, unused_dimensions
from hypertf.mesh.moments import moments
from hypertf.mesh.shapes import MeshShape
from hypertf.mesh.tensors import SLOTS, Named, gradient, variables
from hypertf.mesh.traffic import AllReduce, all_reduces
from hypertf.t5 import T5, T5Config, Unallocated

LENGTHS = ("length", "memory_length")  # of a text: never split


@dataclasses.dataclass(frozen=True)
class Described:
    """A model and a step of it, by named dimensions; what all its plans share.

    `weights` has one entry for all weights of one place in the blocks, which its
    `count` counts; the name is that of the first.
    """

    model: str
    conditioner: str
    config: T5Config
    weights: tuple[Named, ...]
    sizes: Sizes
    extra: dict[str, Extra]
    optimizer: str = "adafactor"


def describe(
    model: str,
    sizes: Sizes,
    conditioner: str = "none",
    num_tasks: int = 8,
    options: dict[str, Any] | None = None,
    precision: str = "mixed_bfloat16",
    optimizer: str = "adafactor",
) -> Described:
    """Describes a model by name, without its weights' values."""
    config = T5Config.from_name(model)
    with Unallocated():
        method = conditioning.create(conditioner, config, num_tasks, **(options or {}))
        built = T5(config, conditioner=method)
    return describe_model(built, model, sizes, conditioner, precision, optimizer)


def describe_model(
    built: T5,
    model: str,
    sizes: Sizes,
    conditioner: str = "none",
    precision: str = "mixed_bfloat16",
    optimizer: str = "adafactor",
) -> Described:
    """Describes a model that was made, inside `Unallocated` or not."""
    policy = keras.DTypePolicy(precision)
    sizes = dataclasses.replace(sizes, itemsize=tf.as_dtype(policy.compute_dtype).size)
    found = variables(built, tf.as_dtype(policy.variable_dtype).size)
    weights, extra = tuple(_grouped(found)), extras(built, sizes)
    named = model, conditioner, built.config
    return Described(*named, weights, sizes, extra, optimizer)


def place(name: str) -> str:
    """The name of a weight's place in any block.

    >>> place("encoder/block_003/layer_000/SelfAttention/q")
    'encoder/block_*/layer_000/SelfAttention/q'
    """
    return re.sub(r"block_\d+", "block_*", name)


def _grouped(found):
    groups = {}
    for weight in found:
        key = (place(weight.name), weight.dims, weight.shape, weight.trained)
        groups.setdefault(key, []).append(weight)
    for group in groups.values():
        yield dataclasses.replace(group[0], count=len(group))


@dataclasses.dataclass(frozen=True)
class Group:
    """Weights of one place: what one device holds of all of them, in bytes."""

    name: str
    count: int
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    split_over: tuple[str | None, ...]
    weights: int
    slots: int
    gradients: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """Bytes that each device holds, and sends in a training step.

    Attributes:
        model, conditioner, optimizer, sizes: what is planned.
        mesh_shape, layout: how it is laid out.
        chip: the name of the chip, or of a size.
        memory: bytes of the chip's memory.
        groups: the weights by place.
        activations: {where: bytes} kept for the backward pass.
        moments: {when: bytes} held besides weights and slots when that is most.
        cache: {what: bytes} kept by decoding.
        all_reduces: what a training step sends.
        notes: what may not be meant.
    """

    model: str
    conditioner: str
    optimizer: str
    sizes: Sizes
    mesh_shape: str
    layout: str
    num_devices: int
    chip: str
    memory: float
    groups: tuple[Group, ...]
    activations: dict[str, int]
    moments: dict[str, int]
    cache: dict[str, int]
    all_reduces: tuple[AllReduce, ...]
    notes: tuple[str, ...] = ()

    def of_weights(self, field: str) -> int:
        """Bytes of all groups' `weights`, `slots` or `gradients`."""
        return sum(getattr(group, field) for group in self.groups)

    @property
    def peak(self) -> int:
        """Bytes that training holds besides weights and slots, at their most."""
        return max(self.moments.values())

    @property
    def training(self) -> int:
        """Bytes that training holds at once, see `docs/mesh.md`."""
        return self.of_weights("weights") + self.of_weights("slots") + self.peak

    @property
    def decoding(self) -> int:
        """Bytes that decoding holds: weights and cache."""
        return self.of_weights("weights") + sum(self.cache.values())

    @property
    def traffic(self) -> int:
        """Bytes that a device sends in a training step."""
        return sum(each.bytes for each in self.all_reduces)

    @property
    def fits(self) -> bool:
        """Whether training and decoding fit into the memory."""
        return max(self.training, self.decoding) <= self.memory

    def to_dict(self) -> dict[str, Any]:
        """Returns all figures by name, as JSON has them."""
        kinds = ("weights", "slots", "gradients")
        totals = {kind: self.of_weights(kind) for kind in kinds}
        for name in ("peak", "training", "decoding", "traffic", "fits"):
            totals[name] = getattr(self, name)
        return {**dataclasses.asdict(self), "totals": totals}


def lay_out(
    described: Described, mesh: MeshShape, layout: Layout, chip: str, memory: float
) -> Plan:
    """Plans a described model on a mesh."""
    of = (described.config, described.sizes, described.extra)
    kept, cache = kept_in_training(*of), decoding_cache(*of)
    _check_names(described, [*kept, *cache], layout, mesh)
    config, *rest = of
    weights = list(described.weights)
    held = moments(config, weights, kept, *rest)
    return Plan(
        model=described.model,
        conditioner=described.conditioner,
        optimizer=described.optimizer,
        sizes=described.sizes,
        mesh_shape=str(mesh),
        layout=str(layout),
        num_devices=mesh.size,
        chip=chip,
        memory=memory,
        groups=tuple(
            _group(weight, SLOTS[described.optimizer], layout, mesh)
            for weight in weights
        ),
        activations=_by_name(kept, layout, mesh),
        moments={
            when: sum(_by_name(tensors, layout, mesh).values())
            for when, tensors in held.items()
        },
        cache=_by_name(cache, layout, mesh),
        all_reduces=tuple(all_reduces(config, weights, *rest, layout, mesh)),
        notes=tuple(_notes(layout, mesh)),
    )


def _group(weight, slots, layout, mesh):
    def held(tensors: list[Named]) -> int:
        return sum(tensor.bytes_per_device(layout, mesh) for tensor in tensors)

    return Group(
        name=place(weight.name),
        count=weight.count,
        dims=weight.dims,
        shape=weight.shape,
        split_over=weight.split_over(layout, mesh),
        weights=held([weight]),
        slots=held(slots(weight)),
        gradients=held(gradient(weight)),
    )


def _by_name(tensors, layout, mesh):
    found = {}
    for tensor in tensors:
        held = tensor.bytes_per_device(layout, mesh)
        found[tensor.name] = found.get(tensor.name, 0) + held
    return found


def _check_names(described, kept, layout, mesh):
    tensors = [*described.weights, *kept]
    known = [dim for tensor in tensors for dim in tensor.dims if dim != "generated"]
    layout.check_names(known)
    for dim in LENGTHS:
        over = layout.mesh_dimension(dim, mesh)
        if over is not None:
            raise ValueError(
                f'layout rule "{dim}:{over}": the length of a text is not split, '
                "expected another dimension, such as batch, d_ff, heads or vocab"
            )


def _notes(layout, mesh):
    inert = inert_rules(layout, mesh)
    for name in unused_dimensions(layout, mesh):
        yield (
            f"no layout rule names the mesh dimension {name!r}: all {mesh[name]} "
            f"devices along it hold and do the same; rules without a mesh dimension: "
            f"{', '.join(inert) or 'none'}"
        )
