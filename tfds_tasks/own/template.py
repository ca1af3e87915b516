"""Templates such as "{subject} {body}": columns of a row as text."""

import dataclasses
import functools
import string
from collections.abc import Mapping

from tfds_tasks.registry import unknown


@dataclasses.dataclass(frozen=True)
class Template:
    """A text with columns in braces; doubled braces are braces.

    >>> Template("{question} choices: {a}, {b}").write(
    ...     {"question": "Tea?", "a": "yes", "b": "no", "other": "-"})
    'Tea? choices: yes, no'
    """

    text: str

    def __post_init__(self):
        if not self.columns:
            raise ValueError(
                f"template {self.text!r} has no column; expected some in braces, such "
                'as "{text}"'
            )

    @functools.cached_property
    def _parts(self) -> tuple[tuple[str, str | None], ...]:
        """(text, the column after it), ..."""
        try:
            parts = list(string.Formatter().parse(self.text))
        except ValueError as error:
            raise ValueError(
                f"template {self.text!r}: {error}; a brace as such is written twice"
            ) from None
        for _, column, form, conversion in parts:
            if column is not None and (not column.strip() or form or conversion):
                written = column + ("!" + conversion if conversion else "")
                written += ":" + form if form else ""
                raise ValueError(
                    f"template {self.text!r}: {{{written}}}, expected the name of a "
                    "column and nothing else in braces"
                )
        return tuple((text, column) for text, column, _, _ in parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, each once, in order."""
        names = (column for _, column in self._parts if column is not None)
        return tuple(dict.fromkeys(names))

    def missing(self, values: Mapping[str, str]) -> str | None:
        """Returns what is wrong if a row lacks a column; None if it has all."""
        for column in self.columns:
            if column not in values:
                nearest = unknown("column", column, values)
                return f"{nearest}; the columns are {', '.join(values) or 'none'}"
        return None

    def write(self, values: Mapping[str, str]) -> str:
        """Fills in the columns of a row."""
        pieces = (
            text + (values[column].strip() if column is not None else "")
            for text, column in self._parts
        )
        return "".join(pieces).strip()
