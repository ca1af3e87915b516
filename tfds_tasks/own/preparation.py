"""Rows of a user's files into TFDS data, by TFDS's own builder, once."""

import contextlib
import io
import os
import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging

from tfds_tasks import sources, splits
from tfds_tasks.own import rows
from tfds_tasks.own.declaration import VERSION, Declaration

SHARE, MOST = 0.1, splits.TAKEN  # of train, for validation


def write(declaration: Declaration, data_dir: str) -> None:
    """Checks all rows, then writes them; a row that is wrong leaves nothing behind."""
    began = time.time()
    remove_half_written(declaration, data_dir)
    for split in declaration.files:
        check_unchanged(declaration, split, data_dir)
    counts = {
        split: _count(declaration, split, data_dir) for split in declaration.files
    }
    parts = divided(declaration, counts)
    with _quietly():
        _builder(declaration, parts, counts, data_dir).download_and_prepare()
    print(told(declaration, parts, counts, time.time() - began), flush=True)


def remove_half_written(declaration: Declaration, data_dir: str) -> None:
    """Removes what processes that were killed have left of this task."""
    if "://" in data_dir:  # no locks there: others may be writing
        return
    name, _ = declaration.source.split("/")
    for path in tf.io.gfile.glob(os.path.join(data_dir, name, "*", "incomplete.*")):
        config = os.path.basename(os.path.dirname(path))
        source = f"{name}/{config}:{VERSION}"
        if source == declaration.source or sources.is_idle(source, data_dir):
            tf.io.gfile.rmtree(path)


def _builder(declaration, parts, counts, data_dir):
    texts = {name: tfds.features.Text() for name in ("inputs", "targets")}
    return tfds.dataset_builders.AdhocBuilder(
        **_name(declaration),
        features=tfds.features.FeaturesDict({**texts, "idx": tf.int64}),
        split_datasets={
            split: _Examples(declaration, source, mask, counts[source], data_dir)
            for split, (source, mask) in parts.items()
        },
        data_dir=data_dir,
        description=f"Rows of {dict(declaration.files)}",
    )


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the words and bars of TFDS: ours say what there is to know."""
    verbosity = logging.get_verbosity()
    with contextlib.redirect_stdout(io.StringIO()):
        tfds.disable_progress_bar()
        logging.set_verbosity(logging.ERROR)
        try:
            yield
        finally:
            tfds.enable_progress_bar()
            logging.set_verbosity(verbosity)


def check_unchanged(declaration: Declaration, split: str, data_dir: str) -> None:
    """Raises if the files of a split are no longer those that were declared."""
    named = declaration.files[split]
    for source in named:
        if not rows.is_tfds(source):
            rows.files.check_exists(source)
    if contents(declaration, named, data_dir) != declaration.contents[split]:
        raise ValueError(
            f"[{declaration.name}] {', '.join(named)}: not the content that was there "
            "when the run was made, or this program began, and that is not prepared in "
            "this data_dir; expected either, or a new run"
        )


def contents(
    declaration: Declaration, named: tuple[str, ...], data_dir: str | None
) -> str:
    """Returns what identifies the content of several sources, and how it is read."""
    known = []
    for source in named:
        known.append(rows.content(source, data_dir))
        if not rows.is_tfds(source):
            known.append(rows.files.form(source, **declaration.parted))
    return " ".join(known)


def divided(
    declaration: Declaration, counts: dict[str, int]
) -> dict[str, tuple[str, np.ndarray | None]]:
    """Tells which rows go where: {split: (split of the files, bool [rows] or None)}."""
    for split, count in counts.items():
        if not count:
            where = ", ".join(declaration.files[split])
            raise ValueError(f"[{declaration.name}] {split}: no rows in {where}")
    parts = {split: (split, None) for split in counts}
    if "validation" in counts:
        return parts
    total = counts["train"]
    if total < 2:
        raise ValueError(
            f"[{declaration.name}] train has {total} row; expected 2 or more, as "
            "validation is absent and taken out of it"
        )
    taken = taken_out(declaration, total)
    return {
        "train": ("train", ~taken),
        "validation": ("train", taken),
        **{split: part for split, part in parts.items() if split == "test"},
    }


def taken_out(declaration: Declaration, total: int) -> np.ndarray:
    """Draws the rows of train that validate: bool [rows of train]."""
    share = declaration.validation_share
    count = total * SHARE if share is None else total * share
    count = count if share is not None else min(count, MOST)
    count = min(max(round(count), 1), total - 1)
    mask = np.zeros(total, bool)
    order = splits.permutation(total, f"{declaration.name} taken", declaration.seed)
    mask[order[:count]] = True
    return mask


def told(
    declaration: Declaration, parts: dict, counts: dict[str, int], seconds: float
) -> str:
    """Says what was prepared."""
    sizes = ", ".join(
        f"{split} {counts[source] if mask is None else mask.sum():,}"
        for split, (source, mask) in parts.items()
    )
    taken = "validation" not in declaration.files
    reason = f" (validation is absent: taken out of train, seed {declaration.seed})"
    reason = reason if taken else ""
    return f"prepared {declaration.name}: {sizes}{reason}, {seconds:.1f} s"


def _name(declaration: Declaration) -> dict[str, str]:
    name, rest = declaration.source.split("/")
    config, version = rest.split(":")
    return {"name": name, "config": config, "version": version}


def _count(declaration: Declaration, split: str, data_dir: str) -> int:
    read = rows.text_rows(declaration, split, data_dir)
    return sum(1 for _ in rows.followed(read, f"checking {declaration.name} {split}"))


class _Examples:
    """What TFDS writes of a split: (key, example), in the order of the file."""

    def __init__(self, declaration, split, mask, total, data_dir):
        self._of, self._data_dir = (declaration, split), data_dir
        self._mask, self._total = mask, total
        self._words = f"writing {declaration.name} {split}"

    def __iter__(self):
        read = rows.text_rows(*self._of, self._data_dir)
        for row in rows.followed(read, self._words, self._total):
            if row.number >= self._total:
                break
            if self._mask is None or self._mask[row.number]:
                texts = {"inputs": row.inputs, "targets": row.targets}
                yield row.number, {**texts, "idx": row.number}
        check_unchanged(*self._of, self._data_dir)  # TFDS then throws away what it has
