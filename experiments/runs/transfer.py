"""A run's weights for other tasks: old tasks keep their vectors, new ones start near.

`--init=RUN --init_tasks=new:old,...` says where the vector of a new task starts: that
of an old task by name, "nearest" (of the old task as which the new one's first rows
have the lowest loss) or "mean" (of all that were trained).
"""

import os
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

import hypertf
from experiments.runs import components, config_file
from experiments.runs.config import Config
from hypertf.conditioning import task_tables
from hypertf.conditioning.task_tables import MEAN, copy_tasks
from hypertf.t5.inputs import OF_ENCODER, TARGETS, only
from hypertf.types import Batch
from tfds_tasks import Mixture, Vocabulary

NEAREST = "nearest"
ROWS = 16  # of a new task, by which the nearest is found


def is_needed(config: Config, mixture: Mixture) -> bool:
    """Whether `config.init` is a run of this method with other tasks, or ids."""
    old = config_of(config.init)
    same_method = old is not None and old.conditioner == config.conditioner != "none"
    if not same_method:
        if config.init_tasks:
            raise ValueError(
                f"init_tasks={dict(config.init_tasks)}: init={config.init!r}, expected "
                f"a run with conditioner={config.conditioner!r}"
            )
        return False
    identities = components.make_mixture(old).identities
    return bool(config.init_tasks) or identities != mixture.identities


def check(config: Config, mixture: Mixture, on_mesh: bool = False) -> None:
    """Says what is wrong with where new tasks start, before anything is made."""
    if config.init is None:
        if config.init_tasks:
            raise ValueError(
                f"init_tasks={dict(config.init_tasks)}: expected none without init"
            )
        _check_trained(config, mixture, ())
        return
    if not is_needed(config, mixture):
        old = config_of(config.init)
        known = () if old is None else components.make_mixture(old).identities
        _check_trained(config, mixture, known)
        return
    if on_mesh:
        raise ValueError(
            f"init={config.init!r} is a run of other tasks: expected no mesh; start it "
            "on one device, for one step"
        )
    old = components.make_mixture(config_of(config.init))
    sources(config.init_tasks, mixture, old)
    _check_trained(config, mixture, (*old.identities, *config.init_tasks))


def _check_trained(config, mixture, known):
    """A task that nothing trains, and that starts from nothing, would be noise."""
    if config.train_tasks is None:
        return
    drawn = components.training_mixture(config, mixture)
    left = set(mixture.identities) - {task.identity for task in drawn.tasks}
    left -= {*known, *untrained(mixture)}
    if left:
        raise ValueError(
            f"train_tasks={config.train_tasks!r}: {', '.join(sorted(left))} would be "
            "neither trained nor taken from init; expected them in train_tasks, or in "
            "init_tasks"
        )


def sources(
    init_tasks: Mapping[str, str], mixture: Mixture, old: Mixture
) -> dict[str, str | None]:
    """Says where each task's row starts: {task: old task, "mean", "nearest", None}."""
    for task, source in init_tasks.items():
        if task not in mixture.identities:
            raise ValueError(
                f"init_tasks: {task!r}, expected a task of mixture {mixture.name}: "
                f"{', '.join(mixture.identities)}"
            )
        if source not in (NEAREST, MEAN, *old.identities):
            raise ValueError(
                f"init_tasks: {task}:{source}, expected {NEAREST}, {MEAN} or a task of "
                f"the run: {', '.join(old.identities)}"
            )
    return {
        task: init_tasks.get(task, task if task in old.identities else None)
        for task in mixture.identities
    }


