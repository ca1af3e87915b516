"""Rows of a user's files into TFDS data, by TFDS's own builder, once."""

import contextlib
import io
import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging
from tqdm import tqdm

from tfds_tasks import splits
from tfds_tasks.own import rows
from tfds_tasks.own.declaration import Declaration

SHARE, MOST = 0.1, splits.TAKEN  # of train, for validation


def write(declaration: Declaration, data_dir: str) -> None:
    """Checks all rows, then writes them; a row that is wrong leaves nothing behind."""
    began = time.time()
    check_unchanged(declaration)
    counts = {
        split: _count(declaration, split, data_dir) for split in declaration.files
    }
    parts = divided(declaration, counts)
    with _quietly():
        _builder(declaration, parts, data_dir).download_and_prepare()
    print(told(declaration, parts, counts, time.time() - began), flush=True)


def _builder(declaration, parts, data_dir):
    texts = {name: tfds.features.Text() for name in ("inputs", "targets")}
    return tfds.dataset_builders.AdhocBuilder(
        **_name(declaration),
        features=tfds.features.FeaturesDict({**texts, "idx": tf.int64}),
        split_datasets={
            split: _Examples(declaration, source, mask, data_dir)
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


def check_unchanged(declaration: Declaration) -> None:
    """Raises if the files are no longer those that were declared."""
    for split, sources_ in declaration.files.items():
        for source in sources_:
            if not rows.is_tfds(source):
                rows.files.check_exists(source)
        if contents(sources_) != declaration.contents[split]:
            raise ValueError(
                f"[{declaration.name}] {', '.join(sources_)}: not the content that the "
                "run was made with, and that is not prepared in this data_dir; "
                "expected either, or a new run"
            )


def contents(sources_: tuple[str, ...]) -> str:
    """Returns what identifies the content of several sources."""
    return " ".join(rows.content(source) for source in sources_)


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
    reason = " (validation is absent: taken out of train)" if taken else ""
    return f"prepared {declaration.name}: {sizes}{reason}, {seconds:.1f} s"


def _name(declaration: Declaration) -> dict[str, str]:
    name, rest = declaration.source.split("/")
    config, version = rest.split(":")
    return {"name": name, "config": config, "version": version}


def _count(declaration: Declaration, split: str, data_dir: str) -> int:
    read = rows.text_rows(declaration, split, data_dir)
    return sum(1 for _ in _followed(read, f"checking {declaration.name} {split}"))


def _followed(read: Iterator, words: str, total: int | None = None) -> Iterator:
    """A bar, where somebody looks at it."""
    return tqdm(read, words, total, unit=" rows", disable=None, leave=False)


class _Examples:
    """What TFDS writes of a split: (key, example), in the order of the file."""

    def __init__(self, declaration, split, mask, data_dir):
        self._rows = rows.text_rows(declaration, split, data_dir)
        self._mask, self._words = mask, f"writing {declaration.name} {split}"

    def __iter__(self):
        for row in _followed(self._rows, self._words):
            if self._mask is None or self._mask[row.number]:
                texts = {"inputs": row.inputs, "targets": row.targets}
                yield row.number, {**texts, "idx": row.number}
