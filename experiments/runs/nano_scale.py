"""A paper's row at nano scale: the same method on t5-nano and the nano tasks."""

import hypertf
from experiments.configs import Config, Row, get_config, runs_of
from tfds_tasks.named_mixtures import mixture_names

SIZES = hypertf.T5Config.from_name("t5-nano")
# Options that count parts of a kernel, and how many parts that of t5-nano has.
LARGEST = {"d_r": SIZES.d_ff, "d_c": SIZES.d_model, "cells": SIZES.d_ff}


def start_config(steps: int | None = None) -> Config:
    """Returns the plain run whose weights all others start from, as papers' do."""
    return _with_steps(get_config("nano"), steps)


def nano_runs(row: Row, steps: int | None = None) -> dict[str, Config]:
    """Returns the runs of a row at nano scale: {name: config}.

    A row with a run for each of its tasks has one for each nano task; together they
    take as many steps as any other row.

    >>> from experiments.configs import get_row
    >>> len(nano_runs(get_row("hypergrid_base_multi_model")))
    11
    """
    if row.starts_from and not row.takes_encoder:
        raise ValueError(
            f"scale='nano': {row.name} starts from a run of other tasks, "
            f"{row.starts_from}; expected scale='full'"
        )
    full = next(iter(runs_of(row).values()))
    config = _with_steps(get_config("nano"), steps).replace(
        conditioner=full.conditioner,
        conditioner_options=_options(full.conditioner_options),
        learning_rates=full.learning_rates,
        train_rows=full.train_rows,
        per_batch=full.per_batch,
        head=full.head,
        paper=row.name,
    )
    name = row.of or row.name
    if row.config is not None or row.of:
        return {name: config}
    tasks = mixture_names()["nano"]
    config = _with_steps(config, max(1, config.steps // len(tasks)))
    return {
        f"{name}_{task.replace('/', '_')}": config.replace(mixture=task)
        for task in tasks
    }


def _options(options):
    return {
        name: min(value, LARGEST[name]) if name in LARGEST else value
        for name, value in options.items()
    }


def _with_steps(config, steps):
    """Fewer or more steps, of which the last two fifths fall in rate as before."""
    if steps is None:
        return config
    return config.replace(
        steps=steps,
        decay_start=steps * config.decay_start // config.steps,
        checkpoint_every=max(1, steps // 2),
        steps_per_loop=min(config.steps_per_loop, max(1, steps // 2)),
    )
