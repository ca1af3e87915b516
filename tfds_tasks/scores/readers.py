"""From text to the values that metrics compare.

A reader has two methods. `target(example)` reads what was expected, out of an example
as `task.to_text` gives it; `prediction(text, example)` reads what the model wrote. Text
that cannot be read becomes a value that is never right: -1 for a label.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

NOT_READ = -1
Example = Mapping[str, Any]  # as `Task.to_text` gives it

DETERMINERS = re.compile(
    "(a|an|each|every|few|her|his|many|much|my|our|some|that|the|their|these|this|"
    "those|which|whose|your)"
)


class Reader(Protocol):
    """What reads the targets and the predictions of a task."""

    def target(self, example: Example) -> Any:
        """Reads the value that was expected."""

    def prediction(self, text: str, example: Example) -> Any:
        """Reads the value that the model wrote."""


@dataclass(frozen=True)
class Labels:
    """The number of a label; the text must be the label to the letter.

    >>> reader = Labels(("entailment", "not_entailment"))
    >>> reader.target({"targets": "not_entailment"})
    1
    >>> [reader.prediction(text, {}) for text in ("entailment", "Entailment", "")]
    [0, -1, -1]
    """

    classes: tuple[str, ...]

    def __post_init__(self):
        object.__setattr__(self, "classes", tuple(self.classes))

    def target(self, example: Example) -> int:
        """Reads the number of the expected label."""
        return self._number(example["targets"])

    def prediction(self, text: str, example: Example) -> int:
        """Reads the number of the label that was written, -1 if it is none."""
        return self._number(text)

    def _number(self, text: str) -> int:
        return self.classes.index(text) if text in self.classes else NOT_READ


@dataclass(frozen=True)
class Number:
    """A number as Python reads it, so " 3.8 ", "4" and "1e0" too, and even "nan".

    >>> [Number().prediction(text, {}) for text in ("3.8", "3,8", "four")]
    [3.8, -1.0, -1.0]
    """

    def target(self, example: Example) -> float:
        """Reads the expected number."""
        return self._number(example["targets"])

    def prediction(self, text: str, example: Example) -> float:
        """Reads the number that was written, -1 if it is none."""
        return self._number(text)

    def _number(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return float(NOT_READ)


@dataclass(frozen=True)
class Text:
    """The text itself, in lower case if asked.

    >>> Text().prediction("Tom ", {}), Text(lower=True).prediction("TOM", {})
    ('Tom ', 'tom')
    """

    lower: bool = False

    def target(self, example: Example) -> str:
        """Reads the expected text."""
        return self._text(example["targets"])

    def prediction(self, text: str, example: Example) -> str:
        """Reads the text that was written."""
        return self._text(text)

    def _text(self, text: str) -> str:
        return text.lower() if self.lower else text


@dataclass(frozen=True)
class Answers:
    """A text to be held against every answer in `example["answers"]`.

    An example that has none, as TriviaQA's have in training, is held against its
    target.

    >>> Answers().target({"targets": "Reed", "answers": ["Ben Reed", "Reed"]})
    ['Ben Reed', 'Reed']
    >>> Answers().target({"targets": "Reed"})
    ['Reed']
    """

    def target(self, example: Example) -> list[str]:
        """Reads all answers that are right."""
        return list(example.get("answers", [example["targets"]]))

    def prediction(self, text: str, example: Example) -> str:
        """Reads the text that was written."""
        return text


@dataclass(frozen=True)
class Spans:
    """As `Answers`, where the model writes the first and last word's place.

    The places count the words of `example["context"]`, from 0. Text that names no
    place is the empty answer.

    >>> example = {"context": "It opened in 1932.", "answers": ["in 1932"]}
    >>> Spans().prediction("start: 2 end: 3", example)
    'in 1932'
    >>> Spans().prediction("in 1932", example)
    ''
    """

    def target(self, example: Example) -> list[str]:
        """Reads all answers that are right."""
        return list(example["answers"])

    def prediction(self, text: str, example: Example) -> str:
        """Reads the words of the context at the places that were written."""
        words = _words(text)
        try:
            start, end = int(words[1]), int(words[3])
        except (IndexError, ValueError):
            return ""
        return " ".join(_words(example["context"])[start : end + 1])


def _words(text: str) -> list[str]:
    return re.sub(r"\W", " ", text).split()


@dataclass(frozen=True)
class Referent:
    """Whether the text names the referent in `example["targets"]`: 1, or 0, or -1.

    What WSC and WNLI ask when the model writes whom a pronoun means. Case and
    determiners do not count, and it is enough that the words of one name are among
    those of the other, unless just one of the two has an apostrophe. Text that holds
    no name is -1.

    >>> example = {"targets": "the clogged drain", "label": 1}
    >>> [Referent().prediction(text, example) for text in ("Drain", "hair", "the")]
    [1, 0, -1]
    >>> Referent().prediction("hat", {"targets": "Bob's hat"})
    0
    """

    def target(self, example: Example) -> int:
        """Reads whether the referent of the row is the right one, 1 or 0."""
        return int(example["label"])

    def prediction(self, text: str, example: Example) -> int:
        """Reads whether the text names the referent: 1, or 0; -1 without any name."""
        guess, referent = _name(text), _name(example["targets"])
        if not guess:
            return NOT_READ  # a 0 would be right wherever the label is 0
        if ("'" in guess) != ("'" in referent):
            return 0
        # A name without words is one empty word: no words would be among any others.
        guess, referent = set(guess.split(" ")), set(referent.split(" "))
        return int(guess <= referent or referent <= guess)


def _name(text: str) -> str:
    words = text.strip().lower().split(" ")
    return " ".join(word for word in words if not DETERMINERS.fullmatch(word))
