"""Rows of TFDS as text-to-text examples, in the graph.

A format is a function of a row (a dict of tensors, as TFDS gives it) and a `Style`.
It returns one example, a dict of tensors with "inputs" and "targets" and what scoring
needs. A format marked `several` returns tensors with one more dimension in front: the
examples that a row becomes, none of them if the row is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfds_tasks.style import Style

Row = Mapping[str, Any]  # tensors, nested as TFDS nests the features
Tensors = dict[str, tf.Tensor]
Format = Callable[[Row, Style], Tensors]


def several(format: Format) -> Format:
    """Marks a format that turns a row into any number of examples."""
    format.several = True
    return format


def keyed(
    prefix: str, keys: Mapping[str, str | tf.Tensor], row: Row, style: Style
) -> tf.Tensor:
    """Joins texts by their keys: `"{prefix} {key}: {text} {key}: {text}"`.

    `keys` is {key: text or name of a feature}; the style may drop the prefix.
    """
    parts = [prefix] if style.prefix else []
    for key, text in keys.items():
        parts += [f"{key}:", row[text] if isinstance(text, str) else text]
    return tf.strings.join(parts, " ")


def label_text(label: tf.Tensor, classes: Sequence[str], style: Style) -> tf.Tensor:
    """Writes a label as word or digit; -1, an unknown label of TFDS, as `<unk>`.

    >>> label_text(tf.constant([1, -1]), ("no", "yes"), Style()).numpy().tolist()
    [b'yes', b'<unk>']
    """
    words = classes if style.labels == "words" else map(str, range(len(classes)))
    return tf.gather(tf.constant(["<unk>", *words]), label + 1)


def indices(row: Row) -> Tensors:
    """Returns what numbers a row in its data set: `idx`, or `idx/...` if nested."""
    idx = row.get("idx")
    if idx is None:
        return {}
    if isinstance(idx, dict):
        return {f"idx/{name}": value for name, value in idx.items()}
    return {"idx": idx}


def classification(
    prefix: str,
    keys: Sequence[str] | Mapping[str, str],
    classes: Sequence[str],
    label: str = "label",
    clean: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> Format:
    """Makes a format of texts by key, with a label as the answer.

    Args:
        prefix: the name of the task in the text.
        keys: the features in the order of the text, or {key in the text: feature}.
        classes: the words of the labels.
        label: the feature that numbers the label.
        clean: what is done to each text first.
    """
    features = keys if isinstance(keys, dict) else {key: key for key in keys}

    def format(row: Row, style: Style) -> Tensors:
        texts = {key: row[feature] for key, feature in features.items()}
        if clean is not None:
            texts = {key: clean(text) for key, text in texts.items()}
        return {
            "inputs": keyed(prefix, texts, row, style),
            "targets": label_text(row[label], classes, style),
            **indices(row),
        }

    return format


def similarity(prefix: str, keys: Sequence[str]) -> Format:
    """Makes a format as STS-B has it: the answer is a number, to the nearest 0.2."""

    def format(row: Row, style: Style) -> Tensors:
        # Halves go to even, as tf.round does: 2.5 is "2.4".
        nearest = tf.round(tf.cast(row["label"], tf.float32) * 5) / 5
        return {
            "inputs": keyed(prefix, {key: row[key] for key in keys}, row, style),
            "targets": tf.strings.as_string(nearest, precision=1),
            **indices(row),
        }

    return format


def without_markup(text: tf.Tensor) -> tf.Tensor:
    """Replaces MultiRC's line breaks by spaces, and drops its bold marks."""
    text = tf.strings.regex_replace(text, "<br>", " ")
    return tf.strings.regex_replace(text, "<(/)?b>", "")
