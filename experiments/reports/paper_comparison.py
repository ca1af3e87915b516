"""A run's scores beside the row that a paper prints, number by number.

Cells are {(task, metric): (ours, the paper's)}, None where there is no such number; an
average is a task without metric.
"""

from collections.abc import Iterable

import numpy as np

from experiments.configs import Row
from experiments.runs.eval_results import Scores
from tfds_tasks import get_task
from tfds_tasks.named_mixtures import SUM_NLI, mixture_names
from tfds_tasks.scores import averages

Cells = dict[tuple[str, str], tuple[float | None, float | None]]
SCORE = "score"  # a paper's one number for all metrics of a task
HALVES = {"glue/mnli": ("glue/mnli_matched", "glue/mnli_mismatched")}
OVER_TASKS = "mean over tasks"
TITLES = {
    **averages.AVERAGES,
    "glue_metrics": "GLUE, mean over metrics",
    "glue_without_stsb": "GLUE without STS-B",
    "macro": "mean of GLUE and SuperGLUE",
    "mrqa": "MRQA average",
    "mrqa_out_of_domain": "MRQA average, out of domain",
    "summarization": "summarization average",
    "nli": "NLI average",
    "overall": "summarization and NLI average",
}


def beside(scores: Scores, row: Row | None = None) -> Cells:
    """Makes all cells: tasks as they come in the scores, then averages."""
    return {**task_cells(scores, row), **average_cells(scores, row)}


def task_cells(scores: Scores, row: Row | None = None) -> Cells:
    """Makes cells of our metrics, and of what the paper prints of tasks we scored."""
    cells = {
        (t, m): (v, None) for t, values in scores.items() for m, v in values.items()
    }
    for task, printed in row.scores.items() if row else ():
        for metric, value in printed.items():
            ours = score_of(scores, task, metric)
            if ours is not None:
                cells[task, _label(scores, task, metric)] = ours, value
    return cells


def _label(scores, task, metric):
    if task not in scores:
        return f"{'mean' if metric == SCORE else metric} of both halves"
    if metric == SCORE:
        return next(iter(scores[task])) if len(scores[task]) == 1 else "mean"
    return metric


def score_of(scores: Scores, task: str, metric: str) -> float | None:
    """Returns our score by a paper's name for it; None if we have none.

    >>> scores = {"glue/mrpc": {"f1": 90.0, "accuracy": 86.0},
    ...           "glue/mnli_matched": {"accuracy": 80.0},
    ...           "glue/mnli_mismatched": {"accuracy": 82.0}}
    >>> score_of(scores, "glue/mrpc", "score")
    88.0
    >>> score_of(scores, "glue/mnli", "accuracy")
    81.0
    """
    if task not in scores and task in HALVES:
        return _mean(score_of(scores, half, metric) for half in HALVES[task])
    if metric == SCORE:
        return _mean(scores.get(task, {}).values())
    return scores.get(task, {}).get(metric)


def _mean(values: Iterable[float | None]) -> float | None:
    """None if there is no value, or one of them is None."""
    values = list(values)
    return None if not values or None in values else float(np.mean(values))


def average_cells(scores: Scores, row: Row | None = None) -> Cells:
    """Makes cells of averages: complete benchmarks, what the paper prints, and ours."""
    ours = averages.benchmark_averages(_with_halves(scores))
    if len(ours) == len(averages.AVERAGES):
        ours["macro"] = _mean(ours.values())
    printed = dict(row.average) if row else {}
    cells = {}
    if "glue_without_stsb" in printed:
        ours["glue_without_stsb"] = _glue_without_stsb(scores)
    if "glue_metrics" in printed:  # 11 of them, where others average 8 tasks
        ours["glue_metrics"] = _glue_over_metrics(scores)
    for kind in (*ours, *(kind for kind in printed if kind not in ours)):
        value = ours[kind] if kind in ours else _over_printed(kind, scores, row)
        cells[TITLES.get(kind, kind), ""] = value, printed.get(kind)
    return {**cells, (OVER_TASKS, ""): (averages.selection_score(scores), None)}


def _with_halves(scores):
    """MNLI scored as one stands for both of its halves."""
    halves = {
        half: scores[task]
        for task, names in HALVES.items()
        for half in names
        if task in scores
    }
    return {**halves, **scores}


def _glue_over_metrics(scores):
    whole = {half: task for task, names in HALVES.items() for half in names}
    metrics = {(whole.get(c.task, c.task), c.metric) for c in averages.columns("glue")}
    return _mean(score_of(scores, *metric) for metric in metrics)


def _glue_without_stsb(scores):
    whole = {half: task for task, names in HALVES.items() for half in names}
    tasks = dict.fromkeys(whole.get(c.task, c.task) for c in averages.columns("glue"))
    return _mean(score_of(scores, t, SCORE) for t in tasks if t != "glue/stsb")


def _over_printed(kind, scores, row):
    """Our mean over tasks of the metrics that the paper's average is of."""
    members = [task for task in _members(kind) if task in row.scores]
    return _mean(
        _mean(score_of(scores, task, metric) for metric in row.scores[task])
        for task in members
    )


def _members(kind):
    if kind.startswith("mrqa"):
        trained = kind == "mrqa"
        tasks = mixture_names()["mrqa"]
        return [t for t in tasks if ("train" in get_task(t).parts) == trained]
    parts = {"summarization": SUM_NLI[:3], "nli": SUM_NLI[3:], "overall": SUM_NLI}
    return parts.get(kind, ())
