"""Rows of text files that have a line each: CSV and the like, or lines of a pattern."""

import csv
import re
from collections.abc import Iterator, Sequence

from tfds_tasks.own import text_file
from tfds_tasks.own.template import Template

LONGEST = 16 * 2**20  # letters of a field; Python's csv takes 128 kB
# What Python's csv says: what is said instead, with what to do.
SAID = {
    "new-line character seen": "a line ends in \\r alone; expected \\n or \\r\\n",
    "field larger than": f"a field has more than {LONGEST:,} letters",
    "unexpected end of data": "a quote opens a field and none closes it; {quotes}",
    "expected after": "letters stand between the quote that closes a field and the "
    "next {delimiter!r}; {quotes}",
}
QUOTES = "expected quotes around a whole field, or quotes = false, which takes them as "
QUOTES += "letters"


def rows(
    path: str,
    delimiter: str,
    columns: Sequence[str] | None,
    encoding: str,
    quotes: bool,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Reads (line, {column: text}) of a table.

    Columns are named by the header; or by `columns`, and then a header is no row: a
    first line of nothing but such names.
    """
    names = None
    for line, cells in _cells(path, delimiter, encoding, quotes):
        if names is None:
            first = [cell.strip() for cell in cells]
            if columns is None or set(first) <= set(columns):
                names = _header(path, line, first)
                continue
            names = tuple(columns)
        if len(cells) != len(names):
            column = names[-1] if len(cells) > len(names) else names[len(cells)]
            more = len(cells) > len(names) and quotes
            hint = (
                f"; a field with {delimiter!r} in it stands in quotes" if more else ""
            )
            raise ValueError(
                f"{path}, line {line}, column {column!r}: the line has {len(cells)} "
                f"fields, expected {len(names)}: {', '.join(names)}{hint}"
            )
        yield line, dict(zip(names, cells, strict=True))


def _cells(path, delimiter, encoding, quotes):
    """(line, fields) of each line that is not empty."""
    csv.field_size_limit(LONGEST)
    quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    lines = text_file.lines(path, encoding)
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            said = [text for words, text in SAID.items() if words in str(error)]
            problem = (said or [str(error)])[0].format(
                delimiter=delimiter, quotes=QUOTES
            )
            raise ValueError(f"{path}, line {line}: {problem}") from None
        if cells is None:
            return
        if cells:
            yield line, cells


def _header(path: str, line: int, names: Sequence[str]) -> tuple[str, ...]:
    for number, name in enumerate(names, 1):
        if not name or names.count(name) > 1:
            problem = f"{name!r} stands twice" if name else "has no name"
            raise ValueError(
                f"{path}, line {line}, column {number}: {problem}; expected a header "
                'of distinct names, or columns = ["..."] for a file without one'
            )
    return tuple(names)


def pattern(line: str) -> re.Pattern:
    """Makes of "{label}:{kind} {text}" what finds the columns of a line.

    >>> pattern("{label}:{kind} {text}").fullmatch("LOC:city Where is it ?").groups()
    ('LOC', 'city', 'Where is it ?')
    """
    parts = Template(line).parts
    last = max(i for i, (_, column) in enumerate(parts) if column is not None)
    names = [column for _, column in parts if column is not None]
    written = ""
    for number, (text, column) in enumerate(parts):
        written += re.escape(text)
        if column is None:
            continue
        if names.count(column) > 1 or (written.endswith(")") and not text):
            raise ValueError(
                f"line {line!r}: {{{column}}}, expected each column once, and some "
                "text between two"
            )
        written += "(.*)" if number == last else "(.*?)"
    return re.compile(written)


def lines(path: str, line: str, encoding: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Reads (line, {column: text}) of a file whose lines are all written alike.

    Args:
        line: how, such as "{label}:{kind} {text}"; each column ends where the text
            after it begins first.
    """
    found, columns = pattern(line), Template(line).columns
    for number, text in enumerate(text_file.lines(path, encoding), 1):
        text = text.rstrip("\r\n")
        if not text.strip():
            continue
        match = found.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{path}, line {number}: {text[:40]!r} is not as line = {line!r}"
            )
        yield number, dict(zip(columns, match.groups(), strict=True))
