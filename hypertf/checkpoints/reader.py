"""What a reader of any format offers: names and shapes first, then rows in blocks."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import ml_dtypes
import numpy as np

from hypertf.checkpoints.rules import Rule
from hypertf.t5.config import T5Config

Block = tuple[int, int, np.ndarray]  # start, stop, the rows between them

# What is read or written at a time: small beside any model worth streaming.
BLOCK_BYTES = 2 * 2**20

FLOAT_TYPES = ("float32", "bfloat16", "float16", "float64")


class StoredTensor(NamedTuple):
    """What a checkpoint says of one tensor before it is read."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """How many bytes its values take."""
        return numpy_type(self.dtype).itemsize * int(np.prod(self.shape))


class Reader:
    """An open checkpoint of one format. Each format's file has its own kind.

    `tensors` and `slots` are `{name: StoredTensor}`, the weights and the optimizer's
    state. Nothing is read until `blocks` is called.
    """

    format = None
    looked_for = None  # what `recognises` needs, in words
    # Fields of T5Config that the format does not record.
    unknown_fields = frozenset({"dropout_rate"})

    def __init__(self, path: str) -> None:
        self.path = path
        self.tensors = {}
        self.slots = {}
        self.step = None

    @classmethod
    def recognises(cls, path: str) -> bool:
        """Tells whether a path holds a checkpoint of this format."""
        raise NotImplementedError

    def config(self) -> T5Config | None:
        """Returns the T5Config of the checkpoint, or None where it does not tell."""
        raise NotImplementedError

    def rules(self, config: T5Config) -> Sequence[Rule]:
        """Returns the rules for a model of this T5Config."""
        raise NotImplementedError

    def is_unused(self, name: str) -> bool:
        """Tells whether no T5 reads a tensor, although the format's writers keep it."""
        return False

    def blocks(self, name: str) -> Iterator[Block]:
        """Yields `(start, stop, rows)` of a tensor, rows as a numpy array."""
        tensor = self.tensors.get(name) or self.slots[name]
        for start, stop in row_ranges(tensor):
            yield start, stop, self.read(name, start, stop)

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        """Reads rows of a tensor."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes what files are open."""
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def row_ranges(tensor: StoredTensor) -> Iterator[tuple[int, int]]:
    """Yields `(start, stop)` of blocks of whole rows, of some BLOCK_BYTES each."""
    length = tensor.shape[0] if tensor.shape else 1
    rows = max(1, length * BLOCK_BYTES // max(1, tensor.nbytes))
    for start in range(0, length, rows):
        yield start, min(start + rows, length)


def numpy_type(dtype: str) -> np.dtype:
    """Returns the numpy type of a name such as "bfloat16"."""
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
