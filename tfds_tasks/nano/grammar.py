"""What all grammars share: words, a draw that is the same everywhere, and the split.

A grammar is a function of a `Draw` that returns a list of `Text`: texts that stay
together in one split, each with its answer for every task of the family. Tasks of a
family thus read the very same texts and answer them differently.
"""

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

WOMEN = ("anna", "dora", "emma", "kate")
MEN = ("ben", "carl", "hugo", "leo")
NAMES = WOMEN + MEN
JOBS = ("cook", "judge", "nurse", "pilot", "guard", "clerk")
# Verbs of one meaning, friendly ones and hostile ones.
FRIENDLY = (("helped", "aided"), ("praised", "lauded"))
HOSTILE = (("blamed", "accused"), ("hurt", "harmed"))
HELD_OUT = ("validation", "test")
HELD_OUT_SHARE = 0.15  # of the texts, for each of the two
MOST_REPEATS = 1000  # texts drawn again, one after the other, before a grammar is empty


class Draw:
    """Random choices that depend on the seed alone.

    Python promises the sequence of `random()` for a seed in all versions, but not
    that of the other methods; so all choices are made from it.
    """

    def __init__(self, seed: int):
        self._random = random.Random(seed).random

    def below(self, number: int) -> int:
        """Draws a whole number that is at least 0 and less than `number`."""
        return int(self._random() * number)

    def chance(self, probability: float) -> bool:
        """Draws True as often as the probability says."""
        return self._random() < probability

    def one(self, options: Sequence) -> Any:
        """Draws one of the options, each being as likely."""
        return options[self.below(len(options))]

    def other(self, options: Sequence, *taken: object) -> Any:
        """Draws one of the options that are not taken."""
        return self.one([option for option in options if option not in taken])

    def several(self, options: Sequence, count: int) -> list:
        """Draws `count` different options, in random order."""
        options = list(options)
        return [options.pop(self.below(len(options))) for _ in range(count)]


@dataclasses.dataclass(frozen=True)
class Text:
    """One input and its answers.

    Attributes:
        fields: the texts, in the order of the keys of each task.
        answers: {task: label}; a task that is absent does not use this text.
        extras: {task: {feature: value}} for features that are neither text nor label.
    """

    fields: tuple[str, ...]
    answers: Mapping[str, int | float]
    extras: Mapping[str, Mapping] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    """Tasks that draw their texts from one grammar.

    Attributes:
        grammar: function of a `Draw` to a list of `Text`.
        seed: of the draws.
        sizes: {task: {split: number of rows}}.
        labels: {task: all its labels}, each of which gets as many rows.
    """

    grammar: Callable
    seed: int
    sizes: Mapping[str, Mapping[str, int]]
    labels: Mapping[str, tuple]

    def rows(self) -> dict[str, dict[str, list[Text]]]:
        """Draws {task: {split: [Text]}}: no text in two splits, labels balanced.

        Every new text is dealt to one split. Each task takes it if the task still
        needs a text of that label there, so small tasks read texts of large ones.
        """
        draw, seen = Draw(self.seed), set()
        wanted = {
            (task, split, label): size // len(self.labels[task])
            for task, splits in self.sizes.items()
            for split, size in splits.items()
            for label in self.labels[task]
        }
        rows = {task: {split: [] for split in self.sizes[task]} for task in self.sizes}
        repeats = 0
        while any(wanted.values()):
            texts = self.grammar(draw)
            split = _deal(draw)
            shared = _shared_fields(texts)
            repeats = repeats + 1 if shared in seen else 0
            if repeats > MOST_REPEATS:
                missing = {place: count for place, count in wanted.items() if count}
                raise ValueError(
                    f"{self.grammar.__name__} has too few texts: {missing}"
                )
            if repeats:
                continue
            seen.add(shared)
            for task in self.sizes:
                if _take(task, split, texts, wanted):
                    rows[task][split] += texts
        return rows


def _shared_fields(texts: list[Text]) -> tuple[str, ...]:
    """What decides the split: all fields of a single text, a passage of several."""
    columns = zip(*(text.fields for text in texts), strict=True)
    return tuple(column[0] for column in columns if len(set(column)) == 1)


def _deal(draw: Draw) -> str:
    place = int(draw.below(100) / (100 * HELD_OUT_SHARE))
    return HELD_OUT[place] if place < len(HELD_OUT) else "train"


def _take(
    task: str, split: str, texts: list[Text], wanted: dict[tuple[str, str, Any], int]
) -> bool:
    """Whether the task wants all of these texts; if so, counts them off."""
    if any(task not in text.answers for text in texts):
        return False
    needed = Counter((task, split, text.answers[task]) for text in texts)
    if any(wanted[place] < count for place, count in needed.items()):
        return False
    for place, count in needed.items():
        wanted[place] -= count
    return True
