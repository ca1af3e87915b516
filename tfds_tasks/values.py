"""Rows and examples between Python values, numpy values and tensors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfds_tasks.scores.readers import Example


def tensors(value: Any) -> Any:
    """Turns a row of Python or numpy values into tensors, nested as it was."""
    if isinstance(value, Mapping):
        return {key: tensors(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)) and not value:
        return tf.zeros([0], tf.string)
    if isinstance(value, int):
        return tf.constant(value, tf.int64)
    if isinstance(value, tf.RaggedTensor):
        return value
    try:
        return tf.convert_to_tensor(value)
    except ValueError:  # lists of different lengths
        return tf.ragged.constant(value)


def python_values(example: Example) -> dict[str, Any]:
    """Turns an example of numpy values into what `Task.to_text` would give."""
    return {
        key: _text(v.tolist() if isinstance(v, np.ndarray) else v)
        for key, v in example.items()
    }


def python_value(tensor: tf.Tensor) -> Any:
    """Turns a tensor into a Python value, text into str."""
    return _text(tensor.numpy().tolist() if tensor.shape.rank else tensor.numpy())


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(v) for v in value]
    if isinstance(value, bytes):
        return value.decode("utf-8")
    return value.item() if isinstance(value, np.generic) else value
