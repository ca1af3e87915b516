"""Rows into a file, in the format that its ending names."""

import contextlib
import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfds_tasks.own import files

BATCH = 1024  # rows of Parquet held at a time
Row = Mapping[str, Any]  # texts and numbers by column


def check_new(path: str) -> None:
    """Raises if a file cannot be written, or is there already."""
    if "://" in path:
        raise ValueError(f"output {path}: expected a local file")
    if path.lower().endswith(".gz"):
        raise ValueError(f"output {path}: expected one that is not packed")
    files.form(path)
    if os.path.exists(path):
        raise FileExistsError(
            f"output {path} exists and is not overwritten; expected a new name"
        )
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"output {path}: no folder {folder}; expected one")


def write(path: str, columns: Mapping[str, type], rows: Iterable[Row]) -> None:
    """Writes a new file, whole or not at all.

    Args:
        path: its ending one of `tfds_tasks.own.files.FORMATS`.
        columns: all there are, in order, with the type of their values, str or float.
        rows: what they hold; a row may lack columns.
    """
    half = f"{path}.half-written"
    try:
        _WRITERS[files.form(path)](half, columns, rows)
        check_new(path)
        os.rename(half, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(half)


def _text_file(path: str) -> Any:
    return open(path, "w", encoding="utf-8", newline="")


def _table(delimiter: str) -> Callable:
    def write_table(path: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        with _text_file(path) as file:
            writer = csv.DictWriter(
                file, list(columns), delimiter=delimiter, lineterminator="\n"
            )
            writer.writeheader()
            writer.writerows(rows)

    return write_table


def _json_lines(path: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
    with _text_file(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _json_array(path: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
    with _text_file(path) as file:
        before = "["
        for row in rows:
            file.write(f"{before}\n{json.dumps(row, ensure_ascii=False)}")
            before = ","
        file.write("\n]\n")


def _parquet(path: str, columns: Mapping[str, type], rows: Iterable[Row]) -> None:
    import pyarrow
    from pyarrow import parquet

    types = {str: pyarrow.string(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    with parquet.ParquetWriter(path, schema) as writer:
        for some in batches(rows, BATCH):
            writer.write_table(pyarrow.Table.from_pylist(list(some), schema))


def batches(rows: Iterable, size: int) -> Iterator[list]:
    """Puts rows together, `size` at a time; the last may be fewer."""
    batch = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


_WRITERS = {
    ".csv": _table(","),
    ".tsv": _table("\t"),
    ".jsonl": _json_lines,
    ".json": _json_array,
    ".parquet": _parquet,
}
