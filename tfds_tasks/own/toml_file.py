"""TOML files that declare tasks."""

import dataclasses
import os
import re
import tomllib
from collections.abc import Collection
from typing import Any

import tensorflow as tf

from tfds_tasks.own import preparation, rows
from tfds_tasks.own.declaration import (
    FROM_TRAIN,
    PARTED,
    SPLITS,
    BadKey,
    Declaration,
    check_table,
    labels_of,
)
from tfds_tasks.registry import all_names

DEFAULT_METRICS = ("accuracy",)
SOME_LABELS = ("a", "b")  # stand for those from train until that was read
OPTIONAL = ("rate", "encoding", "quotes", *PARTED, "empty", "validation_share", "seed")


def read(
    path: str | os.PathLike,
    data_dir: str | None = None,
    taken: Collection[str] = (),
) -> dict[str, Declaration]:
    """Reads the tasks that a file declares: {name: Declaration}, in its order.

    Of files that it names the first row is read, before any is prepared, and for labels
    "from train" all of them.

    Args:
        path: of the TOML file, local or gs://...; paths in it are relative to it.
        data_dir: folder of the TFDS data, where a task reads such data.
        taken: names that no task may have, besides those of tasks.
    """
    path = os.path.expanduser(os.fspath(path))
    text = _text(path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}; expected TOML") from None
    if not tables:
        raise ValueError(f"{path} declares no task; expected a table such as [topic]")
    declarations = {}
    for name, table in tables.items():
        try:
            if name in taken or name in all_names():
                problem = (
                    f"task name {name!r} is taken by one of ours; expected another"
                )
                raise BadKey(None, problem)
            folder = os.path.dirname(path)
            declarations[name] = _declaration(name, table, folder, data_dir)
        except BadKey as error:
            where = _place(path, text, name, error.key)
            raise ValueError(f"{where}: {error}") from None
    for declaration in declarations.values():
        rows.check_first(declaration, data_dir)
    return declarations


def _text(path: str) -> str:
    if not tf.io.gfile.exists(path):
        raise FileNotFoundError(
            f"{path}: no such file; expected TOML that declares tasks"
        )
    with tf.io.gfile.GFile(path, "rb") as file:
        try:
            return file.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, byte {error.start}: not UTF-8") from None


def _declaration(
    name: str, table: Any, folder: str, data_dir: str | None
) -> Declaration:
    table = check_table(name, table)
    parted = {key: table[key] for key in PARTED if key in table}
    files = {s: _sources(s, table[s], folder, parted) for s in SPLITS if s in table}
    if "validation" not in files and _have_validation(files["train"], data_dir):
        files["validation"] = files["train"]
    labels = table.get("labels")
    declaration = _with_metrics(
        Declaration(
            name,
            files,
            table["inputs"],
            table["targets"],
            columns=tuple(table["columns"]) if "columns" in table else None,
            labels=labels_of(labels, SOME_LABELS),
            **{key: table[key] for key in OPTIONAL if key in table},
        ),
        table,
    )
    contents = {
        split: preparation.contents(declaration, files[split], data_dir)
        for split in files
    }
    declaration = dataclasses.replace(declaration, contents=contents)
    if labels != FROM_TRAIN:
        return declaration
    words = rows.labels_in_train(declaration, data_dir)
    if len(words) < 2:
        raise BadKey("labels", f"train has only {words}; expected 2 or more labels")
    return _with_metrics(declaration, table, labels=labels_of(labels, words))


def _with_metrics(declaration: Declaration, table: Any, **changes: Any) -> Declaration:
    metrics = tuple(table.get("metrics", DEFAULT_METRICS))
    try:
        return dataclasses.replace(declaration, metrics=metrics, **changes)
    except ValueError as error:
        raise BadKey("metrics", str(error)) from None


def _have_validation(train: tuple[str, ...], data_dir: str | None) -> bool:
    """Whether train is TFDS data, all its splits, with validation among them."""
    try:
        return all(
            rows.is_tfds(source) and "validation" in rows.tfds_splits(source, data_dir)
            for source in train
        )
    except (ValueError, OSError) as error:
        raise BadKey("train", str(error)) from None


def _sources(
    split: str, value: Any, folder: str, parted: dict[str, str]
) -> tuple[str, ...]:
    patterns = [value] if isinstance(value, str) else value
    try:
        return tuple(
            s
            for pattern in patterns
            for s in rows.sources_of(pattern, folder, **parted)
        )
    except (ValueError, OSError) as error:
        raise BadKey(split, str(error)) from None


def _place(path: str, text: str, task: str, key: str | None) -> str:
    """The file, the line of the key if it stands on one of its own, the table."""
    current, header = None, None
    for number, line in enumerate(text.splitlines(), 1):
        table = re.match(r"\s*\[\s*[\"']?(.+?)[\"']?\s*\]\s*(#.*)?$", line)
        if table:
            current = table[1]
            header = number if current == task else header
        elif (
            current == task and key and re.match(rf"\s*[\"']?{key}[\"']?\s*[.=]", line)
        ):
            return f"{path}, line {number}, [{task}] {key}"
    where = f"{path}, line {header}" if header else path
    return f"{where}, [{task}]" + (f" {key}" if key else "")
