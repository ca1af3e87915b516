"""The rows of a declared task as text, each checked, one at a time."""

import contextlib
import dataclasses
import glob
import hashlib
import os
import re
from collections.abc import Iterator, Sequence

import tensorflow as tf
import tensorflow_datasets as tfds

from tfds_tasks import sources
from tfds_tasks.own import files
from tfds_tasks.own.declaration import Declaration
from tfds_tasks.own.files import FileRow
from tfds_tasks.own.template import Template
from tfds_tasks.registry import unknown

TFDS = "tfds:"
MOST_LABELS = 1000
_PARTED = re.compile(r"(?P<name>[^\[]+)(\[(?P<split>.+)\])?")


@dataclasses.dataclass(frozen=True)
class TextRow:
    """A row as the model sees it; `number` counts the rows of the split from 0."""

    number: int
    inputs: str
    targets: str
    place: str


def text_rows(
    declaration: Declaration, split: str, data_dir: str | None = None
) -> Iterator[TextRow]:
    """Reads and checks the rows that the sources of a split hold."""
    inputs, targets = Template(declaration.inputs), Template(declaration.targets)
    number = 0
    for row in _file_rows(declaration, split, data_dir):
        problem = inputs.missing(row.values)
        if problem:
            raise _error(declaration, row, None, problem)
        if _is_left_out(declaration, inputs, row):
            continue
        yield TextRow(
            number,
            inputs.write(row.values),
            _target(declaration, targets, row, split),
            row.place,
        )
        number += 1


def labels_in_train(declaration: Declaration, data_dir: str | None) -> list[str]:
    """Lists the different targets of train, sorted."""
    seen = set()
    free = dataclasses.replace(declaration, labels=None, metrics=())
    for row in text_rows(free, "train", data_dir):
        seen.add(row.targets)
        if len(seen) > MOST_LABELS:
            raise ValueError(
                f"[{declaration.name}] labels = 'from train': more than {MOST_LABELS} "
                f"different ones by {row.place}; expected fewer, or no labels for free "
                "text"
            )
    return sorted(seen)


def _is_left_out(declaration: Declaration, inputs: Template, row: FileRow) -> bool:
    if declaration.empty != "keep":
        for column in inputs.columns:
            if row.values[column].strip():
                continue
            if declaration.empty == "skip":
                return True
            raise _error(
                declaration,
                row,
                column,
                'empty text; expected some, or empty = "skip" or "keep"',
            )
    return False


def _target(
    declaration: Declaration, template: Template, row: FileRow, split: str
) -> str:
    """The answer as the model writes it; "" if a test row has none."""
    hidden = split == "test" and not any(
        row.values.get(column, "").strip() for column in template.columns
    )
    if hidden:
        return ""
    problem = template.missing(row.values)
    if problem:
        raise _error(declaration, row, None, problem)
    text = template.write(row.values)
    column = template.columns[0]
    if not text:
        raise _error(declaration, row, column, "empty; expected an answer")
    if declaration.labels is None:
        return text
    if text not in declaration.labels:
        raise _error(
            declaration, row, column, unknown("label", text, declaration.labels)
        )
    return declaration.labels[text]


def _error(
    declaration: Declaration, row: FileRow, column: str | None, problem: str
) -> ValueError:
    where = row.place if column is None else f"{row.place}, column {column!r}"
    return ValueError(f"[{declaration.name}] {where}: {problem}")


def _file_rows(
    declaration: Declaration, split: str, data_dir: str | None
) -> Iterator[FileRow]:
    for source in declaration.files[split]:
        if is_tfds(source):
            yield from _tfds_rows(source, split, data_dir)
            continue
        table = files.form(source) in (".csv", ".tsv")
        try:
            yield from files.read(
                source,
                columns=declaration.columns if table else None,
                encoding=declaration.encoding,
                quotes=declaration.quotes,
            )
        except (ValueError, OSError) as error:
            raise type(error)(f"[{declaration.name}] {error}") from None


def sources_of(pattern: str, folder: str) -> list[str]:
    """Finds the sources that a value in a TOML file of a folder names."""
    if pattern.startswith(TFDS):
        return [pattern]
    path = os.path.expanduser(pattern)
    if "://" not in path and "://" not in folder:
        path = os.path.abspath(os.path.join(folder, path))
    elif "://" not in path and not os.path.isabs(path):
        path = f"{folder.rstrip('/')}/{path}"
    if is_tfds(path):
        return [path]
    if glob.has_magic(path) and not tf.io.gfile.exists(path):
        matching = sorted(tf.io.gfile.glob(path))
        if not matching:
            raise FileNotFoundError(f"{path}: no file matches")
        return [name for path in matching for name in sources_of(path, folder)]
    files.check_exists(path)
    files.form(path)
    return [path]


def is_tfds(source: str) -> bool:
    """Tells whether a source is read through TFDS, by name or from a folder."""
    if source.startswith(TFDS):
        return True
    info = os.path.join(_parted(source)[0], "dataset_info.json")
    return tf.io.gfile.exists(info)


def content(source: str) -> str:
    """Returns what identifies the content of a source: it changes with it."""
    if source.startswith(TFDS):
        return source
    digest = hashlib.sha256()
    if is_tfds(source):
        folder, split = _parted(source)
        for name in sorted(tf.io.gfile.listdir(folder)):
            size = tf.io.gfile.stat(os.path.join(folder, name)).length
            digest.update(f"{name} {size} {split}".encode())
        source = os.path.join(folder, "dataset_info.json")
    with tf.io.gfile.GFile(source, "rb") as file:
        while block := file.read(2**22):
            digest.update(block)
    return digest.hexdigest()


def tfds_splits(source: str, data_dir: str | None) -> Sequence[str]:
    """Lists the splits that a source of TFDS data stands for; [] if it names one."""
    name, split = _parted(source)
    return [] if split else list(_tfds_builder(name, data_dir).info.splits)


def _parted(source: str) -> tuple[str, str | None]:
    """Name or folder, and the split in brackets."""
    match = _PARTED.fullmatch(source)
    return (match["name"], match["split"]) if match else (source, None)


def _tfds_builder(source: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    if source.startswith(TFDS):
        return sources.open_builder(source.removeprefix(TFDS), data_dir)
    return tfds.builder_from_directory(source)


def _tfds_rows(source: str, split: str, data_dir: str | None) -> Iterator[FileRow]:
    name, part = _parted(source)
    builder = _tfds_builder(name, data_dir)
    part = part or split
    if part.split("[")[0] not in builder.info.splits:
        raise ValueError(
            f"{name}: split {part!r} is unknown; it has "
            f"{', '.join(builder.info.splits)}. Name it so: {name}[train]"
        )
    config = tfds.ReadConfig(try_autocache=False)
    data = builder.as_dataset(split=part, shuffle_files=False, read_config=config)
    features = builder.info.features
    for number, row in enumerate(data.as_numpy_iterator(), 1):
        values = dict(_columns(features, row))
        yield FileRow(f"{name}[{part}]", number, values, "row")


def _columns(features, row, prefix=""):
    """Labels by their names; nested features joined with dots."""
    for key, value in row.items():
        feature = features[key]
        if isinstance(value, dict) and hasattr(feature, "items"):
            yield from _columns(feature, value, f"{prefix}{key}.")
        elif isinstance(feature, tfds.features.ClassLabel):
            yield prefix + key, feature.int2str(int(value)) if value >= 0 else ""
        elif not isinstance(value, dict):
            plain = value.tolist() if hasattr(value, "tolist") else value
            with contextlib.suppress(UnicodeDecodeError):  # pictures and the like
                yield prefix + key, files.as_text(plain)
