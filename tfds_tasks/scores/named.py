"""Metrics by name, for tasks that are declared without Python."""

import dataclasses
from collections.abc import Sequence

from tfds_tasks.registry import unknown
from tfds_tasks.scores import metrics, qa, text
from tfds_tasks.scores.metrics import Metric
from tfds_tasks.scores.readers import Answers, Number, Reader, Text

# What a metric compares: {kind: its reader}; labels are read by the task's own.
READERS: dict[str, Reader | None] = {
    "labels": None,
    "text": Text(),
    "numbers": Number(),
    "answers": Answers(),
}


@dataclasses.dataclass(frozen=True)
class Named:
    """A metric, and which kinds of answers it can compare."""

    metric: Metric
    reads: tuple[str, ...]


METRICS: dict[str, Named] = {
    "accuracy": Named(metrics.accuracy, ("labels", "text")),
    "macro_f1": Named(metrics.macro_f1, ("labels",)),
    "f1": Named(metrics.f1, ("labels",)),
    "matthews_corrcoef": Named(metrics.matthews_corrcoef, ("labels",)),
    "pearson_corrcoef": Named(metrics.pearson_corrcoef, ("numbers",)),
    "spearman_corrcoef": Named(metrics.spearman_corrcoef, ("numbers",)),
    "rouge": Named(text.rouge, ("text",)),
    "bleu": Named(text.bleu, ("text",)),
    "squad": Named(qa.squad, ("answers",)),
}


def register_metric(
    name: str, metric: Metric, reads: Sequence[str] = ("text",)
) -> None:
    """Adds a metric that TOML files may name.

    Args:
        name: such as "my_metric".
        metric: function of (targets, predictions, examples) to {name: percent}.
        reads: what targets and predictions may be: "labels" (numbers of labels, -1 if
            none was read), "text", "numbers" or "answers" (lists of right answers).
    """
    if name in METRICS:
        raise ValueError(f"metric {name!r} is registered already")
    for kind in reads:
        if kind not in READERS:
            raise ValueError(unknown("kind of answer", kind, READERS))
    METRICS[name] = Named(metric, tuple(reads))


def named_metrics(
    names: Sequence[str], labels: Sequence[str] | None
) -> tuple[tuple[Metric, ...], Reader | None]:
    """Finds metrics by name, and the reader that all of them can work with.

    The reader is None for a task with labels, whose own reads them.

    >>> metrics, reader = named_metrics(["rouge", "accuracy"], labels=None)
    >>> [metric.__name__ for metric in metrics], reader
    (['rouge', 'accuracy'], Text(lower=False))
    """
    for name in names:
        if name not in METRICS:
            raise ValueError(unknown("metric", name, METRICS))
    kinds = ["labels"] if labels else [kind for kind in READERS if kind != "labels"]
    fitting = [k for k in kinds if all(k in METRICS[name].reads for name in names)]
    if not fitting:
        read = "; ".join(f"{n} reads {' or '.join(METRICS[n].reads)}" for n in names)
        has = "labels" if labels else "no labels"
        raise ValueError(f"metrics {', '.join(names)}: {read}, but the task has {has}")
    if "f1" in names and len(labels) != 2:
        raise ValueError(
            f"metric 'f1' is of the second of two labels, but the task has "
            f"{len(labels)}; expected macro_f1"
        )
    return tuple(METRICS[name].metric for name in names), READERS[fitting[0]]
