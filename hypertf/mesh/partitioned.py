"""A lowered training step split over a mesh, for Google's TPU compiler to partition.

    program = tpu.lower(step.compiled, batch, tf.constant(0, tf.int64))
    split = shardings(program, model, optimizer, layout, mesh)
    tpu.compile_hlo(program, "v5e:2x2", chips=4, shardings=split)

The compiler is told how the arguments lie: weights, slots and batch by the layout's
rules. It works out the rest, so that its figures are a check on a plan.
"""

import math

import tensorflow as tf

from hypertf.mesh.layouts import Layout
from hypertf.mesh.shapes import MeshShape
from hypertf.mesh.tensors import slots, variables
from hypertf.optimizers import Adafactor
from hypertf.t5 import T5, named_weights
from hypertf.tpu.lowering import Program


def shardings(
    program: Program, model: T5, optimizer: Adafactor, layout: Layout, mesh: MeshShape
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
        for slot in slots(tensor, optimizer.min_dim_size_to_factor):
            found[id(_handle(own[slot.name.rpartition("_slot_")[2]]))] = slot
    return found


def _handle(variable) -> tf.Tensor:
    return variable.value.handle


def sharding(over: tuple[str | None, ...], mesh: MeshShape) -> str:
    """Says how the dimensions of a tensor lie over mesh dimensions, None being whole.

    Dimensions that are not named, the last ones, are whole.

    >>> sharding((None, "model"), MeshShape((("batch", 2), ("model", 4))))
    '{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
    """
    used = [name for name in over if name is not None]
    rest = [name for name in mesh.names if name not in used]
    if not used:
        return "{replicated}"
    tiles = [1 if name is None else mesh[name] for name in over]
    others = math.prod(mesh[name] for name in rest)
    sizes = ",".join(str(mesh[name]) for name in mesh.names)
    order = [mesh.names.index(name) for name in (*used, *rest)]
    turned = ""
    if order != sorted(order):
        turned = f"T({','.join(map(str, order))})"
    last = " last_tile_dim_replicate" if others > 1 else ""
    tiles += [others] if others > 1 else []
    return f"{{devices=[{','.join(map(str, tiles))}]<=[{sizes}]{turned}{last}}}"
