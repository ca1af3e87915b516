"""A training run from its configuration to its last step."""

import sys
import time
from types import ModuleType

import tensorflow as tf
from absl import logging

import hypertf
from experiments.runs import (
    chunks,
    components,
    config_file,
    linear_head,
    on_mesh,
    transfer,
)
from experiments.runs.config import Config
from hypertf import training
from hypertf.mesh.step import MeshStep
from hypertf.training import Loop, RunFolder, TrainStep
from tfds_tasks import Mixture, Vocabulary, modules
from tfds_tasks.packed_batches import Fill

OF_SPEED = ("examples_per_second", "examples_per_step")
SECONDS_BETWEEN_LINES = 30  # where there is no terminal for a progress bar


def train_run(
    config: Config,
    model_dir: str,
    data_dir: str | None = None,
    strategy: str = "auto",
    tpu: str | None = None,
    profile: bool = False,
    asked: on_mesh.Asked | None = None,
) -> int:
    """Runs a configuration to its last step; returns the step reached."""
    began = time.time()
    mesh = None
    if asked is not None:
        check_unpacked(config)
        linear_head.check_no_mesh(config)
        asked.check(config)
        mesh, strategy = asked.start(), "one_device"
    strategy = training.make_strategy(strategy, tpu)
    if config.batch_unit == "rows":
        training.check_batch_size(strategy, config.batch_size, config.microbatches)
    modules.import_modules(config.module_import)
    config = components.with_declarations(config, data_dir)
    if config.head == "linear":
        config = linear_head.with_encoder(config)
    vocabulary = components.make_vocabulary(config)
    mixture = components.make_mixture(config)
    vocabulary.check_fits(components.t5_config(config).vocab_size)
    check_data(components.training_mixture(config, mixture), data_dir)
    mixture = chunks.by_chunks(config, mixture, vocabulary, data_dir)
    trained = components.training_mixture(config, mixture)
    fill = components.measure_fill(config, trained, vocabulary, data_dir)
    parts = strategy.num_replicas_in_sync * config.microbatches
    config = components.with_rows(config, fill, parts)
    config = components.with_steps(config, trained, data_dir, fill)
    components.check_init(config)
    transfer.check(config, mixture, on_mesh=asked is not None)
    if config.head == "linear":
        linear_head.check(config, mixture)
    check_model(config, mixture, asked)
    chief = training.is_chief(strategy) if mesh is None else on_mesh.is_chief()
    folder = RunFolder(model_dir, config.keep, writes=chief)
    if chief:
        folder.lock()
    try:
        if chief:
            config_file.claim(folder, config)
            announce(config, mixture, folder, fill)
            if asked is not None:
                print(f"splitting it over {asked}", flush=True)
        # What is split over a mesh is never made whole.
        scope = strategy.scope() if mesh is None else hypertf.t5.Unallocated()
        with scope:
            model = makers(config).make_model(config, mixture)
        with strategy.scope():
            optimizer = components.make_optimizer(config)
        made = config, model, optimizer, mixture
        if asked is None:
            step = makers(config).make_train_step(*made, strategy)
        else:
            step = asked.make_step(*made, mesh, values=not folder.steps())
        start = begin(step, folder, config, mixture, vocabulary, data_dir)
        if not step.all_processes_have(start):
            raise ValueError(
                f"model_dir={model_dir}: this process begins at step {start}, another "
                "one elsewhere; expected a folder that all processes share"
            )
        loop = Loop(
            step,
            makers(config).make_dataset(config, mixture, vocabulary, data_dir),
            folder,
            steps=config.steps,
            batch_size=config.rows if config.packing == "off" else None,
            steps_per_loop=config.steps_per_loop,
            checkpoint_every=config.checkpoint_every,
            task_names=mixture.identities,
            on_log=Followers(folder, config.steps) if chief else _ignore,
            profile=profile,
        )
        logging.info("ready after %.1f s", time.time() - began)
        reached = loop.run(start)
    finally:
        folder.unlock()
    if mesh is not None:
        on_mesh.meet(mesh)  # or a process that is done first would hang up
    if profile:
        print(f"waiting for data: {loop.share_waited:.1%} of the time")
    if chief:
        print(f"step {reached} of {config.steps}, {folder.prefix(reached)}", flush=True)
    return reached


def makers(config: Config) -> ModuleType:
    """Returns the module that makes model, step and data of a run."""
    return linear_head if config.head == "linear" else components


def _ignore(record):
    """Of several processes one tells."""


def check_data(mixture: Mixture, data_dir: str | None) -> None:
    """Complains of data that is missing."""
    shares = mixture.probabilities("train", data_dir)
    for task in mixture.tasks:
        if shares[task.name]:
            task.num_rows("train", data_dir)


