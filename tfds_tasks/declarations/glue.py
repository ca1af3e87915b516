"""GLUE, as T5 writes it; sizes are those that T5 mixes by.

A task is declared here and nowhere else. The order is that of T5's table of results;
`place` keeps the order of the mixture "glue", by which saved runs number their tasks.
"""

from collections.abc import Callable, Sequence

from tfds_tasks.benchmarks import Choice, File, Scale
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


def _glue(
    name: str,
    keys: Sequence[str],
    classes: tuple[str, ...] | None,
    *metrics: Callable,
    prefix: str | None = None,
    mixture: str | None = "glue",
    **options,
) -> None:
    options.setdefault("format", classification(prefix or name, keys, classes))
    register(
        Task(
            name=f"glue/{name}",
            source=f"glue/{name}:2.0.0",
            classes=classes,
            metrics=metrics,
            benchmark="glue",
            mixture=mixture,
            **options,
        ),
        aliases=[f"glue_{name}_v002"],
    )


_glue(
    "cola",
    ["sentence"],
    ("unacceptable", "acceptable"),
    matthews_corrcoef,
    columns={"matthews_corrcoef": "CoLA"},
    submission=File("CoLA.tsv", Choice("01"), rows=1063),
    divide="validation",
    rate=8551,
    place=0,
)
_glue(
    "sst2",
    ["sentence"],
    ("negative", "positive"),
    accuracy,
    columns={"accuracy": "SST-2"},
    submission=File("SST-2.tsv", Choice("01"), rows=1821),
    divide="train",
    rate=67349,
    place=1,
)
_glue(
    "mrpc",
    SENTENCES,
    ("not_equivalent", "equivalent"),
    f1,
    accuracy,
    columns={"f1": "MRPC (F1)", "accuracy": "MRPC (accuracy)"},
    group="MRPC",
    submission=File("MRPC.tsv", Choice("01"), rows=1725),
    divide="validation",
    rate=3668,
    place=2,
)
_glue(
    "stsb",
    SENTENCES,
    None,
    pearson_corrcoef,
    spearman_corrcoef,
    columns={
        "pearson_corrcoef": "STSB (Pearson)",
        "spearman_corrcoef": "STSB (Spearman)",
    },
    group="STSB",
    submission=File("STS-B.tsv", Scale(0, 5), rows=1379),
    format=similarity("stsb", SENTENCES),
    reader=Number(),
    divide="validation",
    rate=5749,
    place=4,
)
_glue(
    "qqp",
    ["question1", "question2"],
    ("not_duplicate", "duplicate"),
    f1,
    accuracy,
    columns={"f1": "QQP (F1)", "accuracy": "QQP (accuracy)"},
    group="QQP",
    submission=File("QQP.tsv", Choice("01"), rows=390965),
    divide="train",
    rate=363849,
    place=3,
)
_glue(
    "mnli",
    ["hypothesis", "premise"],
    INFERENCE,
    accuracy,
    group="MNLI",  # the table and the server take its halves
    splits=MNLI_SPLITS,
    divide="mnli",
    rate=392702,
    place=5,
)
for _name, _heading, _file, _rows, _place in (
    ("mnli_matched", "MNLIm", "MNLI-m.tsv", 9796, 9),
    ("mnli_mismatched", "MNLImm", "MNLI-mm.tsv", 9847, 8),
):
    _glue(
        _name,
        ["hypothesis", "premise"],
        INFERENCE,
        accuracy,
        columns={"accuracy": _heading},
        group="MNLI",
        submission=File(_file, Choice(INFERENCE), _rows),
        prefix="mnli",
        splits=EVALUATION,
        shares="glue/mnli",
        rate=0,
        place=_place,
    )
_glue(
    "qnli",
    ["question", "sentence"],
    ENTAILMENT,
    accuracy,
    columns={"accuracy": "QNLI"},
    submission=File("QNLI.tsv", Choice(ENTAILMENT), rows=5463),
    divide="train",
    rate=104743,
    place=6,
)
_glue(
    "rte",
    SENTENCES,
    ENTAILMENT,
    accuracy,
    columns={"accuracy": "GLUE RTE"},
    submission=File("RTE.tsv", Choice(ENTAILMENT), rows=3000),
    divide="validation",
    rate=2490,
    place=7,
)
_glue(
    "wnli",
    SENTENCES,
    ENTAILMENT[::-1],
    accuracy,
    submission=File("WNLI.tsv", Choice("01"), rows=146),
    mixture=None,  # T5 does not train on it, and no average counts it
    divide="validation",
    rate=635,
)
_glue(
    "ax",
    ["hypothesis", "premise"],
    INFERENCE,
    submission=File("AX.tsv", Choice(INFERENCE), rows=1104),
    prefix="mnli",
    splits={"test": "test"},
    shares="glue/mnli",
    rate=0,
    place=10,
)
