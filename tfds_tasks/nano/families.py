"""All families of tasks and the rows that they give."""

import functools
from collections.abc import Callable
from typing import Any

from tfds_tasks.nano import pairs, reading, single
from tfds_tasks.nano.forms import TASKS
from tfds_tasks.nano.grammar import HELD_OUT, Draw, Family, Text

HELD_OUT_ROWS = 312  # divides by all numbers of labels, and by the rows of a passage

# {grammar: {task: rows to train on}}; the place of a grammar is its seed.
_TRAIN_ROWS = {
    single.sentence: {"acceptability": 4000, "sentiment": 20000, "coreference": 2000},
    pairs.pair: {"paraphrase": 200, "similarity": 3000, "inference": 6000},
    pairs.word_in_context: {"word_in_context": 2000},
    reading.question: {"question_sentence": 2400, "yes_no": 2000},
    reading.several_answers: {"multi_answer": 4000},
    reading.cause_or_effect: {"cause_effect": 1200},
}


def _labels(task: str) -> tuple:
    if task == "similarity":
        return pairs.SIMILARITY
    return tuple(range(len(TASKS[task].words or (False, True))))


def _family(grammar: Callable[[Draw], list[Text]], seed: int) -> Family:
    train_rows = _TRAIN_ROWS[grammar]
    held_out = dict.fromkeys(HELD_OUT, HELD_OUT_ROWS)
    return Family(
        grammar,
        seed,
        sizes={task: {"train": rows} | held_out for task, rows in train_rows.items()},
        labels={task: _labels(task) for task in train_rows},
    )


FAMILIES = tuple(_family(grammar, seed) for seed, grammar in enumerate(_TRAIN_ROWS))
texts = functools.cache(Family.rows)


def rows(task: str, split: str) -> list[dict[str, Any]]:
    """Returns the rows of a task as dicts of Python values, without `idx`."""
    family = next(family for family in FAMILIES if task in family.sizes)
    return [as_row(task, text) for text in texts(family)[task][split]]


def as_row(task: str, text: Text) -> dict[str, Any]:
    """Turns a `Text` of a family into the row of one of its tasks."""
    fields = dict(zip(TASKS[task].keys, text.fields, strict=True))
    return fields | {"label": text.answers[task]} | text.extras.get(task, {})
