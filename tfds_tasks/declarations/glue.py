"""GLUE, as T5 writes it; sizes are those that T5 mixes by."""

from tfds_tasks.formats import classification, similarity
from tfds_tasks.registry import register
from tfds_tasks.scores import (
    Number,
    accuracy,
    f1,
    matthews_corrcoef,
    pearson_corrcoef,
    spearman_corrcoef,
)
from tfds_tasks.task import Task

SENTENCES = ("sentence1", "sentence2")
ENTAILMENT = ("entailment", "not_entailment")
INFERENCE = ("entailment", "neutral", "contradiction")
MNLI_SPLITS = {
    "train": "train",
    "validation": "validation_matched",
    "validation_mismatched": "validation_mismatched",
    "test": "test_matched",
    "test_mismatched": "test_mismatched",
}
EVALUATION = {"validation": "validation", "test": "test"}


def _glue(name, keys, classes, *metrics, prefix=None, **options):
    options.setdefault("format", classification(prefix or name, keys, classes))
    register(
        Task(
            name=f"glue/{name}",
            source=f"glue/{name}:2.0.0",
            classes=classes,
            metrics=metrics,
            **options,
        ),
        aliases=[f"glue_{name}_v002"],
    )


_glue(
    "cola",
    ["sentence"],
    ("unacceptable", "acceptable"),
    matthews_corrcoef,
    divide="validation",
    rate=8551,
)
_glue(
    "sst2",
    ["sentence"],
    ("negative", "positive"),
    accuracy,
    divide="train",
    rate=67349,
)
_glue(
    "mrpc",
    SENTENCES,
    ("not_equivalent", "equivalent"),
    f1,
    accuracy,
    divide="validation",
    rate=3668,
)
_glue(
    "qqp",
    ["question1", "question2"],
    ("not_duplicate", "duplicate"),
    f1,
    accuracy,
    divide="train",
    rate=363849,
)
_glue(
    "stsb",
    SENTENCES,
    None,
    pearson_corrcoef,
    spearman_corrcoef,
    format=similarity("stsb", SENTENCES),
    reader=Number(),
    divide="validation",
    rate=5749,
)
_glue(
    "mnli",
    ["hypothesis", "premise"],
    INFERENCE,
    accuracy,
    splits=MNLI_SPLITS,
    divide="mnli",
    rate=392702,
)
for _half in ("mnli_matched", "mnli_mismatched"):
    _glue(
        _half,
        ["hypothesis", "premise"],
        INFERENCE,
        accuracy,
        prefix="mnli",
        splits=EVALUATION,
        shares="glue/mnli",
        rate=0,
    )
_glue(
    "qnli",
    ["question", "sentence"],
    ENTAILMENT,
    accuracy,
    divide="train",
    rate=104743,
)
_glue("rte", SENTENCES, ENTAILMENT, accuracy, divide="validation", rate=2490)
_glue("wnli", SENTENCES, ENTAILMENT[::-1], accuracy, divide="validation", rate=635)
_glue(
    "ax",
    ["hypothesis", "premise"],
    INFERENCE,
    prefix="mnli",
    splits={"test": "test"},
    shares="glue/mnli",
    rate=0,
)
