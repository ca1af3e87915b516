"""Summaries: T5's template, which Hyperdecoders uses for all three sets."""

import tensorflow as tf

from tfds_tasks.registry import register
from tfds_tasks.scores import Text, rouge
from tfds_tasks.task import Task


def _summary(article, summary):
    def format(row, style):
        words = "summarize: " if style.prefix else ""
        return {
            "inputs": tf.strings.join([words, row[article]]),
            "targets": row[summary],
        }

    return format


def _summarization(name, source, article, summary, aliases=()):
    register(
        Task(
            name=name,
            source=source,
            format=_summary(article, summary),
            metrics=(rouge,),
            reader=Text(),
        ),
        aliases,
    )


_summarization("xsum", "xsum:1.1.0", "document", "summary")
_summarization(
    "cnn_dailymail",
    "cnn_dailymail:3.4.0",
    "article",
    "highlights",
    aliases=["cnn_dailymail_v002"],
)
_summarization("wiki_lingua", "gem/wiki_lingua_english_en:1.1.0", "source", "target")
