"""Weights with a row for each task: what new and untrained tasks start from."""

from collections.abc import Sequence

import numpy as np

from hypertf.conditioning.method import is_task_table
from hypertf.t5 import T5
from hypertf.t5.weights import named_weights

MEAN = "mean"
Row = int | str | None  # a row of the other model's table, "mean", or as it is


def task_tables(model: T5) -> dict[str, object]:
    """Returns the weights that have a row for each task, by name."""
    weights = named_weights(model)
    return {name: w for name, w in weights.items() if is_task_table(w)}


def fill_untrained(model: T5, untrained: Sequence[int]) -> list[str]:
    """Gives tasks that were never trained the mean of the others' rows.

    Returns the names of the tables, [] where there is nothing to do.
    """
    if not len(untrained):
        return []
    tables = task_tables(model)
    for name, weight in tables.items():
        value = np.array(weight)
        trained = np.setdiff1d(np.arange(len(value)), untrained)
        if not len(trained):
            raise ValueError(f"{name}: no task was trained; expected one at least")
        value[list(untrained)] = value[trained].mean(axis=0)
        weight.assign(value)
    return list(tables)


def copy_tasks(
    model: T5, other: T5, rows: Sequence[Row], trained: Sequence[int] | None = None
) -> list[str]:
    """Fills a model from one of the same method that knows other tasks.

    Args:
        model: takes all weights; of the tables each task its own row.
        other: the model that they are taken from.
        rows: for each task of `model` the other's row, "mean", or None for as it is.
        trained: rows of the other that a mean is over; all by default.

    Returns:
        The names of the tables.
    """
    into, of = named_weights(model), named_weights(other)
    _check_alike(into, of)
    tables = []
    for name, weight in into.items():
        value = np.array(of[name])
        if is_task_table(weight):
            tables.append(name)
            value = _rows(np.array(weight), value, rows, trained)
        weight.assign(value)
    return tables


def _rows(own, value, rows, trained):
    mean = value if trained is None else value[list(trained)]
    for task, row in enumerate(rows):
        if row is not None:
            own[task] = mean.mean(axis=0) if row == MEAN else value[row]
    return own


def _check_alike(into, of):
    wrong = sorted(into.keys() ^ of.keys())
    wrong += [
        name
        for name in into.keys() & of.keys()
        if into[name].shape[is_task_table(into[name]) :]
        != of[name].shape[is_task_table(of[name]) :]
    ]
    if wrong:
        raise ValueError(
            f"{len(wrong)} weights are not those of the other run: "
            f"{', '.join(wrong[:3])}{', ...' if len(wrong) > 3 else ''}; expected the "
            "same model, method and options"
        )
