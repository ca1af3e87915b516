"""Rows of TFDS as text-to-text examples, in the graph.

A format is a function of a row (a dict of tensors, as TFDS gives it) and a `Style`.
It returns one example, a dict of tensors with "inputs" and "targets" and what scoring
needs. A format marked `several` returns tensors with one more dimension in front: the
examples that a row becomes, none of them if the row is left out.
"""

import tensorflow as tf


def several(format):
    """Marks a format that turns a row into any number of examples."""
    format.several = True
    return format


def keyed(prefix, keys, row, style):
    """`"{prefix} {key}: {text} {key}: {text}"`; keys is {key: text or feature}."""
    parts = [prefix] if style.prefix else []
    for key, text in keys.items():
        parts += [f"{key}:", row[text] if isinstance(text, str) else text]
    return tf.strings.join(parts, " ")


def label_text(label, classes, style):
    """The label's word or digit; `<unk>` for -1, which TFDS gives where none is known.

    >>> label_text(tf.constant([1, -1]), ("no", "yes"), Style()).numpy().tolist()
    [b'yes', b'<unk>']
    """
    words = classes if style.labels == "words" else map(str, range(len(classes)))
    return tf.gather(tf.constant(["<unk>", *words]), label + 1)


def indices(row):
    """What numbers the row in its data set: `idx`, or `idx/...` of nested ones."""
    idx = row.get("idx")
    if idx is None:
        return {}
    if isinstance(idx, dict):
        return {f"idx/{name}": value for name, value in idx.items()}
    return {"idx": idx}


def classification(prefix, keys, classes, label="label", clean=None):
    """Texts of the row by key, then the label. keys: names, or {key: feature}."""
    features = keys if isinstance(keys, dict) else {key: key for key in keys}

    def format(row, style):
        texts = {key: row[feature] for key, feature in features.items()}
        if clean is not None:
            texts = {key: clean(text) for key, text in texts.items()}
        return {
            "inputs": keyed(prefix, texts, row, style),
            "targets": label_text(row[label], classes, style),
            **indices(row),
        }

    return format


def similarity(prefix, keys):
    """STS-B: the label, 0 to 5, to the nearest 0.2, with one decimal."""

    def format(row, style):
        # Halves go to even, as tf.round does: 2.5 is "2.4".
        nearest = tf.round(tf.cast(row["label"], tf.float32) * 5) / 5
        return {
            "inputs": keyed(prefix, {key: row[key] for key in keys}, row, style),
            "targets": tf.strings.as_string(nearest, precision=1),
            **indices(row),
        }

    return format


def without_markup(text):
    """MultiRC's line breaks to spaces; its bold marks, in lower case, dropped."""
    text = tf.strings.regex_replace(text, "<br>", " ")
    return tf.strings.regex_replace(text, "<(/)?b>", "")
