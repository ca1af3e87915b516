"""A user's file of rows, read as often as it is needed, checked once."""

import codecs
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tqdm import tqdm

from tfds_tasks.own import files
from tfds_tasks.own.declaration import KEYS, PARTED
from tfds_tasks.own.files import FileRow

BLOCK = 2**22  # bytes


class UserFile:
    """The rows of a file, from the first on whenever they are iterated over.

    Args:
        path: CSV, TSV, JSON lines, a JSON array, Parquet, or other text.
        columns, encoding, quotes, delimiter, line, format: how it is read, see
            `tfds_tasks.own.files.read`.
    """

    def __init__(
        self,
        path: str,
        columns: Sequence[str] | None = None,
        encoding: str = "utf-8",
        quotes: bool = True,
        **parted: str | None,
    ) -> None:
        self.path = path
        columns = None if columns is None else list(columns)
        self.options = {"columns": columns, "encoding": encoding, "quotes": quotes}
        self.options |= {key: value for key, value in parted.items() if value}
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise ValueError(
                f"encoding={encoding!r}, expected one that Python knows, such as utf-8"
            ) from None
        _check(self.options)
        files.form(path, **parted)
        files.check_exists(path)

    def __iter__(self) -> Iterator[FileRow]:
        return files.read(self.path, **self.options)

    @property
    def sha256(self) -> str:
        """What identifies its content."""
        digest = hashlib.sha256()
        with tf.io.gfile.GFile(self.path, "rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
        return digest.hexdigest()

    def check(self, text: Callable[[Mapping[str, str]], str]) -> tuple[int, list[str]]:
        """Reads all rows; returns their number, and the columns that there are.

        Args:
            text: writes a row as the model's input; what it complains of, or what is
                not Unicode, is an error that names the row.
        """
        number, columns = 0, {}
        for row in tqdm(self, "checking", unit=" rows", leave=False, disable=None):
            try:
                text(row.values)
                "".join([*row.values, *row.values.values()]).encode()
            except UnicodeEncodeError as error:
                letter = error.object[error.start]
                raise ValueError(f"{row.place}: {letter!r} is not Unicode") from None
            except ValueError as error:
                raise ValueError(f"{row.place}: {error}") from None
            columns.update(dict.fromkeys(row.values))
            number += 1
        if not number:
            raise ValueError(f"{self.path} has no rows; expected some")
        return number, list(columns)


def _check(options: Mapping[str, Any]) -> None:
    """Raises if an option is not one that a TOML file of tasks could have."""
    for key in PARTED:
        if key not in options:
            continue
        is_right, expected = KEYS[key]
        if not is_right(options[key]):
            raise ValueError(f"{key}={options[key]!r}, expected {expected}")
    for other in ("delimiter", "columns", "format"):
        if "line" in options and options.get(other) is not None:
            raise ValueError(f"{other}={options[other]!r}, expected none beside line")
