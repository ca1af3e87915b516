"""Rows of CSV, TSV, JSON and Parquet files, one at a time, as text by column."""

import codecs
import csv
import dataclasses
import gzip
import io
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import tensorflow as tf

FORMATS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
LONGEST = 16 * 2**20  # bytes of a field; Python's csv takes 128 kB
BATCH = 1024  # rows of Parquet held at a time


@dataclasses.dataclass(frozen=True)
class FileRow:
    """A row, and where it stands, so that an error can name the place.

    Attributes:
        file: path as it was given.
        line: number from 1, of a line in text files, of a row in others.
        values: {column: text}; what is absent or null is "".
        unit: what `line` counts.
    """

    file: str
    line: int
    values: dict[str, str]
    unit: str = "line"

    @property
    def place(self) -> str:
        """Where the row stands, in words."""
        return f"{self.file}, {self.unit} {self.line}"


def read(
    path: str | os.PathLike,
    *,
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8",
    quotes: bool = True,
) -> Iterator[FileRow]:
    """Reads a file row by row; a broken one raises a ValueError that names its place.

    ```python
    for row in read("tickets.csv"):
        print(row.line, row.values["subject"])
    ```

    Args:
        path: local or gs://..., its ending one of `FORMATS`; all but Parquet may be
            followed by ".gz".
        columns: names of the columns of a CSV or TSV file without a header.
        encoding: of text files.
        quotes: whether quotes in CSV and TSV hold a field together.
    """
    path = os.fspath(path)
    ending = form(path)
    check_exists(path)
    if ending == ".parquet":
        return _parquet(path)
    if ending in (".csv", ".tsv"):
        delimiter = "," if ending == ".csv" else "\t"
        return _table(path, delimiter, columns, encoding, quotes)
    if columns is not None:
        raise ValueError(f"columns={columns!r}: {path} names its own")
    return _json(path, encoding)


def form(path: str) -> str:
    """Returns which of `FORMATS` a file has, by its ending."""
    ending = os.path.splitext(path.lower().removesuffix(".gz"))[1]
    ending = {".ndjson": ".jsonl", ".pq": ".parquet"}.get(ending, ending)
    if ending not in FORMATS or (ending == ".parquet" and path.endswith(".gz")):
        raise ValueError(
            f"{path}: ending {os.path.splitext(path)[1]!r}, expected one of "
            f"{', '.join(FORMATS)}"
        )
    return ending


def check_exists(path: str) -> None:
    """Raises a FileNotFoundError that names the nearest folder there is."""
    if tf.io.gfile.isdir(path):
        raise ValueError(f"{path} is a folder, expected a file")
    if not tf.io.gfile.exists(path):
        raise FileNotFoundError(f"{path}: no such file")


def open_binary(path: str) -> BinaryIO:
    """Opens a local or remote file, unpacked if it is .gz."""
    file = tf.io.gfile.GFile(path, "rb") if "://" in path else io.FileIO(path)
    if path.lower().endswith(".gz"):
        return gzip.open(file)
    return file if "://" in path else io.BufferedReader(file)


def _lines(path: str, encoding: str) -> Iterator[str]:
    """Decoded lines with their ends."""
    with open_binary(path) as file:
        if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
            yield from io.TextIOWrapper(file, encoding=encoding, newline="")
            return
        for number, raw in enumerate(file, 1):
            if number == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            try:
                yield raw.decode(encoding)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}, column {error.start + 1}: byte "
                    f"0x{raw[error.start]:02x} is not {encoding}; say the file's "
                    'encoding, such as encoding = "latin-1"'
                ) from None


def _table(path, delimiter, columns, encoding, quotes):
    csv.field_size_limit(LONGEST)
    quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    reader = csv.reader(
        _lines(path, encoding), delimiter=delimiter, quoting=quoting, strict=True
    )
    names = None if columns is None else tuple(columns)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            hint = "; quotes = false takes quotes as letters" if quotes else ""
            raise ValueError(
                f"{path}, line {line}: {error}, expected {delimiter!r} between "
                f"fields{hint}"
            ) from None
        if cells is None:
            return
        if not cells:  # an empty line
            continue
        if names is None:
            names = _header(path, line, cells)
            continue
        if len(cells) != len(names):
            column = names[-1] if len(cells) > len(names) else names[len(cells)]
            raise ValueError(
                f"{path}, line {line}, column {column!r}: the line has {len(cells)} "
                f"fields, expected {len(names)}: {', '.join(names)}"
            )
        yield FileRow(path, line, dict(zip(names, cells, strict=True)))


def _header(path: str, line: int, cells: list[str]) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in cells)
    for number, name in enumerate(names, 1):
        if not name or names.count(name) > 1:
            problem = f"{name!r} stands twice" if name else "has no name"
            raise ValueError(
                f"{path}, line {line}, column {number}: {problem}; expected a header "
                'of distinct names, or columns = ["..."] for a file without one'
            )
    return names


def _json(path: str, encoding: str) -> Iterator[FileRow]:
    lines = _lines(path, encoding)
    first = next((line for line in lines if line.strip()), "")
    lines.close()
    if first.lstrip().startswith("["):
        yield from _json_array(path, encoding)
        return
    for number, text in enumerate(_lines(path, encoding), 1):
        if text.strip():
            value = _parse(path, text.rstrip(), number)
            yield _object(path, number, value, "line")


def _json_array(path: str, encoding: str) -> Iterator[FileRow]:
    for number, value in enumerate(_parse(path, "".join(_lines(path, encoding)), 1), 1):
        yield _object(path, number, value, "row")


def _parse(path: str, text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {line + error.lineno - 1}, column {error.colno}: "
            f"{error.msg}; expected a JSON object a line, or an array of objects"
        ) from None


def _object(path: str, line: int, value: Any, unit: str) -> FileRow:
    if not isinstance(value, dict):
        raise ValueError(
            f"{path}, {unit} {line}: {str(value)[:40]!r}, expected a JSON object such "
            'as {"text": "...", "label": "..."}'
        )
    return FileRow(path, line, dict(_flat(value)), unit)


def _parquet(path: str) -> Iterator[FileRow]:
    from pyarrow import ArrowInvalid, parquet

    with open_binary(path) as file:
        try:
            table = parquet.ParquetFile(file)
        except ArrowInvalid as error:
            raise ValueError(f"{path}: not a Parquet file ({error})") from None
        line = 0
        for batch in table.iter_batches(batch_size=BATCH):
            for values in batch.to_pylist():
                line += 1
                yield FileRow(path, line, dict(_flat(values)), "row")


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Columns of nested objects are joined with dots."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, as_text(value)


def as_text(value: Any) -> str:
    """Writes a value as a file would have it.

    >>> [as_text(value) for value in ("a", 3, 3.5, True, None, b"b", ["x", 1])]
    ['a', '3', '3.5', 'true', '', 'b', 'x 1']
    """
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return " ".join(map(as_text, value))
    return str(value)
