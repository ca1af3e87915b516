"""Metrics of labels, numbers and exact strings, in percent as T5 reports them.

A metric is a function of targets, predictions and examples to {name: value}. Targets
and predictions are lists of what a reader returned; examples are the dicts they came
from, for metrics that group by them. A prediction that could not be read is wrong.

>>> accuracy([1, 0, 1, 1], [1, 0, 1, -1])
{'accuracy': 75.0}
>>> f1([1, 0, 1, 1], [1, 0, 1, -1])
{'f1': 80.0}
"""

import functools
import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats
from sklearn import metrics as sklearn_metrics

from tfds_tasks.scores.readers import NOT_READ, Example

Examples = Sequence[Example]
Metric = Callable[..., dict[str, float]]  # of targets, predictions, examples


def check_sizes(predictions: Sequence, **others: Sequence) -> None:
    """Raises a ValueError unless there are predictions, and as many of the others.

    >>> check_sizes(["Oslo"], examples=[{}, {}])
    Traceback (most recent call last):
    ValueError: 1 predictions for 2 examples; expected one for each
    """
    for name, values in others.items():
        if len(values) != len(predictions):
            raise ValueError(
                f"{len(predictions)} predictions for {len(values)} {name}; "
                "expected one for each"
            )
    if not len(predictions):
        raise ValueError(
            "0 predictions; expected at least 1, there is nothing to score"
        )


def metric(function: Callable) -> Metric:
    """Wraps a metric: sizes are checked, values are Python floats, nothing is printed.

    The libraries warn of scores that are undefined, but the value says it: it is NaN.
    """

    @functools.wraps(function)
    def checked(
        targets: list, predictions: list, examples: Examples | None = None
    ) -> dict[str, float]:
        check_sizes(predictions, targets=targets)
        if examples is not None:
            check_sizes(predictions, examples=examples)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            scores = function(targets, predictions, examples)
        return {name: float(value) for name, value in scores.items()}

    return checked


@metric
def accuracy(targets: list, predictions: list, examples: Examples) -> dict[str, float]:
    """Scores the share of pairs that are equal, be they labels or strings."""
    equal = [t == p for t, p in zip(targets, predictions, strict=True)]
    return {"accuracy": 100 * np.mean(equal)}


@metric
def f1(targets: list, predictions: list, examples: Examples) -> dict[str, float]:
    """Scores F1 of label 1; a prediction that is neither 0 nor 1 is the wrong one."""
    read = [
        p if p in (0, 1) else 1 - t for t, p in zip(targets, predictions, strict=True)
    ]
    score = sklearn_metrics.f1_score(
        targets, read, labels=[1], average="macro", zero_division=0
    )
    return {"f1": 100 * score}


@metric
def mean_3class_f1(
    targets: list, predictions: list, examples: Examples
) -> dict[str, float]:
    """Scores the mean F1 of labels 0, 1 and 2; a label that never occurs has F1 0."""
    score = sklearn_metrics.f1_score(
        targets, predictions, labels=range(3), average="macro", zero_division=0
    )
    return {"mean_3class_f1": 100 * score}


@metric
def macro_f1(targets: list, predictions: list, examples: Examples) -> dict[str, float]:
    """Scores the mean F1 of all labels that are expected or predicted.

    A prediction that could not be read is wrong, but no label of its own.
    """
    labels = sorted({*targets, *predictions} - {NOT_READ})
    score = sklearn_metrics.f1_score(
        targets, predictions, labels=labels, average="macro", zero_division=0
    )
    return {"macro_f1": 100 * score}


@metric
def matthews_corrcoef(
    targets: list, predictions: list, examples: Examples
) -> dict[str, float]:
    """Scores Matthews correlation; unread predictions are a label of their own."""
    score = sklearn_metrics.matthews_corrcoef(targets, predictions)
    return {"matthews_corrcoef": 100 * score}


@metric
def pearson_corrcoef(
    targets: list, predictions: list, examples: Examples
) -> dict[str, float]:
    """Scores Pearson correlation, NaN if undefined (such as of equal predictions)."""
    return {"pearson_corrcoef": _correlation(stats.pearsonr, targets, predictions)}


@metric
def spearman_corrcoef(
    targets: list, predictions: list, examples: Examples
) -> dict[str, float]:
    """Scores Spearman rank correlation, NaN if it is undefined."""
    return {"spearman_corrcoef": _correlation(stats.spearmanr, targets, predictions)}


def _correlation(function: Callable, targets: list, predictions: list) -> float:
    if len(targets) < 2:
        return math.nan
    targets, predictions = np.asarray(targets, float), np.asarray(predictions, float)
    return 100 * function(targets, predictions)[0]
