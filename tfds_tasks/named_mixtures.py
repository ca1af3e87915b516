"""Mixtures by name: those of the papers, lists of tasks, users' TOML files."""

import dataclasses
import math
from typing import Any

from tfds_tasks.mixtures import Mixture
from tfds_tasks.own import toml_file
from tfds_tasks.own.declaration import Declaration
from tfds_tasks.own.tasks import make_task
from tfds_tasks.rates import Rates
from tfds_tasks.registry import all_names, all_tasks, get_task, task_names, unknown
from tfds_tasks.style import Style
from tfds_tasks.task import Task

# {TOML file: {task: its declaration}}, as JSON can hold it.
Declared = dict[str, dict[str, dict[str, Any]]]
SUM_NLI = ("xsum", "cnn_dailymail", "wiki_lingua", "glue/mnli", "art", "anli")


def mixture_names() -> dict[str, tuple[str, ...]]:
    """Returns all named mixtures: {name: tasks in the order of their ids}."""
    members = {}
    for task in sorted(all_tasks(), key=_place):
        if task.mixture is not None:
            members[task.mixture] = (*members.get(task.mixture, ()), task.name)
    en_mix = members["glue"] + members["super_glue"]
    return {"en_mix": en_mix, **members, "sum_nli": SUM_NLI}


def _place(task: Task) -> float:
    return math.inf if task.place is None else task.place


def get_mixture(
    name: str,
    rates: str = "proportional",
    scale: float = 1.0,
    cap: float | None = None,
    temperature: float = 1.0,
    *,
    declared: Declared | None = None,
    data_dir: str | None = None,
    **style: object,
) -> Mixture:
    """Returns the mixture of a name, or of several names listed with commas.

    Args:
        name: some of `mixture_names()`, of tasks, and of TOML files that declare tasks:
            "glue", "glue/rte,glue/mrpc", "glue,mine.toml".
        rates, scale, cap, temperature: how often each is drawn; see `Rates`.
        declared: what TOML files say, as `declarations` gave it; absent ones are read.
        data_dir: folder of the TFDS data, where a TOML file reads such data.
        **style: how the tasks are written; see `Style`.

    >>> get_mixture("glue/rte,glue/mrpc", temperature=2).num_tasks
    2
    """
    declared = declarations(name, data_dir) if declared is None else declared
    tasks = []
    for part in _parts(name):
        if part in declared:
            values = declared[part].values()
            own = [make_task(Declaration.from_dict(v)) for v in values]
            tasks += [dataclasses.replace(t, style=Style(**style)) for t in own]
        else:
            tasks += [get_task(task, **style) for task in _members(part, name)]
    names = [task.name for task in tasks]
    doubled = {task for task in names if names.count(task) > 1}
    if doubled:
        raise ValueError(f"mixture {name!r} lists {', '.join(doubled)} more than once")
    return Mixture(name, tuple(tasks), Rates(rates, scale, cap, temperature))


def declarations(name: str, data_dir: str | None = None) -> Declared:
    """Reads the TOML files that a mixture's name has in it, as JSON can hold them.

    >>> declarations("glue/rte,nano")
    {}
    """
    files = [part for part in _parts(name) if part.endswith(".toml")]
    taken = mixture_names()
    return {
        path: {task: d.to_dict() for task, d in declared.items()}
        for path in files
        for declared in [toml_file.read(path, data_dir, taken)]
    }


def identities(declared: Declared) -> dict[str, tuple]:
    """Returns what may not change within a run: {task: of its rows, and its rate}."""
    return {
        task: Declaration.from_dict(values).identity
        for tasks in declared.values()
        for task, values in tasks.items()
    }


def _parts(name: str) -> list[str]:
    return [part.strip() for part in name.split(",")]


def _members(part: str, name: str) -> tuple[str, ...]:
    named = mixture_names()
    if part not in named and part not in all_names():
        kind = "mixture" if part == name else "task"
        raise ValueError(unknown(kind, part, [*named, *task_names()]))
    return named.get(part, (part,))
