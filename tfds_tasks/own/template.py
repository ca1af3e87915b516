"""Templates such as "{subject} {body}": columns of a row as text."""

import dataclasses
import functools
import re
from collections.abc import Mapping

from tfds_tasks.registry import unknown

# A doubled brace, a column in braces, or a brace that is neither.
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


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
    def parts(self) -> tuple[tuple[str, str | None], ...]:
        """(text, the column after it or None), ..."""
        parts, text, end = [], "", 0
        for match in _BRACES.finditer(self.text):
            text += self.text[end : match.start()]
            end = match.end()
            if match[0] in ("{{", "}}"):
                text += match[0][0]
            elif match[1] is None:
                raise ValueError(
                    f"template {self.text!r}: {match[0]!r} at letter "
                    f"{match.start() + 1} is alone; a brace as such is written twice"
                )
            elif not match[1].strip():
                raise ValueError(
                    f"template {self.text!r}: {match[0]}, expected the name of a "
                    "column in braces"
                )
            else:
                parts.append((text, match[1].strip()))
                text = ""
        return (*parts, (text + self.text[end:], None))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, each once, in order."""
        names = (column for _, column in self.parts if column is not None)
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
            for text, column in self.parts
        )
        return "".join(pieces).strip()
