"""The benchmarks that tasks may belong to, and the forms that their servers take.

What a server takes of a task is part of the task's declaration: `Task.submission`.
"""

from dataclasses import dataclass

# How papers write the names; a task names its benchmark in `Task.benchmark`.
BENCHMARKS = {"glue": "GLUE", "super_glue": "SuperGLUE"}


@dataclass(frozen=True)
class Choice:
    """The server's form of each class; a text that is no class becomes the first.

    >>> form = Choice(("false", "true"))
    >>> form.label(1), form.label(-1), form.accepts("True")
    ('true', None, False)
    """

    labels: tuple[str | int, ...]

    def __post_init__(self):
        object.__setattr__(self, "labels", tuple(self.labels))

    @property
    def fallback(self) -> str | int:
        """The label of a row whose text cannot be read."""
        return self.labels[0]

    def label(self, number: int) -> str | int | None:
        """Returns the label of a class by its number, None if there is no such one."""
        return self.labels[number] if 0 <= number < len(self.labels) else None

    def accepts(self, label: object) -> bool:
        """Tells whether a label in a file is one that the server knows."""
        return (type(label), label) in [(type(known), known) for known in self.labels]


@dataclass(frozen=True)
class Scale:
    """A number between two others; a text that is none becomes their middle."""

    low: float
    high: float

    @property
    def fallback(self) -> str:
        """The label of a row whose text cannot be read."""
        return self.label((self.low + self.high) / 2)

    def label(self, number: float) -> str | None:
        """Writes a number as the server reads it, None if it lies outside the scale."""
        return f"{number:.3f}" if self.low <= number <= self.high else None

    def accepts(self, label: object) -> bool:
        """Tells whether a label in a file is a number of the scale."""
        try:
            return self.label(float(label)) is not None
        except (TypeError, ValueError):
            return False


@dataclass(frozen=True)
class Words:
    """Any text; where there is none, the label is empty."""

    fallback = ""

    def label(self, text: str) -> str | None:
        """Strips the space around a text, None if nothing is left."""
        return text.strip() or None

    def accepts(self, label: object) -> bool:
        """Tells whether a label in a file is text."""
        return isinstance(label, str)


@dataclass(frozen=True)
class File:
    """The file that a server takes of a task.

    Attributes:
        name: of the file; "....tsv" for GLUE, "....jsonl" for SuperGLUE.
        form: the labels that it holds.
        rows: how many the test set has, numbered from 0.
        index: the key of an example that numbers the rows.
    """

    name: str
    form: Choice | Scale | Words
    rows: int
    index: str = "idx"
