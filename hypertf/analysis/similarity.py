"""How alike tasks are: cosines between what a method makes for each of them."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from hypertf.analysis.walk import sites_of_tasks
from hypertf.t5 import T5, Sites
from hypertf.t5.inputs import OF_ENCODER, TASK_IDS, only
from hypertf.t5.sites import SHARED, is_tensor
from hypertf.types import Batch


def cosines(vectors: np.ndarray, centred: bool = False) -> np.ndarray:
    """Computes the cosines [n, n] between vectors [n, size]; NaN with a vector of 0.

    Args:
        centred: subtracts the mean of the vectors first, where they have so much in
            common that all cosines would be near 1.

    >>> cosines(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])).round(3).tolist()
    [[1.0, 0.707, nan], [0.707, 1.0, nan], [nan, nan, nan]]
    """
    vectors = np.asarray(vectors, "float64")
    if centred:
        vectors = vectors - vectors.mean(0)
    norms = np.linalg.norm(vectors, axis=1)
    # What is left of equal vectors after centring is rounding.
    norms = np.where(norms > 1e-12 * max(1.0, np.abs(vectors).max()), norms, np.nan)
    return vectors @ vectors.T / np.outer(norms, norms)


def task_weights(
    model: T5, stack: str, batches: Iterable[Batch] = ()
) -> list[dict[str, np.ndarray]]:
    """Returns the weights that tasks get in a stack: by block, {field: [tasks, n]}.

    They are what a method's sites hold per example: generated adapters, hyper-prompts,
    low-rank additions. Nothing in blocks whose sites hold nothing of the kind.

    Args:
        stack: "encoder" or "decoder".
        batches: examples of the tasks, for a stack that reads its input: what it gets
            is the mean over the examples of a task, NaN for tasks without any.

    ```python
    config = hypertf.T5Config.from_name("t5-nano")
    method = hypertf.conditioning.create("hyperformer++", config, num_tasks=8)
    model = hypertf.T5(config, conditioner=method)
    first, second = hypertf.analysis.task_weights(model, "encoder")
    first["down"].shape  # (8, 2 * d_model * bottleneck)
    ```
    """
    if model.conditioner is None:
        return [{} for _ in getattr(model, stack).blocks]
    if stack not in model.conditioner.reads_input:
        blocks = sites_of_tasks(model, stack).blocks
        return [dict(_per_example(block)) for block in blocks]
    mean = MeanByTask(model.conditioner.num_tasks)
    for batch in batches:
        task_ids = np.asarray(batch[TASK_IDS])
        for i, block in enumerate(_sites_of_inputs(model, stack, batch).blocks):
            for name, values in _per_example(block):
                mean.add((i, name), values, task_ids)
    means = mean.means()
    count = len(getattr(model, stack).blocks)
    return [{n: v for (at, n), v in means.items() if at == i} for i in range(count)]


def _sites_of_inputs(model: T5, stack: str, batch: Batch) -> Any:
    inputs = {k: tf.cast(v, tf.int32) for k, v in only(batch, OF_ENCODER).items()}
    if stack == "encoder":
        return model.encoder_sites(inputs)
    return model.decoder_sites(inputs, *model.encode(inputs))


def _per_example(value: Any, path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Name and values [rows, n] of each tensor that has the batch in front."""
    if is_tensor(value):
        array = np.array(tf.cast(value, tf.float32))
        yield path, array.reshape(len(array), -1)
    elif isinstance(value, Sites):
        for field in (
            dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
        ):
            if not field.metadata.get(SHARED):
                yield from _per_example(
                    getattr(value, field.name), _joined(path, field.name)
                )
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _per_example(each, _joined(path, key))
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _per_example(each, _joined(path, number))


def _joined(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


class MeanByTask:
    """Adds up arrays of examples by their task; `means` gives {key: [tasks, ...]}."""

    def __init__(self, num_tasks: int) -> None:
        self.num_tasks = num_tasks
        self._sums: dict[Any, np.ndarray] = {}
        self._counts: dict[Any, np.ndarray] = {}

    def add(self, key: Any, values: np.ndarray, task_ids: np.ndarray) -> None:
        """Adds values [batch, ...] of examples of these tasks [batch]."""
        values = np.asarray(values, "float64")
        if key not in self._sums:
            self._sums[key] = np.zeros((self.num_tasks, *values.shape[1:]))
            self._counts[key] = np.zeros(self.num_tasks)
        np.add.at(self._sums[key], task_ids, values)
        np.add.at(self._counts[key], task_ids, 1)

    def means(self) -> dict[Any, np.ndarray]:
        """Returns the mean of every task; NaN of tasks without examples."""
        with np.errstate(invalid="ignore"):
            return {
                key: total / self._counts[key].reshape(-1, *(1,) * (total.ndim - 1))
                for key, total in self._sums.items()
            }


def mean_cosines(
    blocks: Iterable[Mapping[str, np.ndarray]], centred: bool = False
) -> np.ndarray | None:
    """Takes the mean of the cosines over blocks and fields; None if there are none."""
    all_cosines = [
        cosines(vectors, centred) for block in blocks for vectors in block.values()
    ]
    if not all_cosines:
        return None
    known = [~np.isnan(each) for each in all_cosines]
    total = np.sum([np.nan_to_num(each) for each in all_cosines], axis=0)
    with np.errstate(invalid="ignore"):
        return total / np.sum(known, axis=0)
