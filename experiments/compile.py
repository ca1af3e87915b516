"""Compiles what a run would do on a TPU, on this machine, by Google's own compiler.

    python -m experiments.compile --config=nano --topology=v5e:2x2
    python -m experiments.compile --model=t5-small --conditioner=hyperprompt-global \\
        --precision=mixed_bfloat16 --batch_size=128 --topology=v5e:4x4
    python -m experiments.compile --model=t5-small --parts= --mesh_shape=model:4

The training step, greedy or beam decoding and scoring of the configuration, each for
one chip with its share of the batch; the training step also data parallel over all
chips of the topology. Prints memory a chip, FLOPs, bytes accessed, the least time that
the chip needs for them and the time that compiling took; --output keeps them as JSON.
Needs no TPU, but the extra `tpu-compiler`.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Sequence

import tensorflow as tf
from absl import flags

from experiments.configs import Config, get_config
from experiments.reports.tables import aligned
from experiments.runs import compiled_on_mesh, components, on_mesh, program
from experiments.runs import flags as run_flags
from experiments.runs.on_mesh import Asked
from experiments.runs.training_run import check_unpacked
from hypertf import tpu
from hypertf.mesh.partitioned import PartitionedStep
from hypertf.t5.inputs import DECODER_TOKENS, ENCODER_TOKENS, TARGETS, TASK_IDS
from hypertf.training import TrainStep

PARTS = ("train", "decode", "score", "data_parallel")
COLUMNS = ("part", "chips", "memory", "of it temporary", "fits", "GFLOP", "GB accessed")
COLUMNS += ("least ms", "collectives MB", "compiled in s")


def compile(
    config: Config | str,
    *,
    topology: str = "v5e:2x2",
    parts: Sequence[str] = PARTS,
    choices: int = 2,
    output: str | os.PathLike | None = None,
    mesh_shape: str | None = None,
    layout: str | None = None,
    cores_per_replica: int | None = None,
) -> dict[str, tpu.Compiled]:
    """Compiles parts of a configuration for a TPU; prints and returns the figures.

    ```python
    from experiments.compile import compile

    step = compile("nano", topology="v5e:2x2", parts=["train"])["train"]
    print(step.accessed, step.temporary, step.fits)
    ```

    Args:
        config: a `Config`, or the name of one.
        topology: chips, such as "v5e:4x4" or "v4:2x2x2".
        parts: some of `PARTS`.
        choices: labels that scoring compares.
        output: file for the figures, as JSON.
        mesh_shape: a mesh such as "model:4": the training step is also compiled split
            over as many chips, as part "mesh", and the plan's figures stand beside.
        layout: what is split over it, as in `experiments.train.train`.
        cores_per_replica: over how many chips the model is split.
    """
    config = get_config(config) if isinstance(config, str) else config
    chip, chips = tpu.parse_topology(topology)
    check_unpacked(config, "where a step is compiled")
    asked = on_mesh.asked(mesh_shape, layout, cores_per_replica)
    if asked is not None:
        compiled_on_mesh.check(asked, config, topology)
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"parts: {part!r}, expected some of {', '.join(PARTS)}")
    if config.batch_size % (chips * config.microbatches):
        raise ValueError(
            f"batch_size={config.batch_size}, expected a multiple of the {chips} chips "
            f"of {topology}, times microbatches={config.microbatches}"
        )
    print(
        f"compiling {config.model} with {config.conditioner} for {topology}: "
        f"{config.batch_size // chips} examples a chip of {config.inputs_length} and "
        f"{config.targets_length} tokens, {config.precision}; a few minutes each",
        flush=True,
    )
    made = Parts(config, choices)
    if asked is not None:
        asked.check_model(config, made.model)
    compiled = {}
    for part in parts:
        whole = part == "data_parallel"
        rows = config.batch_size if whole else config.batch_size // chips
        lowered = made.lowered("train" if whole else part, rows)
        compiled[part] = tpu.compile_hlo(lowered, topology, chips if whole else 1)
        print(f"{part}: {compiled[part].seconds:.0f} s", flush=True)
    if asked is not None:
        compiled["mesh"] = made.on_mesh(asked, topology)
    print(table(compiled))
    if asked is not None:
        figures = compiled_on_mesh.beside_plan(
            asked, config, made.model, compiled["mesh"]
        )
        print(compiled_on_mesh.table(figures))
    print(f"{chip.name}: {chip.memory / 1e9:g} GB, {chip.bandwidth / 1e9:g} GB/s")
    if output is not None:
        write(components.expand(output), config, topology, compiled)
    return compiled


class Parts:
    """The functions of a configuration that a TPU runs."""

    def __init__(self, config: Config, choices: int) -> None:
        self.config, self.choices = config, choices
        self.mixture = components.make_mixture(config)
        self.model = components.make_model(config, self.mixture)

    def lowered(self, part: str, rows: int) -> tpu.Program:
        """Lowers a part for a batch of that many rows."""
        return getattr(self, f"_{part}")(rows)

    def lowered_on_mesh(self, asked: Asked) -> tuple[TrainStep, tpu.Program]:
        """Lowers the training step of the whole batch, to be split over a mesh."""
        split = {"layout": asked.layout, "mesh": asked.shape}
        step = self._make_step(functools.partial(PartitionedStep, **split))
        return step, self._lowered_step(step, self.config.batch_size)

    def on_mesh(self, asked: Asked, topology: str) -> tpu.Compiled:
        """Compiles the training step of the whole batch, split over a mesh."""
        step, program = self.lowered_on_mesh(asked)
        return compiled_on_mesh.compile_on_mesh(asked, step, program, topology)

    @functools.cached_property
    def train_step(self) -> TrainStep:
        """The training step, on the model and an optimizer."""
        return self._make_step(TrainStep)

    def _make_step(self, kind):
        return components.make_train_step(
            self.config,
            self.model,
            components.make_optimizer(self.config),
            self.mixture,
            tf.distribute.get_strategy(),
            jit_compile=True,
            kind=kind,
        )

    def _train(self, rows):
        return self._lowered_step(self.train_step, rows)

    def _lowered_step(self, step, rows):
        batch = self._batch(rows, (DECODER_TOKENS, TARGETS))
        return tpu.lower(step.compiled, batch, tf.constant(0, tf.int64))

    def _decode(self, rows):
        config = self.config
        beams = {"beam_size": config.beam_size} if config.decoding == "beam" else {}
        return self._lowered(
            lambda batch: self.model.generate(batch, config.targets_length, **beams),
            self._batch(rows, ()),
        )

    def _score(self, rows):
        batch = self._batch(rows, ())
        shape = [rows, self.choices, self.config.targets_length]
        return self._lowered(self.model.score, {**batch, TARGETS: _ones(shape)})

    def _lowered(self, call: Callable, batch: dict[str, tf.Tensor]) -> tpu.Program:
        return tpu.lower(tf.function(call, jit_compile=True, autograph=False), batch)

    def _batch(self, rows, texts):
        config = self.config
        batch = {ENCODER_TOKENS: _ones([rows, config.inputs_length])}
        batch |= {name: _ones([rows, config.targets_length]) for name in texts}
        return {**batch, TASK_IDS: tf.zeros([rows], tf.int32)}


def _ones(shape):
    return tf.ones(shape, tf.int32)


def table(compiled: dict[str, tpu.Compiled]) -> str:
    """Writes the figures as a table."""
    rows = [
        (
            part,
            str(c.chips),
            f"{c.memory / 1e9:.3f} GB",
            f"{c.temporary / 1e9:.3f} GB",
            "yes" if c.fits else "NO",
            f"{c.flops / 1e9:,.1f}",
            f"{c.accessed / 1e9:,.2f}",
            f"{1e3 * c.roofline:.2f}",
            f"{sum(size for _, size in c.collectives.values()) / 1e6:,.1f}",
            f"{c.seconds:.0f}",
        )
        for part, c in compiled.items()
    ]
    return "\n" + aligned(COLUMNS, rows)


def write(
    path: str, config: Config, topology: str, compiled: dict[str, tpu.Compiled]
) -> None:
    """Writes the figures as JSON."""
    figures = {}
    for part, c in compiled.items():
        values = {k: v for k, v in dataclasses.asdict(c).items() if k != "text"}
        own = {"memory": c.memory, "fits": c.fits, "roofline_seconds": c.roofline}
        figures[part] = {**values, **own}
    settings = json.loads(config.to_json())
    content = {"topology": topology, "config": settings, "parts": figures}
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(content, indent=1) + "\n")
    print(f"written to {path}", flush=True)


def _define(values):
    run_flags.define_config(values)
    run_flags.define_mesh(values)
    options = {"flag_values": values}
    flags.DEFINE_string("topology", "v5e:2x2", "Chips, such as v5e:4x4.", **options)
    flags.DEFINE_list("parts", list(PARTS), "What to compile.", **options)
    flags.DEFINE_integer(
        "choices", 2, "Labels that scoring compares.", lower_bound=1, **options
    )
    flags.DEFINE_string("output", None, "File for the figures, JSON.", **options)


def _call(values):
    names = ("topology", "parts", "choices", "output", *run_flags.MESH)
    compile(run_flags.config_of(values), **program.given(values, *names))


if __name__ == "__main__":
    program.run("experiments.compile", _define, _call)
