"""SQuAD, TriviaQA and the twelve sets of MRQA."""

from collections.abc import Callable

from tfds_tasks import reading
from tfds_tasks.chunks import mrqa, to_chunks
from tfds_tasks.registry import register
from tfds_tasks.scores import Answers, Spans, squad, trivia_qa
from tfds_tasks.scores.readers import Reader
from tfds_tasks.task import Task

SQUAD = "squad/v1.1:3.0.0"
DEVELOPED = {"train": "train", "validation": "validation"}
# TFDS calls the only split of these "test"; the papers validate on it.
OUT_OF_DOMAIN = {"validation": "test"}


def _squad(name: str, format: Callable, reader: Reader, alias: str, **options) -> None:
    register(
        Task(
            name=name,
            source=SQUAD,
            format=format,
            metrics=(squad,),
            reader=reader,
            splits=DEVELOPED,
            **options,
        ),
        aliases=[alias],
    )


_squad(
    "squad",
    reading.squad,
    Answers(),
    "squad_v010_allanswers",
    columns={"em": "SQuAD (EM)", "f1": "SQuAD (F1)"},
    group="SQuAD",
)
_squad("squad/span", reading.squad_span, Spans(), "squad_v010_allanswers_span")
_squad(
    "squad/context_free",
    reading.squad_context_free,
    Answers(),
    "squad_v010_context_free",
)

register(
    Task(
        name="trivia_qa",
        source="trivia_qa/rc:1.1.0",
        format=reading.trivia_qa_evaluation,
        train_format=reading.trivia_qa,
        metrics=(trivia_qa,),
        reader=Answers(),
        splits=DEVELOPED,  # the answers of the test set are secret
    ),
    aliases=["trivia_qa_v010"],
)


def _mrqa(name: str, **options) -> None:
    register(
        Task(
            name=f"mrqa/{name}",
            source=f"mrqa/{name}:1.0.0",
            format=mrqa,
            chunks=to_chunks,
            metrics=(squad,),
            reader=Answers(),
            mixture="mrqa",
            **options,
        )
    )


for _name in (
    "squad",
    "hotpot_qa",
    "trivia_qa",
    "news_qa",
    "search_qa",
    "natural_questions",
):
    _mrqa(_name, splits=DEVELOPED)
for _name in (
    "bio_asq",
    "drop",
    "duo_rc",
    "race",
    "relation_extraction",
    "textbook_qa",
):
    _mrqa(_name, splits=OUT_OF_DOMAIN, rate=0)
