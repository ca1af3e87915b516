"""Scores: readers turn text into values, metrics compare them, averages sum up."""

from tfds_tasks.scores.averages import (
    average,
    benchmark_averages,
    selection_score,
    table,
)
from tfds_tasks.scores.metrics import (
    accuracy,
    check_sizes,
    f1,
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
    "average",
    "benchmark_averages",
    "best_over_chunks",
    "bleu",
    "check_sizes",
    "f1",
    "matthews_corrcoef",
    "mean_3class_f1",
    "metric",
    "multirc",
    "pearson_corrcoef",
    "record",
    "rouge",
    "selection_score",
    "spearman_corrcoef",
    "squad",
    "table",
    "trivia_qa",
]
