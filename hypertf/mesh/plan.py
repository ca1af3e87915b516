"""Plans a model on a mesh: what each device holds and sends, and whether it fits.

    python -m hypertf.mesh.plan --model=t5-11b --mesh_shape=batch:8,model:32
    python -m hypertf.mesh.plan --model=t5-3b --mesh_shape=v3-64 --suggest

Nothing is allocated: a plan of 11 billion parameters takes seconds on a laptop. What
the figures mean, and how they are computed, is on the page `docs/mesh.md`.
"""

import json
from typing import Any

from absl import app, flags

from hypertf.mesh.activations import Sizes
from hypertf.mesh.layouts import DEFAULT_LAYOUT, Layout, parse_layout
from hypertf.mesh.plans import Group, Plan, describe, lay_out
from hypertf.mesh.shapes import MeshShape, parse_shape
from hypertf.mesh.suggest import suggest
from hypertf.mesh.tensors import SLOTS
from hypertf.names import unknown
from hypertf.tpu.chips import CHIPS, GB

FLAGS = flags.FLAGS
PRECISIONS = ("float32", "mixed_bfloat16", "bfloat16")


def plan(
    model: str,
    mesh_shape: str | MeshShape,
    layout: str | Layout = DEFAULT_LAYOUT,
    *,
    conditioner: str = "none",
    num_tasks: int = 8,
    conditioner_options: dict[str, Any] | None = None,
    batch_size: int = 128,
    inputs_length: int = 512,
    targets_length: int = 32,
    beam_size: int = 1,
    precision: str = "mixed_bfloat16",
    optimizer: str = "adafactor",
    rematerialize: bool = False,
    chip: str = "v3",
    cores_per_replica: int = 1,
    find: bool = False,
) -> Plan:
    """Plans a model on a mesh, without allocating anything.

    ```python
    from hypertf.mesh.plan import plan

    planned = plan("t5-11b", "v3-256", cores_per_replica=32)
    print(planned.fits, planned.training / 1e9)  # GB on each device
    ```

    Args:
        model: a name of `T5Config`.
        mesh_shape: such as "batch:8,model:32", or a TPU with `cores_per_replica`.
        layout: rules such as "batch:batch,d_ff:model".
        conditioner: a name of `hypertf.conditioning`, for `num_tasks` tasks and with
            `conditioner_options`.
        batch_size: examples of all devices together; lengths are in tokens.
        beam_size: beams of decoding.
        precision: a Keras dtype policy.
        optimizer: adafactor or adamw.
        rematerialize: whether blocks are computed again in the backward pass.
        chip: one of v3, v4, v5e, v5p, v6e, or a number of GB.
        cores_per_replica: of a TPU's name.
        find: whether to look for the best mesh of as many devices instead.
    """
    if precision not in PRECISIONS:
        raise ValueError(unknown("precision", precision, PRECISIONS))
    if optimizer not in SLOTS:
        raise ValueError(unknown("optimizer", optimizer, SLOTS))
    sizes = Sizes(
        batch_size=batch_size,
        inputs_length=inputs_length,
        targets_length=targets_length,
        rematerialize=rematerialize,
        beam_size=beam_size,
    )
    if isinstance(mesh_shape, str):
        cores_per_chip = 2 if chip == "v3" else 1
        mesh_shape = parse_shape(mesh_shape, cores_per_replica, cores_per_chip)
    if isinstance(layout, str):
        layout = parse_layout(layout)
    memory = memory_of(chip)
    method = conditioner, num_tasks, conditioner_options
    described = describe(model, sizes, *method, precision, optimizer)
    if find:
        return suggest(described, mesh_shape.size, chip, memory)
    return lay_out(described, mesh_shape, layout, chip, memory)


def memory_of(chip: str) -> float:
    """Bytes of memory of a device: of a chip by name, or a number of GB.

    >>> memory_of("v5e"), memory_of("24")
    (16000000000.0, 24000000000.0)
    """
    if chip in CHIPS:
        return CHIPS[chip].memory
    try:
        size = float(chip)
    except ValueError:
        raise ValueError(unknown("chip", chip, [*CHIPS, "a number of GB"])) from None
    if not size > 0:
        raise ValueError(f"chip={chip!r}, expected a number of GB above 0")
    return size * GB


def to_text(planned: Plan) -> str:
    """Writes a plan as a table."""
    s = planned.sizes
    header = ("weights", "each", "on a device", "slots", "gradients")
    rows = [header, *map(_row, planned.groups)]
    totals = [_bytes(planned.of_weights(k)) for k in ("weights", "slots", "gradients")]
    rows.append(("all weights", "", *totals))
    return "\n".join(
        [
            f"{planned.model}, conditioner {planned.conditioner}, {planned.optimizer}, "
            f"on a mesh "
            f"{planned.mesh_shape or 'of 1'}: {planned.num_devices} devices",
            f"layout {planned.layout}",
            "",
            *_table(rows),
            "",
            f"kept for the backward pass, {s.batch_size} x {s.inputs_length}/"
            f"{s.targets_length} tokens{', rematerialised' * s.rematerialize}",
            *_figures(planned.activations),
            "",
            "held besides weights and slots, when that is most",
            *_figures(planned.moments, total=None),
            "",
            f"kept by decoding, {s.batch_size} x {s.beam_size} beams",
            *_figures(planned.cache),
            "",
            "sent by a device in a training step",
            *_figures(
                {
                    f"{r.name}: {r.count} over {' and '.join(r.over)}": r.bytes
                    for r in planned.all_reduces
                }
            ),
            "",
            *verdict(planned),
            *(f"note: {note}" for note in planned.notes),
        ]
    )


