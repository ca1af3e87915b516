"""GLUE and SuperGLUE averages, and the table of scores over checkpoints.

Scores are {task: {metric: value}}. A task is averaged over its metrics first, then
tasks are averaged: 8 of GLUE, where both halves of MNLI are one, and 8 of SuperGLUE.
Which tasks and metrics a benchmark counts, and under which heading and group, is part
of the tasks' declarations. A task without a metric scores {} and counts nowhere.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tfds_tasks.benchmarks import BENCHMARKS
from tfds_tasks.registry import all_tasks, unknown

Scores = Mapping[str, Mapping[str, float]]  # {task: {metric: value}}

AVERAGES = {name: f"Average {title} Score" for name, title in BENCHMARKS.items()}
AVERAGE_TASK = "average"


@dataclass(frozen=True)
class Column:
    """A metric of a task, its heading, and the group that is averaged as one."""

    task: str
    metric: str
    heading: str
    group: str


def columns(benchmark: str | None = None) -> tuple[Column, ...]:
    """Lists all known columns from left to right, or those that a benchmark averages.

    The order is that of declaration; a benchmark's average comes before its tasks.

    >>> [column.heading for column in columns("super_glue")][:3]
    ['BoolQ (accuracy)', 'CB (F1)', 'CB (accuracy)']
    """
    if benchmark is not None and benchmark not in BENCHMARKS:
        raise ValueError(unknown("benchmark", benchmark, BENCHMARKS))
    by_benchmark = {name: [] for name in BENCHMARKS}
    ordered = []
    for task in all_tasks():
        own = [
            Column(task.name, metric, heading, task.group or heading)
            for metric, heading in task.columns.items()
        ]
        if task.benchmark is None:
            ordered.append(own)
            continue
        section = by_benchmark[task.benchmark]
        if own and not section:
            heading = AVERAGES[task.benchmark]
            ordered.append([Column(AVERAGE_TASK, task.benchmark, heading, heading)])
            ordered.append(section)
        section += own
    if benchmark is not None:
        return tuple(by_benchmark[benchmark])
    return tuple(column for section in ordered for column in section)


def average(scores: Scores) -> float:
    """Averages each task over its metrics, then over tasks; NaN if any value is.

    Tasks without a metric are left out.

    >>> average({"a": {"f1": 60.0, "accuracy": 80.0}, "b": {"accuracy": 90.0}, "c": {}})
    80.0
    """
    return float(np.mean([_mean(values) for values in _scored(scores).values()]))


def selection_score(scores: Scores) -> float:
    """Returns the number by which the single best checkpoint is chosen: the highest.

    It is the mean over groups. Tasks of a benchmark that its table averages as one are
    one group: `glue/mnli` and its halves `mnli_matched` and `mnli_mismatched` count
    once, as the mean of the halves that are scored, and as the whole if neither is.
    Every other task is a group of its own, and its value the mean over its metrics.
    Tasks without a metric are left out. With all of GLUE and SuperGLUE there are 16
    groups: the result is the mean of the two benchmarks' averages. It is NaN if a value
    that counts is.

    >>> selection_score({"glue/mnli": {"accuracy": 80.0},
    ...                  "glue/mnli_matched": {"accuracy": 80.0},
    ...                  "glue/mnli_mismatched": {"accuracy": 82.0},
    ...                  "glue/rte": {"accuracy": 61.0}, "glue/ax": {}})
    71.0
    """
    known = {task.name: task for task in all_tasks()}
    with_columns, without = {}, {}
    for name, metrics in _scored(scores).items():
        task = known.get(name)
        in_group = task is not None and task.benchmark and task.group
        group = (task.benchmark, task.group) if in_group else name
        members = with_columns if in_group and task.columns else without
        members.setdefault(group, []).append(_mean(metrics))
    return float(np.mean([np.mean(v) for v in (without | with_columns).values()]))


def benchmark_averages(scores: Scores) -> dict[str, float]:
    """Averages each benchmark of which all metrics are there: {benchmark: value}.

    >>> benchmark_averages({"glue/cola": {"matthews_corrcoef": 60.2}})
    {}
    """
    cells = _flat(scores)
    averages = {}
    for name in BENCHMARKS:
        counted = columns(name)
        if all((c.task, c.metric) in cells for c in counted):
            groups = {}
            for c in counted:
                groups.setdefault(c.group, {})[c] = cells[c.task, c.metric]
            averages[name] = average(groups)
    return averages


def _scored(scores: Scores) -> Scores:
    """The tasks that have a metric."""
    scored = {task: metrics for task, metrics in scores.items() if metrics}
    if not scored:
        raise ValueError(f"scores={scores}; expected a task with at least one metric")
    return scored


def _mean(metrics: Mapping[str, float]) -> float:
    return np.mean(list(metrics.values()))


def _flat(scores: Scores) -> dict[tuple[str, str], float]:
    return {
        (task, m): v for task, metrics in scores.items() for m, v in metrics.items()
    }


@dataclass(frozen=True)
class Table:
    """Scores of checkpoints, a row for each; NaN where a checkpoint has no score.

    Attributes:
        steps: of the checkpoints, in order.
        columns: `Column`s from left to right.
        values: float array [steps, columns].
    """

    steps: tuple[int, ...]
    columns: tuple[Column, ...]
    values: np.ndarray

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings of the columns, from left to right."""
        return tuple(column.heading for column in self.columns)

    def row(self, step: int) -> dict[str, float]:
        """Returns the scores of one checkpoint: {heading: value}."""
        values = self.values[self.steps.index(step)].tolist()
        return dict(zip(self.headings, values, strict=True))

    def best_per_group(self) -> dict[str, tuple[float, int | None]]:
        """Takes each task where its mean is highest: {heading: (value, step)}.

        The mean is over the scores that a checkpoint has. A task that lacks a whole
        column has no best: (NaN, None).
        """
        best = {}
        for column in self.columns:
            if not self._complete(column.group):
                best[column.heading] = (math.nan, None)
                continue
            group = [c.group == column.group for c in self.columns]
            step = self._highest(_mean_of_known(self.values[:, group]))
            best[column.heading] = (self.row(step)[column.heading], step)
        return best

    def _complete(self, group: str) -> bool:
        known = {c for c in columns() if c.group == group}
        return known <= set(self.columns)

    def _highest(self, values: np.ndarray) -> int:
        """The step of the highest value, the first of them; NaN is the lowest."""
        return self.steps[int(np.argmax(np.where(np.isnan(values), -np.inf, values)))]


