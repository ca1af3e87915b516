"""Scores: readers turn text into values, metrics compare them.

Averages over tasks are in `scores.averages`.
"""

from tfds_tasks.scores.metrics import (
    accuracy,
    check_sizes,
    f1,
    macro_f1,
    matthews_corrcoef,
    mean_3class_f1,
    metric,
    pearson_corrcoef,
    spearman_corrcoef,
)
from tfds_tasks.scores.qa import best_over_chunks, multirc, record, squad, trivia_qa
from tfds_tasks.scores.readers import Answers, Labels, Number, Referent, Spans, Text
from tfds_tasks.scores.text import bleu, rouge

__all__ = [
    "Answers",
    "Labels",
    "Number",
    "Referent",
    "Spans",
    "Text",
    "accuracy",
    "best_over_chunks",
    "bleu",
    "check_sizes",
    "f1",
    "macro_f1",
    "matthews_corrcoef",
    "mean_3class_f1",
    "metric",
    "multirc",
    "pearson_corrcoef",
    "record",
    "rouge",
    "spearman_corrcoef",
    "squad",
    "trivia_qa",
]
