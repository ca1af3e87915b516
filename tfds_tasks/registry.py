"""All tasks by name."""

import dataclasses
import difflib
import re

from tfds_tasks.style import Style

_TASKS = {}
_ALIASES = {}


def register(task, aliases=()):
    """Adds a task; aliases are its names elsewhere, such as SeqIO's."""
    for name in (task.name, *aliases):
        if name in _TASKS or name in _ALIASES:
            raise ValueError(f"task {name!r} is registered already")
    _TASKS[task.name] = task
    _ALIASES.update(dict.fromkeys(aliases, task.name))
    return task


def task_names():
    """All names, in the order of declaration."""
    _load()
    return tuple(_TASKS)


def get_task(name, **style):
    """The task of that name, written in a style (fields of `Style`).

    >>> get_task("glue/rte", labels="digits").to_text(
    ...     {"sentence1": "It rains.", "sentence2": "Water falls.", "label": 0})
    [{'inputs': 'rte sentence1: It rains. sentence2: Water falls.', 'targets': '0'}]
    """
    _load()
    task = _TASKS.get(_ALIASES.get(name, name))
    if task is None:
        raise ValueError(unknown("task", name, [*_TASKS, *_ALIASES]))
    return dataclasses.replace(task, style=Style(**style)) if style else task


def unknown(kind, name, known):
    """What to say of a name that is not known: the nearest ones that are."""
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    ends = [k for k in known if str(name) in re.split("[/_]", k)]
    nearest = list(dict.fromkeys([*ends[:3], *near]))
    hint = f"nearest: {', '.join(nearest)}" if nearest else f"known: {', '.join(known)}"
    return f"unknown {kind} {name!r}; {hint}"


def _load():
    """Imports the declarations, each of which registers its tasks."""
    from tfds_tasks import declarations  # noqa: F401
