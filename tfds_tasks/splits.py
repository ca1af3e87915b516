"""Which rows a split holds, by the papers' rules.

T5 uses the splits of the data sets as they are. Their test labels are secret, so
HyperFormer and Hyperdecoders make test sets of their own. What happens to a data set
is its `divide` rule:

* "validation": its validation set is halved into validation and test;
* "train": 1,000 training rows become the validation set (and leave the training set),
  and the original validation set is the test set;
* "test": its test set is halved into validation and test;
* "mnli": as "train", but Hyperdecoders leaves the training set whole, validates on
  the mismatched and tests on the matched set: the sizes of its Table 10 (its text
  speaks of testing on mismatched);
* None: the splits it has.

Which rows go where is a permutation drawn from the style's seed, so parts are disjoint
and together they are the whole.
"""

import dataclasses
import zlib
from collections.abc import Mapping

import numpy as np

TAKEN = 1000  # rows that leave a large training set to validate


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a TFDS split: rows [start, stop) of its permutation, or all of it."""

    split: str
    start: int = 0
    stop: int | None = None  # None: to the end
    half: int | None = None  # 0 or 1: this half instead

    def bounds(self, size: int) -> tuple[int, int]:
        """Returns start and stop in the permutation of a split of that size."""
        if self.half is not None:
            return (0, size // 2) if self.half == 0 else (size // 2, size)
        return self.start, size if self.stop is None else self.stop

    def size(self, rows: int) -> int:
        """Counts the rows that the part has of a split of that many."""
        start, stop = self.bounds(rows)
        return max(0, min(stop, rows) - start)

    @property
    def whole(self) -> bool:
        """Whether it is all of the split."""
        return self.half is None and self.start == 0 and self.stop is None

    def mask(self, rows: int, name: str, seed: int) -> np.ndarray | None:
        """Tells which rows of the split are in the part: bool [rows], None for all."""
        if self.whole:
            return None
        start, stop = self.bounds(rows)
        mask = np.zeros(rows, bool)
        mask[permutation(rows, name, seed)[start:stop]] = True
        return mask


def permutation(rows: int, name: str, seed: int) -> np.ndarray:
    """Orders rows by the seed and the name of the data set, on every machine alike.

    >>> permutation(5, "glue/rte", 42).tolist()
    [1, 3, 0, 2, 4]
    """
    return np.random.default_rng([seed, zlib.crc32(name.encode())]).permutation(rows)


def parts(names: Mapping[str, str], divide: str | None, style: str) -> dict[str, Part]:
    """Divides a data set whose splits are names {split: TFDS split}: {split: Part}."""
    own = {split: Part(name) for split, name in names.items()}
    if style == "t5" or divide is None:
        return own
    if divide == "validation":
        name = names["validation"]
        return own | {"validation": Part(name, half=0), "test": Part(name, half=1)}
    if divide == "test":
        name = names["test"]
        return own | {"validation": Part(name, half=0), "test": Part(name, half=1)}
    if divide == "mnli" and style == "hyperdecoders":
        return {
            "train": own["train"],
            "validation": own["validation_mismatched"],
            "test": own["validation"],
        }
    train = names["train"]
    return own | {
        "train": Part(train, start=TAKEN),
        "validation": Part(train, stop=TAKEN),
        "test": Part(names["validation"]),
    }