def load(
    model: hypertf.T5,
    config: Config,
    mixture: Mixture,
    vocabulary: Vocabulary,
    data_dir: str | None = None,
) -> str:
    """Fills a model from `config.init`; says what it did with each task's row."""
    old_config = config_of(config.init)
    old_mixture = components.make_mixture(old_config)
    alike = {name: getattr(config, name) for name in ("precision", "loop_layers")}
    other = components.make_model(old_config.replace(**alike), old_mixture)
    report = hypertf.checkpoints.load(other, config.init)
    keras.utils.set_random_seed(config.seed)
    never = untrained(old_mixture)
    known = [name for name in old_mixture.identities if name not in never]
    rows, lines = [], [str(report)]
    for task, source in sources(config.init_tasks, mixture, old_mixture).items():
        said = ""
        if source == NEAREST:
            batch = _first_rows(task, config, mixture, vocabulary, data_dir)
            losses = losses_as(other, old_mixture, known, batch)
            source = min(losses, key=losses.get)
            said = f", the lowest loss ({losses[source]:.3f}) on {ROWS} rows"
        rows.append(_row(source, old_mixture))
        lines.append(f"  {task}: {_in_words(source, task)}{said}")
    dropped = [t for t in old_mixture.identities if t not in mixture.identities]
    lines += [f"  {task}: left out, as the mixture is without it" for task in dropped]
    trained = [old_mixture.task_id(name) for name in known]
    names = copy_tasks(model, other, rows, trained)
    lines.insert(1, f"tables with a row for each task: {', '.join(names) or 'none'}")
    return "\n".join(lines)


def losses_as(
    other: hypertf.T5, old: Mixture, known: Sequence[str], batch: Batch
) -> dict[str, float]:
    """Computes the loss of a batch as each of the known old tasks: {old: loss}."""
    inputs = {**only(batch, OF_ENCODER), TARGETS: batch[TARGETS]}
    losses = {}
    for name in known:
        ids = tf.fill([batch[TARGETS].shape[0]], old.task_id(name))
        losses[name] = -float(np.mean(other.score({**inputs, "task_ids": ids})))
    return losses


def _first_rows(task, config, mixture, vocabulary, data_dir):
    """A batch of a new task's rows as training has them."""
    members = [
        t.name for t in mixture.tasks if t.identity == task and "train" in t.parts
    ]
    data = mixture.only(members).dataset(
        "train",
        vocabulary=vocabulary,
        batch_size=ROWS,
        inputs_length=config.inputs_length,
        targets_length=config.targets_length,
        seed=config.data_seed,
        data_dir=data_dir,
        check_lengths=False,
    )
    (batch,) = data.take(1)
    return batch


def untrained(mixture: Mixture) -> list[str]:
    """Lists the identities that no task trains, such as sets of another domain."""
    trained = {t.identity for t in mixture.tasks if "train" in t.parts and t.rate != 0}
    return [name for name in mixture.identities if name not in trained]


def untrained_in_words(names: Sequence[str]) -> str:
    """Says of untrained tasks which vectors they get.

    >>> untrained_in_words(["mrqa/drop"])
    'not trained: mrqa/drop; the mean of the trained tasks stands for their vectors'
    """
    listed = ", ".join(names)
    return (
        f"not trained: {listed}; the mean of the trained tasks stands for their vectors"
    )


def fill_untrained(model: hypertf.T5, mixture: Mixture) -> None:
    """Gives untrained tasks the mean of the trained ones' vectors, and says so."""
    names = untrained(mixture)
    if names and task_tables.task_tables(model):
        print(untrained_in_words(names), flush=True)
        ids = [mixture.task_id(name) for name in names]
        task_tables.fill_untrained(model, ids)


def _row(source, old):
    if source in (None, MEAN):
        return source
    return old.task_id(source)


def _in_words(source, task):
    if source is None:
        return "new, starts fresh"
    if source == MEAN:
        return "starts as the mean of the run's trained tasks"
    return "kept" if source == task else f"starts as {source}"


def config_of(init: str | None) -> Config | None:
    """Reads the configuration of the run that `init` is, None if it is none."""
    if init is None:
        return None
    folder = init if tf.io.gfile.isdir(init) else os.path.dirname(init)
    try:
        return config_file.read(folder)
    except (FileNotFoundError, ValueError):  # weights of another program
        return None
