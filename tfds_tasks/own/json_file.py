"""Objects of a JSON file, one at a time: one a line, an array, or one after another."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tfds_tasks.own import text_file

EXPECTED = "expected a JSON object a line, or an array of objects"
_WHITE = re.compile(r"[ \t\r\n]*")
NEAR = 12  # letters: what was cut off in the middle fails this near to the end


class Value(NamedTuple):
    """A value of the file, the line on which it begins and its number from 1."""

    line: int
    row: int
    value: Any


def values(path: str, encoding: str) -> Iterator[Value]:
    """Reads the values of a file; a broken one raises a ValueError with its place."""
    first = next((x for x in text_file.chunks(path, encoding) if x.strip()), "")
    line = first.lstrip().split("\n", 1)[0]
    if line.startswith("[") or (line.startswith("{") and _opens_only(line)):
        yield from _one_after_another(_Text(path, encoding))
        return
    row = 0
    for number, text in enumerate(text_file.lines(path, encoding), 1):
        if not text.strip():
            continue
        row += 1
        try:
            yield Value(number, row, json.loads(text.rstrip()))
        except json.JSONDecodeError as error:
            raise _error(path, number, error.colno, error.msg) from None


def _opens_only(line: str) -> bool:
    """Whether a first line is the beginning of an object that goes on below."""
    return line.strip().rstrip("{").strip() == "" or line.rstrip().endswith(",")


def _error(path: str, line: int, column: int, problem: str) -> ValueError:
    return ValueError(f"{path}, line {line}, column {column}: {problem}; {EXPECTED}")


def _one_after_another(text: "_Text") -> Iterator[Value]:
    array = text.next_letter() == "["
    if array:
        text.step()
        if text.next_letter() == "]":
            text.step()
            return text.expect_end()
    for row in itertools.count(1):
        text.next_letter()
        line = text.line
        yield Value(line, row, text.value())
        letter = text.next_letter()
        if array and letter in (",", "]"):
            text.step()
            if letter == "]":
                return text.expect_end()
        elif array:
            raise text.error("Expecting ',' or ']' after an object")
        elif not letter:
            return None


class _Text:
    """The text of a file from the place on that was read last."""

    def __init__(self, path: str, encoding: str) -> None:
        self._path, self._chunks = path, text_file.chunks(path, encoding)
        self._text, self._at, self._parse = "", 0, json.JSONDecoder().raw_decode
        self.line, self._letters = 1, 0

    def next_letter(self) -> str:
        """Goes on to the next letter that is not white; "" at the end."""
        while True:
            rest = _WHITE.match(self._text, self._at).end()
            self._go_to(rest)
            if rest < len(self._text):
                return self._text[rest]
            if not self._more():
                return ""

    def step(self) -> None:
        """Goes on by a letter."""
        self._go_to(self._at + 1)

    def value(self) -> Any:
        """Reads the value that begins here."""
        while True:
            try:
                value, end = self._parse(self._text, self._at)
            except json.JSONDecodeError as error:
                wrong = error.pos - self._at
                near = error.pos >= len(self._text) - NEAR
                if (near or error.msg.startswith("Unterminated")) and self._more():
                    continue
                self._go_to(self._at + wrong)
                raise self.error(error.msg) from None
            self._go_to(end)
            return value

    def expect_end(self) -> None:
        """Complains of what comes after the end."""
        if self.next_letter():
            raise self.error("Extra data after the array")

    def error(self, problem: str) -> ValueError:
        """Says what is wrong here."""
        return _error(self._path, self.line, self._letters + 1, problem)

    def _more(self) -> bool:
        """Reads on, as much as there is already: a long value is not tried often."""
        self._text, self._at = self._text[self._at :], 0
        wanted, size = max(len(self._text), 1), 0
        parts = [self._text]
        while size < wanted and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            size += len(chunk)
        self._text = "".join(parts)
        return size > 0

    def _go_to(self, at: int) -> None:
        passed = self._text[self._at : at]
        ends = passed.count("\n")
        self.line += ends
        last = len(passed) - passed.rfind("\n") - 1
        self._letters = last if ends else self._letters + len(passed)
        self._at = at
