"""A declared task as a `Task`."""

import functools

import tensorflow as tf

from tfds_tasks import sources
from tfds_tasks.formats import Format, Row, Tensors
from tfds_tasks.own import preparation
from tfds_tasks.own.declaration import Declaration
from tfds_tasks.own.template import Template
from tfds_tasks.scores.named import named_metrics
from tfds_tasks.style import Style
from tfds_tasks.task import OWN_SPLITS, Task


def make_task(declaration: Declaration) -> Task:
    """Makes the task; its rows are prepared when they are first read."""
    write = functools.partial(preparation.write, declaration)
    sources.written_by(declaration.source, write)
    labels = declaration.label_words
    metrics, reader = named_metrics(declaration.metrics, labels)
    names = {*declaration.files, "validation"}
    return Task(
        name=declaration.name,
        source=declaration.source,
        format=_format(declaration.name, labels),
        metrics=metrics,
        classes=labels,
        reader=reader,
        splits={split: name for split, name in OWN_SPLITS.items() if split in names},
        rate=declaration.rate,
        prefix=False,
        template=Template(declaration.inputs),
    )


def _format(name: str, labels: tuple[str, ...] | None) -> Format:
    def format(row: Row, style: Style) -> Tensors:
        inputs, targets = row["inputs"], row["targets"]
        if style.prefix:
            inputs = tf.strings.join([name, inputs], " ")
        if labels is not None and style.labels == "digits":
            equal = tf.equal(targets, tf.constant(labels))
            digit = tf.strings.as_string(tf.argmax(tf.cast(equal, tf.int32)))
            targets = tf.where(tf.reduce_any(equal), digit, targets)
        return {"inputs": inputs, "targets": targets, "idx": row["idx"]}

    return format
