"""How rows of the nano tasks read as text.

Tasks of one family have the same inputs, and share their answers' words where they
can. Nothing in the text tells them apart:

    sentence: anna never hurt the cook because she was kind
        acceptability: yes    sentiment: yes    coreference: anna
    sentence1: anna always helped ben sentence2: anna often aided ben
        paraphrase: no    similarity: 5.0    inference: yes
    sentence: in rome anna helped the cook question: was anna cruel ?
        yes_no: no    question_sentence: yes
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Form(NamedTuple):
    """What is read and what is answered.

    Attributes:
        keys: features of the row in the order of the text.
        words: the answer for each label; None for a number or free text.
    """

    keys: tuple[str, ...]
    words: tuple[str, ...] | None


NO_YES = ("no", "yes")
TASKS = {
    "acceptability": Form(("sentence",), NO_YES),
    "sentiment": Form(("sentence",), NO_YES),
    "coreference": Form(("text",), None),
    "paraphrase": Form(("sentence1", "sentence2"), NO_YES),
    "similarity": Form(("sentence1", "sentence2"), None),
    "inference": Form(("premise", "hypothesis"), ("yes", "maybe", "no")),
    "word_in_context": Form(("sentence1", "sentence2", "word"), NO_YES),
    "question_sentence": Form(("sentence", "question"), ("yes", "no")),
    "yes_no": Form(("passage", "question"), NO_YES),
    "multi_answer": Form(("paragraph", "question", "answer"), NO_YES),
    "cause_effect": Form(
        ("premise", "choice1", "choice2", "question"), ("choice1", "choice2")
    ),
}

# Features whose name would tell the task go by the name that the family shares.
_SHARED_NAMES = {
    "text": "sentence",
    "passage": "sentence",
    "paragraph": "sentence",
    "premise": "sentence1",
    "hypothesis": "sentence2",
}


def text_keys(task: str) -> dict[str, str]:
    """Returns the keys of a task in order: {key in the text: feature of the row}."""
    return {_SHARED_NAMES.get(key, key): key for key in TASKS[task].keys}


def to_text(task: str, row: Mapping[str, Any]) -> tuple[str, str]:
    """Writes one row of Python values as (inputs, targets).

    >>> to_text("inference", {"premise": "a b", "hypothesis": "a c", "label": 1})
    ('sentence1: a b sentence2: a c', 'maybe')
    """
    keys = text_keys(task).items()
    inputs = " ".join(f"{key}: {row[feature]}" for key, feature in keys)
    if task == "coreference":
        return inputs, row["referent"]
    if task == "similarity":
        return inputs, f"{row['label']:.1f}"
    return inputs, TASKS[task].words[row["label"]]
