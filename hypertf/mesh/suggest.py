"""Looks for a mesh and a layout that fit, as Mesh TensorFlow's automatic layout does.

All ways of sharing the devices between data and model are tried with all choices of
T5's rules. Of those that fit, the one that sends least is taken; if none fits, the one
that holds least.
"""

import dataclasses
import itertools
from collections.abc import Iterator

from hypertf.mesh.layouts import Layout
from hypertf.mesh.plans import Described, Plan, lay_out
from hypertf.mesh.shapes import MeshShape

SPLIT = ("d_ff", "heads", "vocab")  # over `model`


def suggest(described: Described, num_devices: int, chip: str, memory: float) -> Plan:
    """Returns the best plan for a number of devices; see whether it `fits`.

    Blocks are rematerialised only if nothing fits without.
    """
    best = None
    for again in (described.sizes.rematerialize, True):
        sizes = dataclasses.replace(described.sizes, rematerialize=again)
        tried = dataclasses.replace(described, sizes=sizes)
        found = list(_plans(tried, num_devices, chip, memory))
        if not found:
            raise ValueError(
                f"no mesh of {num_devices} devices: batch_size={sizes.batch_size} and "
                f"d_ff, heads and vocab of {described.model} do not divide by any "
                "of its shapes; expected another number of devices or batch size"
            )
        best = min(found, key=_cost)
        if best.fits:
            break
    return best


def _cost(plan):
    if plan.fits:
        return 0, plan.traffic, plan.training
    return 1, plan.training, plan.traffic


def _plans(described, num_devices, chip, memory) -> Iterator[Plan]:
    for mesh, layout in candidates(num_devices):
        try:
            yield lay_out(described, mesh, layout, chip, memory)
        except ValueError:  # something does not divide
            continue


def candidates(num_devices: int) -> Iterator[tuple[MeshShape, Layout]]:
    """All meshes of data and model, with all choices of what is split over the model.

    >>> [(str(mesh), str(layout)) for mesh, layout in candidates(2)][:2]
    [('batch:2', 'batch:batch'), ('model:2', 'd_ff:model')]
    """
    for model in range(1, num_devices + 1):
        if num_devices % model:
            continue
        sizes = (("batch", num_devices // model), ("model", model))
        mesh = MeshShape(tuple((name, size) for name, size in sizes if size > 1))
        data = (("batch", "batch"),) if "batch" in mesh else ()
        if model == 1:
            yield mesh, Layout(data)
            continue
        for number in range(1, len(SPLIT) + 1):
            for dims in itertools.combinations(SPLIT, number):
                yield mesh, Layout((*data, *((dim, "model") for dim in dims)))
