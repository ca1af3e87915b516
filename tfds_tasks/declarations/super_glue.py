"""SuperGLUE and what T5 trains or tests beside it; sizes are those T5 mixes by."""

from tfds_tasks import pronouns, reading
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
CHOICES = ("choice1", "choice2")
COMMITMENT = ("entailment", "contradiction", "neutral")
ENTAILMENT = ("entailment", "not_entailment")
INFERENCE = ["hypothesis", "premise"]
TEST_ONLY = {"test": "test"}


def _super_glue(name, format, classes, *metrics, **options):
    options.setdefault("source", f"super_glue/{name}:1.0.2")
    register(
        Task(
            name=f"super_glue/{name}",
            format=format,
            classes=classes,
            metrics=metrics,
            **options,
        ),
        aliases=_aliases(name),
    )


def _aliases(name):
    if name != "wsc":
        return [f"super_glue_{name}_v102"]
    simple = [f"super_glue_wsc_v102_simple_{use}" for use in ("train", "eval")]
    return ["super_glue/wsc.fixed", *simple]


_super_glue(
    "boolq",
    classification("boolq", ["passage", "question"], TRUTH),
    TRUTH,
    accuracy,
    divide="validation",
    rate=9427,
)
_super_glue(
    "cb",
    classification("cb", INFERENCE, COMMITMENT),
    COMMITMENT,
    mean_3class_f1,
    accuracy,
    divide="validation",
    rate=250,
)
_super_glue(
    "copa",
    classification("copa", ["choice1", "choice2", "premise", "question"], CHOICES),
    CHOICES,
    accuracy,
    divide="validation",
    rate=400,
)
_super_glue(
    "multirc",
    classification(
        "multirc", ["question", "answer", "paragraph"], TRUTH, clean=without_markup
    ),
    TRUTH,
    multirc,
    divide="train",
    rate=27243,
)
# The classes of ReCoRD and WSC are those TFDS names; the text is a name or an entity.
_super_glue(
    "record",
    reading.record,
    TRUTH,
    record,
    reader=Answers(),
    divide="train",
    rate=138854,
)
_super_glue(
    "rte",
    classification("rte", INFERENCE, ENTAILMENT),
    ENTAILMENT,
    accuracy,
    divide="validation",
    rate=2490,
)
_super_glue(
    "wic",
    classification("wic", ["sentence1", "sentence2", "word"], TRUTH),
    TRUTH,
    accuracy,
    divide="validation",
    rate=5428,
)
_super_glue(
    "wsc",
    pronouns.wsc,
    TRUTH,
    accuracy,
    source="super_glue/wsc.fixed:1.0.2",
    train_format=pronouns.wsc_true,
    reader=Referent(),
    divide="validation",
    rate=259,
)
_super_glue(
    "axb",
    classification(
        "rte", {"hypothesis": "sentence2", "premise": "sentence1"}, ENTAILMENT
    ),
    ENTAILMENT,
    splits=TEST_ONLY,
    shares="super_glue/rte",
    rate=0,
)
_super_glue(
    "axg",
    classification("rte", INFERENCE, ENTAILMENT),
    ENTAILMENT,
    splits=TEST_ONLY,
    shares="super_glue/rte",
    rate=0,
)

register(
    Task(
        name="dpr",
        source="definite_pronoun_resolution:1.1.0",
        format=pronouns.dpr,
        metrics=(accuracy,),
        reader=Text(),
        splits={"train": "train", "test": "test"},
        rate=1322,
        shares="super_glue/wsc",
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
        splits={"validation": "validation", "test": "test"},
        rate=0,
        shares="super_glue/wsc",
    ),
    aliases=["glue_wnli_v002_simple_eval"],
)
