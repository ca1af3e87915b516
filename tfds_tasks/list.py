"""Prints all tasks and mixtures.

python -m tfds_tasks.list [--data_dir=...] [--only=super_glue] [--module_import=...]
"""

from collections.abc import Iterable

from absl import app, flags

from tfds_tasks import get_task, mixture_names, modules, sources, task_names
from tfds_tasks.task import Task

FLAGS = flags.FLAGS
HEADER = ("task", "source", "train examples", "metrics", "mixtures")


def size(task: Task, data_dir: str | None = None) -> str:
    """Counts training examples: as prepared, else T5's number in brackets, else -."""
    if "train" not in task.parts:
        return "evaluation"
    try:
        return f"{task.num_rows('train', data_dir):,}"
    except sources.MissingData:
        return f"({task.rate:,})" if task.rate else "-"


def row(task: Task, data_dir: str | None = None) -> tuple[str, ...]:
    """Returns the cells of a task's row in the list, as text."""
    source = task.source if isinstance(task.source, str) else ", ".join(task.source)
    metrics = ", ".join(metric.__name__ for metric in task.metrics)
    mixtures = ", ".join(mixtures_of(task.name))
    return task.name, source, size(task, data_dir), metrics or "-", mixtures


def mixtures_of(name: str) -> list[str]:
    """Lists the named mixtures that a task is part of."""
    return [mixture for mixture, tasks in mixture_names().items() if name in tasks]


def table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Writes rows under a header, in columns as wide as needed."""
    rows = [HEADER, *rows]
    widths = [max(len(r[i]) for r in rows) for i in range(len(HEADER))]
    lines = [
        "  ".join(
            cell.rjust(width) if i == 2 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(r, widths, strict=True))
        ).rstrip()
        for r in rows
    ]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def main(argv: list[str]) -> None:
    """Prints the tasks that the flags ask for."""
    if argv[1:]:
        raise app.UsageError(f"unexpected argument {argv[1]!r}; see --help")
    modules.import_modules(FLAGS.module_import)
    names = [
        name
        for name in task_names()
        if FLAGS.only in name or FLAGS.only in ", ".join(mixtures_of(name))
    ]
    rows = [row(get_task(name), FLAGS.data_dir) for name in names]
    if not rows:
        raise app.UsageError(f"--only={FLAGS.only}: no task or mixture has such a name")
    print("\n".join(table(rows)))
    print("\n(n): T5's number; the data is not prepared in this --data_dir")


if __name__ == "__main__":
    flags.DEFINE_string("data_dir", None, "Where TFDS has prepared its data.")
    flags.DEFINE_string("module_import", None, modules.HELP)
    flags.DEFINE_string("only", "", "Only tasks whose name or mixtures contain this.")
    app.run(main)
