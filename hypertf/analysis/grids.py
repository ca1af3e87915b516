"""HyperGrid's gates, as the model computes them for examples."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from hypertf.analysis.similarity import MeanByTask
from hypertf.analysis.walk import members, walk
from hypertf.conditioning.combined import CombinedSites
from hypertf.conditioning.hypergrid import GridSites, HyperGrid
from hypertf.t5 import T5, Sites, shared
from hypertf.t5.inputs import TASK_IDS
from hypertf.types import Batch, Tensor

Grids = dict[tuple[int, str], np.ndarray]  # {(block, kernel): [..., d_r, d_c]}


@dataclasses.dataclass(frozen=True)
class _Recorded(GridSites):
    """HyperGrid's sites that keep what they multiply cells with."""

    kept: dict[str, Tensor] = shared(default_factory=dict)

    def observe(self, x: Tensor, place: str) -> dict[str, Tensor] | None:
        seen = super().observe(x, place)
        self.kept.update(seen or {})
        return seen


def has_grids(model: T5) -> bool:
    """Tells whether a model has gates of HyperGrid."""
    return any(isinstance(m, HyperGrid) for m in members(model.conditioner))


def grids(model: T5, inputs: Batch, stack: str = "encoder") -> Grids:
    """Computes the gates of each example: {(block, kernel): [batch, d_r, d_c]}.

    They are sigmoid(row column^T) of eqs. 2 to 5, between 0 and 1; eq. 7's ungated
    product is not in them.

    ```python
    config = hypertf.T5Config.from_name("t5-nano")
    method = hypertf.conditioning.create("hypergrid", config, num_tasks=2, d_r=4, d_c=8)
    model = hypertf.T5(config, conditioner=method)
    inputs = {"encoder_tokens": np.array([[8, 9, 1]]), "task_ids": np.array([1])}
    hypertf.analysis.grids(model, inputs)[0, "wo"].shape  # (1, 4, 8)
    ```
    """
    methods = [m for m in members(model.conditioner) if isinstance(m, HyperGrid)]
    if not methods:
        name = "none" if model.conditioner is None else model.conditioner.method
        raise ValueError(f"{name} has no gates, expected hypergrid")
    ungated = 1.0 if methods[0].options.adds_ungated else 0.0
    kept = []

    def record(sites: Sites) -> Sites:
        recorded = _recording(sites)
        kept.append(recorded)
        return recorded

    walk(model, inputs, stack, change=record)
    return {
        (i, name): gates.numpy() - ungated
        for i, sites in enumerate(kept)
        for name, gates in _kept(sites).items()
    }


def _recording(sites: Sites) -> Sites:
    if isinstance(sites, CombinedSites):
        parts = tuple(_recording(member) for member in sites.members)
        return dataclasses.replace(sites, members=parts)
    if not isinstance(sites, GridSites):
        return sites
    fields = {f.name: getattr(sites, f.name) for f in dataclasses.fields(sites)}
    return _Recorded(**fields)


def _kept(sites: Sites) -> dict[str, Tensor]:
    if isinstance(sites, CombinedSites):
        return {k: v for member in sites.members for k, v in _kept(member).items()}
    return sites.kept if isinstance(sites, _Recorded) else {}


def mean_grids(model: T5, batches: Iterable[Batch], stack: str = "encoder") -> Grids:
    """Takes the mean of the gates by task: {(block, kernel): [tasks, d_r, d_c]}.

    NaN for tasks of which there is no example.
    """
    mean = MeanByTask(model.conditioner.num_tasks)
    for batch in batches:
        for place, gates in grids(model, batch, stack).items():
            mean.add(place, gates, np.asarray(batch[TASK_IDS]))
    return mean.means()
