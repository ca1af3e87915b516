"""Layout rules: which dimension of a tensor is split over which dimension of a mesh.

    layout = parse_layout("batch:batch,d_ff:model,heads:model,vocab:model")
    layout.of(("d_model", "d_ff"), parse_shape("batch:2,model:4"))  # (None, "model")

They mean what they mean in Mesh TensorFlow. A rule whose mesh dimension is not there
does nothing, so one layout serves many meshes. A dimension goes over one mesh dimension
only, and two dimensions of one tensor never over the same. Results do not depend on
the layout.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence

from hypertf.mesh.shapes import MeshShape, nearest_divisors, parse_pairs
from hypertf.names import unknown

# T5's own; ensembles and experts are there for the meshes of others.
DEFAULT_LAYOUT = (
    "ensemble:ensemble,batch:batch,d_ff:model,heads:model,vocab:model,experts:batch"
)
# Names that rules may have although no tensor here does.
OF_OTHERS = ("ensemble", "experts", "outer_batch")
EXPECTED = 'expected pairs such as "batch:batch,d_ff:model"'


@dataclasses.dataclass(frozen=True)
class Layout:
    """Pairs of a tensor's dimension and the mesh dimension that it is split over."""

    rules: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return ",".join(f"{dim}:{over}" for dim, over in self.rules)

    def mesh_dimension(self, dim: str, mesh: MeshShape) -> str | None:
        """The mesh dimension that `dim` is split over, or None."""
        found = [name for name in mesh.names if (dim, name) in self.rules]
        if len(found) > 1:
            raise ValueError(
                f'layout "{self}": dimension {dim!r} goes over the mesh dimensions '
                f"{' and '.join(map(repr, found))}, expected one"
            )
        return found[0] if found else None

    def of(
        self, dims: Sequence[str], mesh: MeshShape, name: str = "tensor"
    ) -> tuple[str | None, ...]:
        """The mesh dimension of each dimension of a tensor, None where not split.

        >>> parse_layout().of(("vocab", "d_model"), MeshShape((("model", 4),)))
        ('model', None)
        """
        found = tuple(self.mesh_dimension(dim, mesh) for dim in dims)
        for over in mesh.names:
            if found.count(over) > 1:
                pairs = zip(dims, found, strict=True)
                rules = [f'"{dim}:{over}"' for dim, m in pairs if m == over]
                raise ValueError(
                    f"{name} [{', '.join(dims)}]: the layout rules "
                    f"{' and '.join(rules)} put two of its dimensions on one mesh "
                    "dimension, expected at most one"
                )
        return found

    def shard(
        self,
        dims: Sequence[str],
        shape: Sequence[int],
        mesh: MeshShape,
        name: str = "tensor",
    ) -> tuple[int, ...]:
        """The shape of what one device holds of a tensor.

        >>> mesh = MeshShape((("model", 4),))
        >>> parse_layout().shard(("vocab", "d_model"), (8, 2), mesh)
        (2, 2)
        """
        found = self.of(dims, mesh, name)
        for dim, size, over in zip(dims, shape, found, strict=True):
            if over is not None and size % mesh[over]:
                raise ValueError(_does_not_divide(name, dim, size, over, mesh[over]))
        return tuple(
            size if over is None else size // mesh[over]
            for size, over in zip(shape, found, strict=True)
        )

    def check_names(self, known: Iterable[str]) -> None:
        """Refuses rules for dimensions that no tensor has; the nearest are named."""
        known = list(dict.fromkeys([*known, *OF_OTHERS]))
        for dim, over in self.rules:
            if dim not in known:
                what = unknown("dimension", dim, known)
                raise ValueError(f'layout rule "{dim}:{over}": {what}')


def parse_layout(text: str = DEFAULT_LAYOUT) -> Layout:
    """Reads layout rules; without a text, those of T5.

    >>> parse_layout("d_ff:model heads:model").rules
    (('d_ff', 'model'), ('heads', 'model'))
    """
    pairs = parse_pairs(text, "layout", EXPECTED)
    return Layout(tuple(dict.fromkeys(pairs)))


def inert_rules(layout: Layout, mesh: MeshShape) -> list[str]:
    """The rules that do nothing on a mesh, since it has no such dimension."""
    return [f"{dim}:{over}" for dim, over in layout.rules if over not in mesh]


def unused_dimensions(layout: Layout, mesh: MeshShape) -> list[str]:
    """The mesh dimensions that no rule names: devices along them do the same."""
    named = {over for _, over in layout.rules}
    return [name for name, size in mesh if size > 1 and name not in named]


def _does_not_divide(name, dim, size, over, parts):
    sizes = sorted({max(parts, size // parts * parts), math.ceil(size / parts) * parts})
    return (
        f'{name}, layout rule "{dim}:{over}": {dim}={size} does not divide by mesh '
        f"dimension {over}={parts}; {over}={_either(nearest_divisors(size, parts))} "
        f"or {dim}={_either(sizes)} would"
    )


def _either(values):
    return " or ".join(map(str, values))
