"""What a model answers to rows: new columns, and what they come to."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from experiments.runs.row_text import RowText
from hypertf.export.answerer import Answerer
from tfds_tasks.own.files import FileRow

SHOWN = 10  # answers in a summary
TRIMMED = "trimmed"  # kept beside the columns, for the summary


def labels_asked(model: Answerer, task: str) -> list[str]:
    """Lists the labels whose probabilities the model tells; none for free text."""
    tells = "classify" in model.card.get("signatures", ())
    return list((tells and model.labels(task)) or ())


def new_columns(labels: Sequence[str]) -> dict[str, type]:
    """Names the columns that are added, with the type of their values.

    >>> list(new_columns(["no", "yes"]))
    ['answer', 'score', 'p(no)', 'p(yes)']
    """
    shares = {f"p({label})": float for label in labels}
    return {"answer": str, "score": float, **shares}


def predicted(model: Answerer, task: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Answers texts, all at once: the new columns of each, and whether it was cut."""
    size, labels = len(texts), labels_asked(model, task)
    rows = [
        {"answer": a.text, "score": _rounded(a.score), TRIMMED: a.trimmed}
        for a in model.predict(texts, task, batch_size=size)
    ]
    if labels:
        found = model.classify(texts, task, batch_size=size)
        for row, shares in zip(rows, (f.probabilities for f in found), strict=True):
            row.update({f"p({label})": _rounded(shares[label]) for label in labels})
    return rows


def _rounded(number: float) -> float:
    """Six digits: those after them are rounding's."""
    return float(f"{number:.6g}")


@dataclasses.dataclass
class Summary:
    """What came out of a file.

    Attributes:
        rows: of the file.
        answered: those that were answered now, not before a stop.
        seconds: that took.
        answers: how often each answer was given, most often first, if the task has
            labels.
        trimmed: rows whose text was too long and lost its end.
        scored: rows that have an answer to compare with.
        scores: {metric: percent}, of those.
        notes: what else there is to say.
    """

    rows: int = 0
    answered: int = 0
    seconds: float = 0.0
    answers: dict[str, int] = dataclasses.field(default_factory=dict)
    trimmed: int = 0
    scored: int = 0
    scores: dict[str, float] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows"]
        if self.answered:
            speed = self.answered / max(self.seconds, 1e-9)
            before = self.rows - self.answered
            lines[0] += f", {before:,} of them before" if before else ""
            lines[0] += f"; {self.seconds:.1f} s, {speed:.1f} rows a second"
        if self.answers:
            counts = [f"{text!r} {n:,}" for text, n in self.answers.items()]
            others = len(counts) - SHOWN
            more = [f"and {others:,} others"] if others > 0 else []
            lines.append("answers: " + ", ".join([*counts[:SHOWN], *more]))
        if self.trimmed:
            lines.append(f"{self.trimmed:,} texts were too long: their ends were cut")
        if self.scores:
            scores = ", ".join(f"{k} {v:.2f}" for k, v in self.scores.items())
            lines.append(f"{scores} on {self.scored:,} rows with a target")
        return "\n".join([*lines, *self.notes])


class Joined:
    """Rows with their new columns, and the summary of those that were seen.

    Args:
        rows: as they stand in the file.
        added: what `predicted` gave for each.
        reader: of the task.
    """

    def __init__(
        self, rows: Iterable[FileRow], added: Iterable[dict], reader: RowText
    ) -> None:
        self._rows, self._added, self._reader = rows, added, reader
        self._answers = collections.Counter()
        self._examples, self._predictions, self._strange = [], [], []
        self.summary = Summary()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row, added in zip(self._rows, self._added, strict=True):
            self.summary.rows += 1
            self.summary.trimmed += added.pop(TRIMMED)
            self._answers[added["answer"]] += 1
            self._compare(row, added["answer"])
            yield {**row.values, **added}

    def _compare(self, row: FileRow, answer: str) -> None:
        task, target = self._reader.task, self._reader.target(row.values)
        if task is None or target is None:
            return
        if task.choices and target not in task.choices:
            self._strange.append(f"{row.place}: {target!r}")
            return
        example = {"targets": target}
        self._examples.append(example if task.choices else {**row.values, **example})
        self._predictions.append(answer)

    def finish(self, labelled: bool) -> Summary:
        """Returns the summary, after the last row."""
        summary = self.summary
        if labelled:
            summary.answers = dict(self._answers.most_common())
        if self._examples:
            summary.scored = len(self._examples)
            try:
                task = self._reader.task
                summary.scores = task.score(self._examples, self._predictions)
            except KeyError as error:
                summary.notes.append(f"no score: that takes a column {error}")
        if self._strange:
            summary.notes.append(
                f"{len(self._strange):,} rows have a target that is no label, and do "
                f"not count in the score: {self._strange[0]}"
            )
        return summary
