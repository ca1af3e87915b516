"""HyperFormer's transfer sets (its section 3.2), beside CB and BoolQ of SuperGLUE.

Names and keys are those of its public code, which knows labels as digits only.
"""

import tensorflow as tf

from tfds_tasks.formats import Format, Row, Tensors, classification, label_text
from tfds_tasks.registry import register
from tfds_tasks.scores import accuracy
from tfds_tasks.style import Style
from tfds_tasks.task import Task

INFERENCE = ("entailment", "neutral")
KINDS = ("DESC", "ENTY", "ABBR", "HUM", "NUM", "LOC")
PARAPHRASE = ("different_meaning", "paraphrase")
SENTIMENT = ("negative", "positive")
WITHOUT_VALIDATION = {"train": "train", "test": "test"}


def _transfer(
    name: str, source: str, format: Format, classes: tuple[str, ...], **options
) -> None:
    register(
        Task(
            name=name,
            source=source,
            format=format,
            classes=classes,
            metrics=(accuracy,),
            **options,
        )
    )


def _without_key(prefix: str, classes: tuple[str, ...]) -> Format:
    """The text of the row, with no key before it."""

    def format(row: Row, style: Style) -> Tensors:
        text = row["text"]
        return {
            "inputs": tf.strings.join([prefix, text], " ") if style.prefix else text,
            "targets": label_text(row["label"], classes, style),
        }

    return format


_transfer(
    "scitail",
    "sci_tail:1.0.0",
    classification(
        "scitail", {"sentence1": "premise", "sentence2": "hypothesis"}, INFERENCE
    ),
    INFERENCE,
)
_transfer(
    "trec",
    "trec:1.0.0",
    classification("trec", {"sentence": "text"}, KINDS, label="label-coarse"),
    KINDS,
    splits=WITHOUT_VALIDATION,
    divide="test",
)
_transfer(
    "imdb",
    "imdb_reviews/plain_text:1.0.0",
    _without_key("imdb", SENTIMENT),
    SENTIMENT,
    splits=WITHOUT_VALIDATION,
    divide="test",
)
_transfer(
    "yelp_polarity",
    "yelp_polarity_reviews:0.2.0",
    classification("yelp_polarity", {"sentence": "text"}, SENTIMENT),
    SENTIMENT,
    splits=WITHOUT_VALIDATION,
    divide="test",
)
_transfer(
    "paws",
    "paws_wiki/labeled_final_raw:1.1.0",
    classification("paws", ["sentence1", "sentence2"], PARAPHRASE),
    PARAPHRASE,
)
