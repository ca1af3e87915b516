"""What a reader of any format offers: names and shapes first, then rows in blocks."""

from typing import NamedTuple

import ml_dtypes
import numpy as np

# What is read or written at a time: small beside any model worth streaming.
BLOCK_BYTES = 2 * 2**20

FLOAT_TYPES = ("float32", "bfloat16", "float16", "float64")


class Tensor(NamedTuple):
    """What a checkpoint says of one tensor before it is read."""

    shape: tuple
    dtype: str

    @property
    def nbytes(self):
        return numpy_type(self.dtype).itemsize * int(np.prod(self.shape))


class Reader:
    """An open checkpoint of one format. Each format's file has its own kind.

    `tensors` and `slots` are `{name: Tensor}`, the weights and the optimizer's
    state. Nothing is read until `blocks` is called.
    """

    format = None
    looked_for = None  # what `recognises` needs, in words
    # Fields of T5Config that the format does not record.
    unknown_fields = frozenset({"dropout_rate"})

    def __init__(self, path):
        self.path = path
        self.tensors = {}
        self.slots = {}
        self.step = None

    @classmethod
    def recognises(cls, path):
        raise NotImplementedError

    def config(self):
        """The T5Config of the checkpoint, or None where it does not tell."""
        raise NotImplementedError

    def rules(self, config):
        """The rules for a model of this T5Config."""
        raise NotImplementedError

    def is_unused(self, name):
        """Whether no T5 reads this tensor, although the format's writers keep it."""
        return False

    def blocks(self, name):
        """Yields `(start, stop, rows)` of a tensor, rows as a numpy array."""
        tensor = self.tensors.get(name) or self.slots[name]
        for start, stop in row_ranges(tensor):
            yield start, stop, self.read(name, start, stop)

    def read(self, name, start, stop):
        """Rows of a tensor."""
        raise NotImplementedError

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def row_ranges(tensor):
    """Yields `(start, stop)` of blocks of whole rows, of some BLOCK_BYTES each."""
    length = tensor.shape[0] if tensor.shape else 1
    rows = max(1, length * BLOCK_BYTES // max(1, tensor.nbytes))
    for start in range(0, length, rows):
        yield start, min(start + rows, length)


def numpy_type(dtype):
    """The numpy type of a name such as "bfloat16"."""
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
