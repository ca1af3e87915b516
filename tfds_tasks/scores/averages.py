"""GLUE and SuperGLUE averages, and the table of scores over checkpoints.

Scores are {task: {metric: value}}. A task is averaged over its metrics first, then
tasks are averaged: 8 of GLUE, where both halves of MNLI are one, and 8 of SuperGLUE.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Column:
    """A metric of a task, its heading, and the group that is averaged as one."""

    task: str
    metric: str
    heading: str
    group: str = ""

    def __post_init__(self):
        object.__setattr__(self, "group", self.group or self.heading)


GLUE = (
    Column("glue/cola", "matthews_corrcoef", "CoLA"),
    Column("glue/sst2", "accuracy", "SST-2"),
    Column("glue/mrpc", "f1", "MRPC (F1)", "MRPC"),
    Column("glue/mrpc", "accuracy", "MRPC (accuracy)", "MRPC"),
    Column("glue/stsb", "pearson_corrcoef", "STSB (Pearson)", "STSB"),
    Column("glue/stsb", "spearman_corrcoef", "STSB (Spearman)", "STSB"),
    Column("glue/qqp", "f1", "QQP (F1)", "QQP"),
    Column("glue/qqp", "accuracy", "QQP (accuracy)", "QQP"),
    Column("glue/mnli_matched", "accuracy", "MNLIm", "MNLI"),
    Column("glue/mnli_mismatched", "accuracy", "MNLImm", "MNLI"),
    Column("glue/qnli", "accuracy", "QNLI"),
    Column("glue/rte", "accuracy", "GLUE RTE"),
)
SUPER_GLUE = (
    Column("super_glue/boolq", "accuracy", "BoolQ (accuracy)"),
    Column("super_glue/cb", "mean_3class_f1", "CB (F1)", "CB"),
    Column("super_glue/cb", "accuracy", "CB (accuracy)", "CB"),
    Column("super_glue/copa", "accuracy", "CoPA"),
    Column("super_glue/multirc", "f1", "MultiRC (F1)", "MultiRC"),
    Column("super_glue/multirc", "exact_match", "MultiRC (EM)", "MultiRC"),
    Column("super_glue/record", "f1", "ReCoRD (F1)", "ReCoRD"),
    Column("super_glue/record", "em", "ReCoRD (EM)", "ReCoRD"),
    Column("super_glue/rte", "accuracy", "SuperGLUE RTE"),
    Column("super_glue/wic", "accuracy", "WiC"),
    Column("super_glue/wsc", "accuracy", "WSC"),
)
BENCHMARKS = {"glue": GLUE, "super_glue": SUPER_GLUE}
AVERAGES = {"glue": "Average GLUE Score", "super_glue": "Average SuperGLUE Score"}
AVERAGE_TASK = "average"

# All known columns from left to right, an average before its tasks.
COLUMNS = (
    Column(AVERAGE_TASK, "glue", AVERAGES["glue"]),
    *GLUE,
    Column("cnn_dailymail", "rouge1", "CNN/DM (ROUGE-1)", "CNN/DM"),
    Column("cnn_dailymail", "rouge2", "CNN/DM (ROUGE-2)", "CNN/DM"),
    Column("cnn_dailymail", "rougeLsum", "CNN/DM (ROUGE-L)", "CNN/DM"),
    Column("squad", "em", "SQuAD (EM)", "SQuAD"),
    Column("squad", "f1", "SQuAD (F1)", "SQuAD"),
    Column(AVERAGE_TASK, "super_glue", AVERAGES["super_glue"]),
    *SUPER_GLUE,
    Column("dpr", "accuracy", "DPR"),
)


def average(scores):
    """Mean over tasks of each task's mean over its metrics; NaN if any value is.

    >>> average({"a": {"f1": 60.0, "accuracy": 80.0}, "b": {"accuracy": 90.0}})
    80.0
    """
    if not scores or not all(scores.values()):
        raise ValueError(f"scores={scores}; expected a task, and a metric for each")
    return float(np.mean([np.mean(list(task.values())) for task in scores.values()]))


def benchmark_averages(scores):
    """{"glue": value, "super_glue": value}; absent if one of its metrics is absent.

    >>> benchmark_averages({"glue/cola": {"matthews_corrcoef": 60.2}})
    {}
    """
    cells = _flat(scores)
    averages = {}
    for name, columns in BENCHMARKS.items():
        if all((c.task, c.metric) in cells for c in columns):
            groups = {}
            for c in columns:
                groups.setdefault(c.group, {})[c] = cells[c.task, c.metric]
            averages[name] = average(groups)
    return averages


def _flat(scores):
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
    def headings(self):
        return tuple(column.heading for column in self.columns)

    def row(self, step):
        """{heading: value} of one checkpoint."""
        values = self.values[self.steps.index(step)].tolist()
        return dict(zip(self.headings, values, strict=True))

    def best_checkpoint(self, heading):
        """The step where the column is highest: one checkpoint for all tasks."""
        if heading not in self.headings:
            raise ValueError(
                f"column {heading!r} is not in the table, which has "
                f"{', '.join(self.headings)}"
            )
        return self._highest(self.values[:, self.headings.index(heading)])

    def best_per_group(self):
        """{heading: (value, step)}: each task at the step where its mean is highest.

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

    def to_csv(self):
        """Rows for a spreadsheet: all steps, then the best values and their steps."""
        lines = [("step", *self.headings)]
        for step, row in zip(self.steps, self.values, strict=True):
            lines.append((str(step), *(f"{value:.3f}" for value in row)))
        values, steps = zip(*self.best_per_group().values(), strict=True)
        lines.append(("max", *(f"{value:.3f}" for value in values)))
        lines.append(("step", *("" if step is None else str(step) for step in steps)))
        return "".join(",".join(line) + "\n" for line in lines)

    def _complete(self, group):
        known = {c for c in COLUMNS if c.group == group}
        return known <= set(self.columns)

    def _highest(self, values):
        """The step of the highest value, the first of them; NaN is the lowest."""
        return self.steps[int(np.argmax(np.where(np.isnan(values), -np.inf, values)))]


def table(results):
    """The table of all scores, with the averages that they allow.

    Args:
        results: {step: scores}, or pairs of them. If a step comes twice, as after a
            restart, the larger value counts.

    >>> scores = {100: {"squad": {"em": 70.0, "f1": 81.0}},
    ...           200: {"squad": {"em": 72.0, "f1": 80.0}}}
    >>> t = table(scores)
    >>> t.best_checkpoint("SQuAD (F1)"), t.best_per_group()["SQuAD (F1)"]
    (100, (80.0, 200))
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
    columns = _columns(rows[0])
    values = [[row[c.task, c.metric] for c in columns] for row in rows]
    return Table(steps, columns, np.array(values, float))


def _with_averages(cells):
    scores = {}
    for (task, metric), value in cells.items():
        scores.setdefault(task, {})[metric] = value
    return cells | _flat({AVERAGE_TASK: benchmark_averages(scores)})


def _columns(cells):
    """Known columns in their order, then the others by name."""
    known = [c for c in COLUMNS if (c.task, c.metric) in cells]
    others = sorted(set(cells) - {(c.task, c.metric) for c in known})
    return (*known, *(Column(task, m, f"{task}/{m}", task) for task, m in others))


def _mean_of_known(values):
    """[steps, columns] to [steps]: the mean of what is not NaN; NaN if all are."""
    known = ~np.isnan(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), math.nan)
