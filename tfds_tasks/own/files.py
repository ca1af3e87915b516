"""Rows of CSV, TSV, JSON, Parquet and other text files, one at a time, as text."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfds_tasks.own import json_file, tables, text_file

FORMATS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
TABLES = (".csv", ".tsv", ".lines")  # of which options say how they are read
BATCH = 1024  # rows of Parquet held at a time


@dataclasses.dataclass(frozen=True)
class FileRow:
    """A row, and where it stands, so that an error can name the place.

    Attributes:
        file: path as it was given.
        values: {column: text}; what is absent or null is "".
        line: number from 1, where the file has lines.
        row: number from 1, where lines alone would not tell.
        unreadable: columns that hold bytes which are no text, such as pictures.
    """

    file: str
    values: dict[str, str]
    line: int | None = None
    row: int | None = None
    unreadable: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where the row stands, in words."""
        line = "" if self.line is None else f", line {self.line}"
        return f"{self.file}{line}" + ("" if self.row is None else f", row {self.row}")


def read(
    path: str | os.PathLike,
    *,
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8",
    quotes: bool = True,
    delimiter: str | None = None,
    line: str | None = None,
    format: str | None = None,
) -> Iterator[FileRow]:
    r"""Reads a file row by row; a broken one raises a ValueError that names its place.

    ```python
    for row in read("tickets.csv"):
        print(row.line, row.values["subject"])
    ```

    Args:
        path: local or gs://..., its ending one of `FORMATS`; all but Parquet may be
            followed by ".gz". With `delimiter`, `line` or `format` it may have any
            ending.
        columns: names of the columns of a table without a header.
        encoding: of text files.
        quotes: whether quotes in a table hold a field together.
        delimiter: what stands between the fields of a table, by default "," in CSV
            and "\t" in TSV.
        line: how the lines of a text file are written that is none of the others, such
            as "{label}:{kind} {text}".
        format: which of `FORMATS` it has whatever its ending, without the dot.
    """
    path = os.fspath(path)
    ending = form(path, delimiter, line, format)
    check_exists(path)
    if ending == ".parquet":
        return _parquet(path)
    if ending == ".lines":
        return _placed(path, tables.lines(path, line, encoding))
    if ending in TABLES:
        delimiter = delimiter or ("," if ending == ".csv" else "\t")
        rows = tables.rows(path, delimiter, columns, encoding, quotes)
        return _placed(path, rows)
    if columns is not None:
        raise ValueError(f"columns={columns!r}: {path} names its own")
    return _json(path, encoding)


def ending_of(path: str) -> str:
    """Returns the ending of a file in small letters, packed or not.

    >>> ending_of("a/b.CSV.gz"), ending_of("a.ndjson"), ending_of("train_5500.label")
    ('.csv', '.jsonl', '.label')
    """
    ending = os.path.splitext(path.lower().removesuffix(".gz"))[1]
    return {".ndjson": ".jsonl", ".pq": ".parquet"}.get(ending, ending)


def form(
    path: str,
    delimiter: str | None = None,
    line: str | None = None,
    format: str | None = None,
) -> str:
    """Returns which of `FORMATS` a file has, or ".lines": by its ending and options."""
    ending = ending_of(path) if format is None else f".{format}"
    if ending not in FORMATS or ending in TABLES:
        if line is not None:
            return ".lines"
        if delimiter is not None:
            return ".csv"
    if ending not in FORMATS or (ending == ".parquet" and path.endswith(".gz")):
        raise ValueError(
            f"{path}: ending {os.path.splitext(path)[1]!r}, expected one of "
            f'{", ".join(FORMATS)}; or, of other text, delimiter = "...", '
            'line = "{label} {text}" or format = "jsonl"'
        )
    return ending


def check_exists(path: str) -> None:
    """Raises an error if a file is not there."""
    try:
        if tf.io.gfile.isdir(path):
            raise ValueError(f"{path} is a folder, expected a file")
        if not tf.io.gfile.exists(path):
            raise FileNotFoundError(f"{path}: no such file")
    except tf.errors.OpError as error:
        raise OSError(f"{path}: {error.message}") from None


def _placed(path: str, rows: Iterator[tuple[int, dict]]) -> Iterator[FileRow]:
    for line, values in rows:
        yield FileRow(path, values, line)


def _json(path: str, encoding: str) -> Iterator[FileRow]:
    lines, before = True, 0
    for line, number, value in json_file.values(path, encoding):
        lines = lines and line > before  # as long as a line tells which row it is
        before = line
        row = FileRow(path, {}, line, None if lines else number)
        if not isinstance(value, dict):
            raise ValueError(
                f"{row.place}: {str(value)[:40]!r}, expected a JSON object such "
                'as {"text": "...", "label": "..."}'
            )
        yield dataclasses.replace(row, values=dict(_flat(value)))


def _parquet(path: str) -> Iterator[FileRow]:
    from pyarrow import ArrowInvalid, parquet

    with text_file.open_binary(path) as file:
        try:
            table = parquet.ParquetFile(file)
        except ArrowInvalid as error:
            raise ValueError(f"{path}: not a Parquet file ({error})") from None
        number = 0
        for batch in table.iter_batches(batch_size=BATCH):
            for values in batch.to_pylist():
                number += 1
                flat = dict(_flat(values))
                broken = tuple(name for name, text in flat.items() if text is None)
                flat = {name: text for name, text in flat.items() if text is not None}
                yield FileRow(path, flat, row=number, unreadable=broken)


def _flat(
    values: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, str | None]]:
    """Columns of nested objects, joined with dots; None for bytes that are no text."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
            continue
        try:
            yield prefix + name, as_text(value)
        except UnicodeDecodeError:
            yield prefix + name, None


def as_text(value: Any) -> str:
    """Writes a value as a file would have it.

    >>> [as_text(value) for value in ("a", 3, 3.5, True, None, b"b", ["x", 1])]
    ['a', '3', '3.5', 'true', '', 'b', 'x 1']
    """
    if value is None or value != value:  # NaN, which pandas writes for null
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return " ".join(map(as_text, value))
    return str(value)
