"""Safetensors files, read and written a block at a time.

The `safetensors` library maps a file into memory to read it and takes all tensors
at once to write it. The format is simple: eight bytes with the length of a JSON
header, the header, and the raw values, so neither is needed.
"""

import json
import os
import struct
from collections.abc import Callable, Iterable

import numpy as np
from safetensors import SafetensorError, safe_open

from hypertf.checkpoints.reader import StoredTensor, numpy_type

TYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16", "F64": "float64"}
TYPE_NAMES = {name: code for code, name in TYPES.items()}


class SafetensorsFile:
    """The tensors of one file.

    ```python
    file = SafetensorsFile("model.safetensors")
    file.tensors["shared.weight"].shape  # (32128, 512)
    rows = file.read("shared.weight", 0, 100)  # [100, 512]
    ```
    """

    def __init__(self, path: str) -> None:
        try:
            # Checks that the header is sound and the file is as long as it says.
            with safe_open(path, framework="np"):
                pass
        except SafetensorError as error:
            raise ValueError(f"{path} is not a safetensors file: {error}") from error
        self.path = path
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        self._starts = {k: 8 + length + v["data_offsets"][0] for k, v in header.items()}
        self.tensors = {
            name: StoredTensor(tuple(v["shape"]), TYPES.get(v["dtype"], v["dtype"]))
            for name, v in header.items()
        }

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        """Reads rows of a tensor as a numpy array; a scalar has one."""
        shape, dtype = self.tensors[name]
        dtype = numpy_type(dtype)
        rows = np.empty((stop - start, *shape[1:]) if shape else (), dtype)
        skip = start * dtype.itemsize * int(np.prod(shape[1:]))
        with open(self.path, "rb") as file:
            file.seek(self._starts[name] + skip)
            if file.readinto(rows.reshape(-1).view(np.uint8)) != rows.nbytes:
                raise ValueError(f"{self.path} ends inside {name}")
        return rows


def write(
    path: str,
    tensors: dict[str, StoredTensor],
    blocks: Callable[[str], Iterable[np.ndarray]],
) -> None:
    """Writes tensors by name; `blocks(name)` yields the rows of each."""
    header = {"__metadata__": {"format": "pt"}}  # transformers asks for it
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": TYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in tensors:
            for rows in blocks(name):
                file.write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8))
        file.flush()
        os.fsync(file.fileno())
