"""Tensors by the names of their dimensions: a model's variables, and their slots.

Nothing here has values; a model that was built inside `hypertf.t5.Unallocated` will do.
"""

import dataclasses
import math

from hypertf.mesh.layouts import Layout
from hypertf.mesh.shapes import MeshShape
from hypertf.optimizers.adafactor_update import factored_axes
from hypertf.t5 import T5, named_weights

MIN_DIM_SIZE_TO_FACTOR = 128  # the default of `hypertf.Adafactor`


@dataclasses.dataclass(frozen=True)
class Named:
    """A tensor: its name, the names and sizes of its dimensions, bytes of an element.

    `count` is how many there are of it; `trained` is for variables.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    itemsize: int = 4
    count: int = 1
    trained: bool = True

    @property
    def bytes(self) -> int:
        """Bytes of all of it, on however many devices."""
        return math.prod(self.shape) * self.itemsize * self.count

    def bytes_per_device(self, layout: Layout, mesh: MeshShape) -> int:
        """Bytes that one device holds."""
        shard = layout.shard(self.dims, self.shape, mesh, self.name)
        return math.prod(shard) * self.itemsize * self.count

    def split_over(self, layout: Layout, mesh: MeshShape) -> tuple[str | None, ...]:
        """The mesh dimension of each of its dimensions, None where not split."""
        return layout.of(self.dims, mesh, self.name)


def variables(model: T5, itemsize: int = 4) -> list[Named]:
    """Lists the weights of a model with their named dimensions."""
    trained = {id(weight) for weight in model.trainable_variables}
    found = []
    for name, weight in named_weights(model).items():
        dims, shape = getattr(weight, "dims", None), tuple(weight.shape)
        if dims is None or len(dims) != len(shape):
            raise ValueError(
                f"{name}: dims={dims!r} for shape {shape}, expected a name for each "
                "dimension; make weights with hypertf.t5.weights.add_weight"
            )
        found.append(Named(name, dims, shape, itemsize, trained=id(weight) in trained))
    return found


def slots(
    variable: Named, min_dim_size_to_factor: int = MIN_DIM_SIZE_TO_FACTOR
) -> list[Named]:
    """Lists Adafactor's state of a variable, with the variable's named dimensions.

    `vr` lacks the largest dimension and `vc` the second largest; a variable that is not
    factored has a `v` of its own shape. What is not trained has none.
    """
    if not variable.trained:
        return []
    axes = factored_axes(variable.shape, min_dim_size_to_factor)
    dropped = {"v": None} if axes is None else {"vr": axes[0], "vc": axes[1]}
    return [_without(variable, axis, slot) for slot, axis in dropped.items()]


def full_slots(variable: Named) -> list[Named]:
    """Lists AdamW's state of a variable: `m` and `v`, of its own shape."""
    if not variable.trained:
        return []
    return [_without(variable, None, slot) for slot in ("m", "v")]


SLOTS = {"adafactor": slots, "adamw": full_slots}  # by the names of optimizers


def _without(variable, axis, slot):
    kept = [i for i in range(len(variable.shape)) if i != axis]
    return dataclasses.replace(
        variable,
        name=f"{variable.name}_slot_{slot}",
        dims=tuple(variable.dims[i] for i in kept),
        shape=tuple(variable.shape[i] for i in kept),
        itemsize=4,
    )


def gradient(variable: Named) -> list[Named]:
    """The gradient of a variable, none if it is not trained."""
    if not variable.trained:
        return []
    return [dataclasses.replace(variable, name=f"{variable.name} (gradient)")]
