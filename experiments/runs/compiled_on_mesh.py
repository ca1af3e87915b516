"""A plan of a mesh beside what Google's TPU compiler makes of the same step."""

import math

from experiments.reports.tables import aligned
from experiments.runs.config import Config
from experiments.runs.on_mesh import Asked
from hypertf import tpu
from hypertf.mesh.partitioned import shardings
from hypertf.mesh.plans import Plan
from hypertf.t5 import T5
from hypertf.training import TrainStep

MB = 1e6


def check(asked: Asked, config: Config, topology: str) -> None:
    """Refuses a mesh that the chips of a topology are too few for."""
    asked.check(config)
    if config.microbatches != 1:
        raise ValueError(
            f"microbatches={config.microbatches}: expected 1 where a mesh is compiled"
        )
    _, chips = tpu.parse_topology(topology)
    if asked.shape.size > chips:
        raise ValueError(
            f'mesh_shape "{asked.shape}" has {asked.shape.size} devices, expected at '
            f"most the {chips} chips of {topology}"
        )


def compile_on_mesh(
    asked: Asked, step: TrainStep, program: tpu.Program, topology: str
) -> tpu.Compiled:
    """Compiles a lowered training step, split over chips as the layout says."""
    split = shardings(program, step.model, step.optimizer, asked.layout, asked.shape)
    return tpu.compile_hlo(program, topology, asked.shape.size, split)


def beside_plan(
    asked: Asked, config: Config, model: T5, compiled: tpu.Compiled
) -> dict[str, tuple[float, float]]:
    """{what: (bytes on a chip as planned, as compiled)}."""
    planned = asked.plan(config, model, config.batch_size)
    texts = config.inputs_length + 2 * config.targets_length
    rows = asked.layout.shard(("batch",), (config.batch_size,), asked.shape)[0]
    held = planned.of_weights("weights") + planned.of_weights("slots")
    sent = sum(size for _, size in compiled.collectives.values())
    return {
        "weights, slots, batch": (held + 4 * rows * (texts + 1), compiled.arguments),
        "temporary, at its most": (planned.peak, compiled.temporary),
        "results of collectives": (_summed(planned, asked), sent),
    }


def _summed(planned: Plan, asked: Asked) -> float:
    """Bytes of the sums over devices; each sends 2 (n - 1) / n times as many."""
    total = 0.0
    for each in planned.all_reduces:
        number = math.prod(asked.shape[name] for name in each.over)
        total += each.bytes * number / (2 * (number - 1))
    return total


def table(figures: dict[str, tuple[float, float]]) -> str:
    """Writes the figures as a table."""
    rows = [
        (name, f"{planned / MB:.2f}", f"{found / MB:.2f}", f"{planned / found:.2f}")
        for name, (planned, found) in figures.items()
    ]
    return "\n" + aligned(("MB on a chip", "planned", "compiled", "ratio"), rows)
