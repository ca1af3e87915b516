"""A lowered training step split over a mesh, for Google's TPU compiler to partition.

    step = PartitionedStep(model, optimizer, ..., layout=layout, mesh=mesh)
    program = tpu.lower(step.compiled, batch, tf.constant(0, tf.int64))
    split = shardings(program, model, optimizer, layout, mesh)
    tpu.compile_hlo(program, "v5e:2x2", chips=4, shardings=split)

The compiler is told how weights, slots, gradients and batch lie, by the layout's rules.
It works out the rest, so that its figures are a check on a plan.
"""

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.compiler.xla.experimental import xla_sharding

from hypertf.mesh.layouts import Layout
from hypertf.mesh.shapes import MeshShape
from hypertf.mesh.tensors import variables
from hypertf.mesh.updates import slot_name, slots_of
from hypertf.t5 import T5, named_weights
from hypertf.tpu.lowering import Program
from hypertf.training import TrainStep
from hypertf.types import Batch, Tensor


class PartitionedStep(TrainStep):
    """A training step whose gradients lie as their weights do, as those of a mesh.

    Left to itself the compiler lays gradients of one shape alike, since they share the
    constants of the optimizer: q's and o's in t5-small, and then the whole stream.

    Args:
        layout, mesh: how weights lie.
        *args, **kwargs: those of `TrainStep`.
    """

    def __init__(
        self, *args: Any, layout: Layout, mesh: MeshShape, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.layout, self.mesh = layout, mesh

    def gradients(
        self, batch: Batch, seeds: list[Tensor], size: Tensor | float
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Gradients laid out like their weights, and sums per task."""
        gradients, metrics = super().gradients(batch, seeds, size)
        named = [tensor for tensor in variables(self.model) if tensor.trained]
        found = {named_weights(self.model)[t.name].path: t for t in named}
        pairs = zip(gradients, self.model.trainable_variables, strict=True)
        return [self._laid_out(g, found[v.path]) for g, v in pairs], metrics

    def _laid_out(self, gradient, weight):
        sizes = [self.mesh[name] for name in self.mesh.names]
        devices = np.arange(self.mesh.size).reshape(sizes)
        over = weight.split_over(self.layout, self.mesh)
        dims = [-1 if name is None else self.mesh.names.index(name) for name in over]
        return xla_sharding.mesh_split(gradient, devices, dims, use_sharding_op=True)


def shardings(
    program: Program,
    model: T5,
    optimizer: keras.optimizers.Optimizer,
    layout: Layout,
    mesh: MeshShape,
) -> list[str]:
    """The sharding of each argument of a lowered step, in the compiler's words."""
    named = _state(model, optimizer)
    rows = sharding((layout.mesh_dimension("batch", mesh),), mesh)
    found = [
        rows if number in program.batch else sharding((), mesh)
        for number in range(program.given)
    ]
    for handle in program.captured:
        tensor = named.get(id(handle))
        over = () if tensor is None else tensor.split_over(layout, mesh)
        found.append(sharding(over, mesh))
    return found


def _state(model, optimizer):
    """Weights and slots with their named dimensions, by the handles of variables."""
    weights, found = named_weights(model), {}
    for tensor in variables(model):
        weight = weights[tensor.name]
        found[id(_handle(weight))] = tensor
        if not tensor.trained:
            continue
        own = optimizer.slots(weight)
        for slot in slots_of(optimizer, tensor):
            found[id(_handle(own[slot_name(slot)]))] = slot
    return found


def _handle(variable) -> tf.Tensor:
    return variable.value.handle


def sharding(over: tuple[str | None, ...], mesh: MeshShape) -> str:
    """Says how the dimensions of a tensor lie over mesh dimensions, None being whole.

    Dimensions that are not named, the last ones, are whole.

    >>> sharding((None, "model"), MeshShape((("batch", 2), ("model", 4))))
    '{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
    >>> sharding(("batch",), MeshShape((("batch", 2), ("model", 4))))
    '{devices=[2,4]<=[8] last_tile_dim_replicate}'
    """
    used = [name for name in over if name is not None]
    rest = [name for name in mesh.names if name not in used]
    if not used:
        return "{replicated}"
    tiles = [1 if name is None else mesh[name] for name in over]
    others = math.prod(mesh[name] for name in rest)
    order = [mesh.names.index(name) for name in (*used, *rest)]
    devices = f"[{mesh.size}]"  # in their order; the long form is taken for no sharding
    if order != sorted(order):
        sizes = ",".join(str(mesh[name]) for name in mesh.names)
        devices = f"[{sizes}]T({','.join(map(str, order))})"
    last = " last_tile_dim_replicate" if others > 1 else ""
    tiles += [others] if others > 1 else []
    return f"{{devices=[{','.join(map(str, tiles))}]<={devices}{last}}}"