def check_model(
    config: Config, mixture: Mixture, asked: on_mesh.Asked | None = None
) -> None:
    """Says what is wrong with the conditioner's options before a folder is claimed.

    And with the mesh that is asked for.
    """
    with hypertf.t5.Unallocated():
        model = makers(config).make_model(config, mixture)
    components.check_rates(config, model)
    check_packs(config, model)
    if asked is not None:
        asked.check_model(config, model)


def check_unpacked(config: Config, where: str = "on a mesh") -> None:
    """Refuses packed rows, and batches by another count, where there are none."""
    for name, expected in (("packing", "off"), ("batch_unit", "rows")):
        value = getattr(config, name)
        if value != expected:
            raise ValueError(f"{name}={value!r}: expected {expected!r} {where}")


def check_packs(config: Config, model: hypertf.T5) -> None:
    """Refuses a way of packing that the method does not know."""
    if config.packing == "off" or model.conditioner is None:
        return
    if config.packing not in model.conditioner.packs:
        raise ValueError(model.conditioner.packs_in_words(config.packing))


def batch_in_words(config: Config, fill: Fill | None) -> str:
    """Says what a step takes.

    >>> batch_in_words(Config(batch_size=16), None)
    '16 examples'
    """
    if fill is None:
        return f"{config.rows:,} examples"
    if config.packing == "off":
        tokens = config.rows * fill.inputs / fill.rows
        return f"{config.rows:,} examples, about {tokens:,.0f} tokens"
    examples = config.rows * fill.examples_per_row
    return f"{config.rows:,} rows, about {examples:,.0f} examples ({fill})"


def announce(
    config: Config, mixture: Mixture, folder: RunFolder, fill: Fill | None = None
) -> None:
    """Says what is trained, where it is written, and what is not by default."""
    method = "" if config.conditioner == "none" else f" with {config.conditioner}"
    tasks = "1 task" if mixture.num_tasks == 1 else f"{mixture.num_tasks} tasks"
    print(
        f"training {config.model}{method} on {config.mixture} ({tasks}): "
        f"{config.steps:,} steps of {batch_in_words(config, fill)}\n"
        f"writing to {folder.path}; all settings are in {folder.config_file}"
    )
    verbose = logging.get_verbosity() >= logging.DEBUG
    show = config_file.shown if verbose else config_file.shown_briefly
    print(show(config), flush=True)


def begin(
    step: TrainStep | MeshStep,
    folder: RunFolder,
    config: Config,
    mixture: Mixture,
    vocabulary: Vocabulary,
    data_dir: str | None = None,
) -> int:
    """Loads the newest checkpoint, else the initial weights; returns the step."""
    start = step.restore(folder)
    if start:
        print(f"going on from {folder.prefix(start)}", flush=True)
        return start
    if config.init is not None:
        if transfer.is_needed(config, mixture):
            given = config, mixture, vocabulary, data_dir
            print(transfer.load(step.model, *given), flush=True)
        else:
            print(step.load(config.init), flush=True)
    linear = config.head == "linear"
    count = linear_head.parameters if linear else hypertf.analysis.parameters
    counted = count(step.model)
    logging.debug("\n%s", counted)
    more = f", {counted.times:.4g} times the plain T5's" if counted.added else ""
    trained = "all" if counted.trained == counted.total else f"{counted.trained:,}"
    print(f"{counted.total:,} parameters{more}; {trained} trained", flush=True)
    return 0


class Followers:
    """Takes the records of the loop to TensorBoard, and to where no bar is seen."""

    def __init__(self, folder: RunFolder, steps: int) -> None:
        self._writer = tf.summary.create_file_writer(folder.training_summaries)
        self._steps, self._told = steps, time.monotonic()

    def __call__(self, record: dict) -> None:
        """Follows one record."""
        step = record["step"]
        with self._writer.as_default():
            for name in ("loss", *OF_SPEED, "learning_rate"):
                tf.summary.scalar(name, record[name], step)
            for task, loss in record["task_loss"].items():
                tf.summary.scalar(f"loss/{task}", loss, step)
        self._writer.flush()
        self._tell(record)

    def _tell(self, record):
        if sys.stderr.isatty():  # the bar has it
            return
        recently = time.monotonic() - self._told < SECONDS_BETWEEN_LINES
        if recently or record["step"] == self._steps:
            return
        self._told = time.monotonic()
        left = (self._steps - record["step"]) * record["seconds_per_step"]
        print(
            f"step {record['step']:,} of {self._steps:,}, loss {record['loss']:.3f}, "
            f"about {duration(left)} left",
            flush=True,
        )


def duration(seconds: float) -> str:
    """Writes a time for people.

    >>> duration(40), duration(400), duration(40_000)
    ('40 seconds', '7 minutes', '11.1 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
