"""All tasks by name."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tfds_tasks.style import Style

if TYPE_CHECKING:
    from tfds_tasks.task import Task

_TASKS: dict[str, Task] = {}
_ALIASES: dict[str, str] = {}


def register(task: Task, aliases: Iterable[str] = ()) -> Task:
    """Adds a task; aliases are its names elsewhere, such as SeqIO's."""
    aliases = tuple(aliases)
    for name in (task.name, *aliases):
        if name in _TASKS or name in _ALIASES:
            raise ValueError(f"task {name!r} is registered already")
    _TASKS[task.name] = task
    _ALIASES.update(dict.fromkeys(aliases, task.name))
    return task


def task_names() -> tuple[str, ...]:
    """Lists the names of all tasks, in the order of declaration."""
    _load()
    return tuple(_TASKS)


def all_names() -> tuple[str, ...]:
    """Lists the names of all tasks, and their names elsewhere."""
    return (*task_names(), *_ALIASES)


def all_tasks() -> tuple[Task, ...]:
    """Lists all tasks in T5's style, in the order of declaration."""
    _load()
    return tuple(_TASKS.values())


def get_task(name: str, **style: object) -> Task:
    """Returns the task of a name, written in a style (the fields of `Style`).

    >>> get_task("glue/rte", labels="digits").to_text(
    ...     {"sentence1": "It rains.", "sentence2": "Water falls.", "label": 0})
    [{'inputs': 'rte sentence1: It rains. sentence2: Water falls.', 'targets': '0'}]
    """
    _load()
    task = _TASKS.get(_ALIASES.get(name, name))
    if task is None:
        raise ValueError(unknown("task", name, all_names()))
    return dataclasses.replace(task, style=Style(**style)) if style else task


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """Says of a name that is not known which known ones are nearest."""
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    ends = [k for k in known if str(name) in re.split("[/_]", k)]
    nearest = list(dict.fromkeys([*ends[:3], *near]))
    hint = f"nearest: {', '.join(nearest)}" if nearest else f"known: {', '.join(known)}"
    return f"unknown {kind} {name!r}; {hint}"


def _load() -> None:
    """Imports the declarations, each of which registers its tasks."""
    from tfds_tasks import declarations  # noqa: F401
