"""The rows of a declared task as text, each checked, one at a time."""

import contextlib
import dataclasses
import glob
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence

import tensorflow as tf
import tensorflow_datasets as tfds
from tqdm import tqdm

from tfds_tasks import sources
from tfds_tasks.own import files
from tfds_tasks.own.declaration import Declaration
from tfds_tasks.own.files import FileRow
from tfds_tasks.own.template import Template
from tfds_tasks.registry import unknown

TFDS = "tfds:"
HIDDEN = "-1"  # the label of a test row that has none, in GLUE and its like
MOST_LABELS = 1000
_BYTES = {"unit_scale": True, "delay": 2, "disable": None, "leave": False}
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
        _require(declaration, inputs, row)
        if _is_left_out(declaration, inputs, row):
            continue
        target = _target(declaration, targets, row, split)
        if target is None:
            continue
        text = inputs.write(row.values)
        for column, words in ((inputs.columns[0], text), (targets.columns[0], target)):
            if not _is_unicode(words):
                raise _error(
                    declaration, row, column, "half a letter; expected Unicode"
                )
        yield TextRow(number, text, target, row.place)
        number += 1


def check_first(declaration: Declaration, data_dir: str | None = None) -> None:
    """Reads the first row of each split's files: most of what is wrong shows there."""
    for split, named in declaration.files.items():
        if not is_tfds(named[0]):
            next(text_rows(declaration, split, data_dir), None)


def _is_unicode(text: str) -> bool:
    """Whether a text can be stored; JSON may hold halves of pairs, such as \\ud800."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _require(declaration: Declaration, template: Template, row: FileRow) -> None:
    """Raises if a row lacks a column, with what may be meant."""
    problem = template.missing(row.values)
    if not problem:
        return
    for column in template.columns:
        if column in row.unreadable:
            raise _error(declaration, row, column, "not UTF-8; expected text")
    raise _error(declaration, row, None, problem + _hint(declaration, row))


def _hint(declaration: Declaration, row: FileRow) -> str:
    """What to say in the TOML file if the columns of a table look odd."""
    if is_tfds(row.file) or declaration.line is not None:
        return ""
    if files.form(row.file, **declaration.parted) not in files.TABLES:
        return ""
    (first, *more) = row.values
    other = next((mark for mark in ";\t|," if mark in first), None)
    if not more and other:
        return f"; delimiter = {json.dumps(other)} if that parts them"
    if declaration.columns is None:
        return '; a file without a header takes columns = ["...", "..."]'
    return ""


def labels_in_train(declaration: Declaration, data_dir: str | None) -> list[str]:
    """Lists the different targets of train, sorted."""
    seen = set()
    free = dataclasses.replace(declaration, labels=None, metrics=())
    words = f"labels of {declaration.name}"
    for row in followed(text_rows(free, "train", data_dir), words):
        seen.add(row.targets)
        if len(seen) > MOST_LABELS:
            raise ValueError(
                f"[{declaration.name}] labels = 'from train': more than {MOST_LABELS} "
                f"different ones by {row.place}; expected fewer, or no labels for free "
                "text"
            )
    return sorted(seen)


def followed(read: Iterator, words: str, total: int | None = None) -> Iterator:
    """Shows a bar, where somebody looks at it."""
    return tqdm(read, words, total, unit=" rows", disable=None, leave=False)


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
) -> str | None:
    """The answer as the model writes it; "" if a test row has none, None to skip it."""
    values = [row.values.get(column, "").strip() for column in template.columns]
    labels = declaration.labels
    if split == "test":
        unlabelled = values == [HIDDEN] and labels and HIDDEN not in labels
        if not any(values) or unlabelled:
            return ""
    _require(declaration, template, row)
    text = template.write(row.values)
    if not text or not any(values):
        if declaration.empty == "skip":
            return None
        problem = 'empty; expected an answer, or empty = "skip"'
        raise _error(declaration, row, template.columns[0], problem)
    if labels is None:
        return text
    if text not in labels:
        problem = unknown("label", text, labels)
        raise _error(declaration, row, template.columns[0], problem)
    return labels[text]


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
        try:
            yield from files.read(source, **declaration.reading(source))
        except OSError as error:
            raise OSError(f"[{declaration.name}] {error}") from None
        except ValueError as error:
            raise ValueError(f"[{declaration.name}] {error}") from None


def sources_of(pattern: str, folder: str, **parted: str) -> list[str]:
    """Finds the sources that a value in a TOML file of a folder names.

    Args:
        pattern: the value.
        folder: of the TOML file.
        **parted: `delimiter`, `line` or `format`, if the file says so; then any
            ending is right.
    """
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
        return [
            name for path in matching for name in sources_of(path, folder, **parted)
        ]
    files.check_exists(path)
    files.form(path, **parted)
    return [path]


def is_tfds(source: str) -> bool:
    """Tells whether a source is read through TFDS, by name or from a folder."""
    if source.startswith(TFDS):
        return True
    info = os.path.join(_parted(source)[0], "dataset_info.json")
    return tf.io.gfile.exists(info)


def content(source: str, data_dir: str | None) -> str:
    """Returns what identifies the content of a source: it changes with it."""
    if source.startswith(TFDS):
        name, split = _parted(source)
        version = _tfds_builder(name, data_dir).info.full_name
        return f"{TFDS}{version}[{split or ''}]"
    digest = hashlib.sha256()
    if is_tfds(source):
        folder, split = _parted(source)
        for name in sorted(tf.io.gfile.listdir(folder)):
            size = tf.io.gfile.stat(os.path.join(folder, name)).length
            digest.update(f"{name} {size} {split}".encode())
        source = os.path.join(folder, "dataset_info.json")
    size = tf.io.gfile.stat(source).length
    with (
        tf.io.gfile.GFile(source, "rb") as file,
        tqdm(total=size, desc="reading", unit="B", **_BYTES) as bar,
    ):
        while block := file.read(2**22):
            digest.update(block)
            bar.update(len(block))
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
        yield FileRow(f"{name}[{part}]", values, row=number)


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
