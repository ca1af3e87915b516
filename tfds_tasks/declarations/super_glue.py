"""SuperGLUE and what T5 trains or tests beside it; sizes are those T5 mixes by.

A task is declared here and nowhere else. The order is that of T5's table of results;
`place` keeps the order of the mixture "super_glue", by which saved runs number their
tasks.
"""

from collections.abc import Callable

from tfds_tasks import pronouns, reading
from tfds_tasks.benchmarks import Choice, File, Words
from tfds_tasks.formats import classification, without_markup
from tfds_tasks.registry import register
from tfds_tasks.scores import (
    Answers,
    Referent,
    Text,
    accuracy,
    mean_3class_f1,
    multirc,
    record,
)
from tfds_tasks.task import Task

TRUTH = ("False", "True")
LOWER_TRUTH = ("false", "true")  # as the server writes it for some tasks
CHOICES = ("choice1", "choice2")
COMMITMENT = ("entailment", "contradiction", "neutral")
ENTAILMENT = ("entailment", "not_entailment")
INFERENCE = ["hypothesis", "premise"]
TEST_ONLY = {"test": "test"}


def _super_glue(
    name: str,
    format: Callable,
    classes: tuple[str, ...],
    *metrics: Callable,
    **options,
) -> None:
    options.setdefault("source", f"super_glue/{name}:1.0.2")
    register(
        Task(
            name=f"super_glue/{name}",
            format=format,
            classes=classes,
            metrics=metrics,
            benchmark="super_glue",
            mixture="super_glue",
            **options,
        ),
        aliases=_aliases(name),
    )


def _aliases(name: str) -> list[str]:
    if name != "wsc":
        return [f"super_glue_{name}_v102"]
    simple = [f"super_glue_wsc_v102_simple_{use}" for use in ("train", "eval")]
    return ["super_glue/wsc.fixed", *simple]


_super_glue(
    "boolq",
    classification("boolq", ["passage", "question"], TRUTH),
    TRUTH,
    accuracy,
    columns={"accuracy": "BoolQ (accuracy)"},
    submission=File("BoolQ.jsonl", Choice(LOWER_TRUTH), rows=3245),
    divide="validation",
    rate=9427,
    place=2,
)
_super_glue(
    "cb",
    classification("cb", INFERENCE, COMMITMENT),
    COMMITMENT,
    mean_3class_f1,
    accuracy,
    columns={"mean_3class_f1": "CB (F1)", "accuracy": "CB (accuracy)"},
    group="CB",
    submission=File("CB.jsonl", Choice(COMMITMENT), rows=250),
    divide="validation",
    rate=250,
    place=3,
)
_super_glue(
    "copa",
    classification("copa", ["choice1", "choice2", "premise", "question"], CHOICES),
    CHOICES,
    accuracy,
    columns={"accuracy": "CoPA"},
    submission=File("COPA.jsonl", Choice((0, 1)), rows=500),
    divide="validation",
    rate=400,
    place=4,
)
_super_glue(
    "multirc",
    classification(
        "multirc", ["question", "answer", "paragraph"], TRUTH, clean=without_markup
    ),
    TRUTH,
    multirc,
    columns={"f1": "MultiRC (F1)", "exact_match": "MultiRC (EM)"},
    group="MultiRC",
    submission=File("MultiRC.jsonl", Choice((0, 1)), rows=9693, index="idx/answer"),
    divide="train",
    rate=27243,
    place=5,
)
# The classes of ReCoRD and WSC are those that TFDS names; the answer is an entity.
_super_glue(
    "record",
    reading.record,
    TRUTH,
    record,
    columns={"f1": "ReCoRD (F1)", "em": "ReCoRD (EM)"},
    group="ReCoRD",
    submission=File("ReCoRD.jsonl", Words(), rows=10000, index="idx/query"),
    reader=Answers(),
    divide="train",
    rate=138854,
    place=6,
)
_super_glue(
    "rte",
    classification("rte", INFERENCE, ENTAILMENT),
    ENTAILMENT,
    accuracy,
    columns={"accuracy": "SuperGLUE RTE"},
    submission=File("RTE.jsonl", Choice(ENTAILMENT), rows=3000),
    divide="validation",
    rate=2490,
    place=7,
)
_super_glue(
    "wic",
    classification("wic", ["sentence1", "sentence2", "word"], TRUTH),
    TRUTH,
    accuracy,
    columns={"accuracy": "WiC"},
    submission=File("WiC.jsonl", Choice(LOWER_TRUTH), rows=1400),
    divide="validation",
    rate=5428,
    place=8,
)
_super_glue(
    "wsc",
    pronouns.wsc,
    TRUTH,
    accuracy,
    columns={"accuracy": "WSC"},
    submission=File("WSC.jsonl", Choice(TRUTH), rows=146),
    source="super_glue/wsc.fixed:1.0.2",
    train_format=pronouns.wsc_true,
    reader=Referent(),
    divide="validation",
    rate=259,
    place=1,
)
_super_glue(
    "axb",
    classification(
        "rte", {"hypothesis": "sentence2", "premise": "sentence1"}, ENTAILMENT
    ),
    ENTAILMENT,
    submission=File("AX-b.jsonl", Choice(ENTAILMENT), rows=1104),
    splits=TEST_ONLY,
    shares="super_glue/rte",
    rate=0,
    place=9,
)
_super_glue(
    "axg",
    classification("rte", INFERENCE, ENTAILMENT),
    ENTAILMENT,
    submission=File("AX-g.jsonl", Choice(ENTAILMENT), rows=356),
    splits=TEST_ONLY,
    shares="super_glue/rte",
    rate=0,
    place=10,
)

register(
    Task(
        name="dpr",
        source="definite_pronoun_resolution:1.1.0",
        format=pronouns.dpr,
        metrics=(accuracy,),
        reader=Text(),
        columns={"accuracy": "DPR"},
        splits={"train": "train", "test": "test"},
        rate=1322,
        shares="super_glue/wsc",
        mixture="super_glue",
        place=0,
    ),
    aliases=["dpr_v001_simple"],
)
register(
    Task(
        name="glue/wnli_simple",
        source="glue/wnli:2.0.0",
        format=pronouns.wnli,
        metrics=(accuracy,),
        reader=Referent(),
        submission=File("WNLI.tsv", Choice("01"), rows=146),  # instead of glue/wnli
        splits={"validation": "validation", "test": "test"},
        rate=0,
        shares="super_glue/wsc",
    ),
    aliases=["glue_wnli_v002_simple_eval"],
)
