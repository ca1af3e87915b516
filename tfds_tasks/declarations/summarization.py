"""Summaries: T5's template, which Hyperdecoders uses for all three sets."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfds_tasks.formats import Row, Tensors
from tfds_tasks.registry import register
from tfds_tasks.scores import Text, rouge
from tfds_tasks.style import Style
from tfds_tasks.task import Task


def _summary(article: str, summary: str) -> Callable:
    def format(row: Row, style: Style) -> Tensors:
        words = "summarize: " if style.prefix else ""
        return {
            "inputs": tf.strings.join([words, row[article]]),
            "targets": row[summary],
        }

    return format


def _summarization(
    name: str,
    source: str,
    article: str,
    summary: str,
    aliases: Sequence[str] = (),
    **options,
) -> None:
    register(
        Task(
            name=name,
            source=source,
            format=_summary(article, summary),
            metrics=(rouge,),
            reader=Text(),
            **options,
        ),
        aliases,
    )


# Beams and tokens of Hyperdecoders' public code.
_LENGTHS = {"min_length": 10, "max_length": 60}
_summarization(
    "xsum",
    "xsum:1.1.0",
    "document",
    "summary",
    decoding={"beam_size": 6, **_LENGTHS},
)
_summarization(
    "cnn_dailymail",
    "cnn_dailymail:3.4.0",
    "article",
    "highlights",
    aliases=["cnn_dailymail_v002"],
    columns={
        "rouge1": "CNN/DM (ROUGE-1)",
        "rouge2": "CNN/DM (ROUGE-2)",
        "rougeLsum": "CNN/DM (ROUGE-L)",
    },
    group="CNN/DM",
    decoding={"beam_size": 4, **_LENGTHS},
)
_summarization(
    "wiki_lingua",
    "gem/wiki_lingua_english_en:1.1.0",
    "source",
    "target",
    decoding={"beam_size": 4, **_LENGTHS},
)