def table(
    results: Mapping[int, Scores] | Iterable[tuple[int, Scores]],
) -> Table:
    """Makes the table of all scores, with the averages that they allow.

    Args:
        results: {step: scores}, or pairs of them. If a step comes twice, as after a
            restart, the larger value counts.

    >>> scores = {100: {"squad": {"em": 70.0, "f1": 81.0}},
    ...           200: {"squad": {"em": 72.0, "f1": 80.0}}}
    >>> table(scores).best_per_group()["SQuAD (F1)"]
    (80.0, 200)
    """
    rows = {}
    for step, scores in results.items() if isinstance(results, Mapping) else results:
        row = rows.setdefault(step, {})
        for cell, value in _flat(scores).items():
            row[cell] = np.fmax(value, row.get(cell, math.nan))
    empty = {cell: math.nan for row in rows.values() for cell in row}
    if not empty:
        raise ValueError("0 scores; expected at least 1, there is nothing to tabulate")
    steps = tuple(sorted(rows))
    rows = [_with_averages(empty | rows[step]) for step in steps]
    shown = _columns(rows[0])
    values = [[row[c.task, c.metric] for c in shown] for row in rows]
    return Table(steps, shown, np.array(values, float))


def _with_averages(cells: dict) -> dict:
    scores = {}
    for (task, metric), value in cells.items():
        scores.setdefault(task, {})[metric] = value
    return cells | _flat({AVERAGE_TASK: benchmark_averages(scores)})


def _columns(cells: dict) -> tuple[Column, ...]:
    """Known columns in their order, then the others by name."""
    known = [c for c in columns() if (c.task, c.metric) in cells]
    others = sorted(set(cells) - {(c.task, c.metric) for c in known})
    return (*known, *(Column(task, m, f"{task}/{m}", task) for task, m in others))


def _mean_of_known(values: np.ndarray) -> np.ndarray:
    """[steps, columns] to [steps]: the mean of what is not NaN; NaN if all are."""
    known = ~np.isnan(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), math.nan)