def verdict(planned: Plan) -> list[str]:
    """Says in two lines whether a plan fits."""
    lines = []
    for name in ("training", "decoding"):
        held = getattr(planned, name)
        share = f"{held / planned.memory:.0%} of {_bytes(planned.memory)}"
        fits = "fits" if held <= planned.memory else "does not fit"
        lines.append(
            f"{name}: {_bytes(held)} a device, {share} ({planned.chip}): {fits}"
        )
    return lines


def _row(group: Group) -> tuple[str, ...]:
    parts = zip(group.dims, group.shape, group.split_over, strict=True)
    dims = ", ".join(f"{d}={n}" + (f"/{over}" if over else "") for d, n, over in parts)
    held = (group.weights, group.slots, group.gradients)
    count = f"{group.count} x " if group.count > 1 else ""
    return f"{count}{group.name}", dims, *map(_bytes, held)


def _bytes(number: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if number >= size:
            return f"{number / size:.2f} {unit}"
    return f"{number:.0f} B"


def _table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _figures(values, total="all"):
    rows = list(values.items())
    if total is not None:
        rows.append((total, sum(values.values())))
    width = max(len(name) for name, _ in rows)
    return [f"  {name.ljust(width)}  {_bytes(value):>9}" for name, value in rows]


def _asked(**changes):
    names = ("conditioner", "num_tasks", "batch_size", "inputs_length", "chip")
    names += ("targets_length", "beam_size", "precision", "optimizer", "rematerialize")
    given = {name: FLAGS[name].value for name in (*names, "cores_per_replica")}
    layout = {"layout": FLAGS.layout, "find": FLAGS.suggest, **changes}
    return plan(FLAGS.model, FLAGS.mesh_shape, **layout, **given)


def main(argv: list[str]) -> None:
    """Prints the plan that the flags ask for."""
    if argv[1:]:
        raise app.UsageError(f"unexpected argument {argv[1]!r}; see --help")
    try:
        planned = _asked()
        print(to_text(planned))
        if not planned.fits and not FLAGS.suggest:
            print("\n".join(_advice(_asked(find=True))))
        if FLAGS.output:
            with open(FLAGS.output, "w") as file:
                json.dump(planned.to_dict(), file, indent=2)
    except (ValueError, OSError) as error:
        raise SystemExit(f"hypertf.mesh.plan: {error}") from None


def _advice(best):
    """What to do when the plan that was asked for does not fit."""
    flag = " --rematerialize" if best.sizes.rematerialize else ""
    asked = f"--mesh_shape={best.mesh_shape} --layout={best.layout}{flag}"
    if best.fits:
        return ["", f"this fits: {asked}", *verdict(best)]
    start = f"nothing fits on {best.num_devices} such devices; the least is held with"
    return ["", f"{start} {asked}", *verdict(best)]


if __name__ == "__main__":
    flags.DEFINE_string("model", None, "Name of a T5, such as t5-11b.", required=True)
    flags.DEFINE_string("mesh_shape", None, "Such as batch:8,model:32.", required=True)
    flags.DEFINE_string("layout", DEFAULT_LAYOUT, "Such as batch:batch,d_ff:model.")
    flags.DEFINE_string("conditioner", "none", "Name of a method.")
    flags.DEFINE_integer("num_tasks", 8, "Tasks of the conditioner.", lower_bound=1)
    flags.DEFINE_integer("batch_size", 128, "Examples of all devices.", lower_bound=1)
    flags.DEFINE_integer("inputs_length", 512, "Tokens of an input.", lower_bound=1)
    flags.DEFINE_integer("targets_length", 32, "Tokens of a target.", lower_bound=1)
    flags.DEFINE_integer("beam_size", 1, "Beams of decoding.", lower_bound=1)
    flags.DEFINE_enum("precision", "mixed_bfloat16", PRECISIONS, "Types of numbers.")
    flags.DEFINE_enum("optimizer", "adafactor", list(SLOTS), "Whose slots are held.")
    flags.DEFINE_boolean("rematerialize", False, "Compute blocks again.")
    flags.DEFINE_string("chip", "v3", f"One of {', '.join(CHIPS)}, or GB of memory.")
    flags.DEFINE_integer("cores_per_replica", 1, "Of a mesh named as v3-256 or 8x16.")
    flags.DEFINE_boolean("suggest", False, "Look for the best mesh of that size.")
    flags.DEFINE_string("output", None, "File for the figures, JSON.")
    app.run(main)
