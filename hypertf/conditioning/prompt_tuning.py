"""Prompt-Tuning (Lester et al., 2021), one prompt per task.

A trained prompt [length, d_model] comes before the embedded input of the encoder.
Its rows are tokens like any other: they count as positions, go through every layer,
and the decoder attends to them. As in the public recipe the prompt is 100 tokens long
and only it is trained; `trains="all"` gives the baseline of HyperPrompt's paper,
which has one prompt per task and trains the whole model.

Parameters: T * length * d_model.
"""

import dataclasses
import random
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from hypertf.conditioning import options
from hypertf.conditioning.method import Method
from hypertf.conditioning.registry import register
from hypertf.keras_internals import in_stateless_scope
from hypertf.t5 import T5, StackSites
from hypertf.t5.packing import MODES
from hypertf.t5.weights import add_weight
from hypertf.types import Tensor

INITIAL_VALUES = {
    "vocabulary": "embeddings of tokens drawn from the most common ones",
    "labels": "embeddings of the task's labels, the rest as for vocabulary",
    "uniform": "uniform between -0.5 and 0.5",
}


@dataclasses.dataclass(frozen=True)
class Options(options.Options):
    """Options of Prompt-Tuning; defaults are the public recipe's.

    `initial_values` is a key of `INITIAL_VALUES`. The most common tokens are the first
    `population` ids, as T5's vocabulary is ordered by likelihood. `labels` holds for
    each task its labels, each of them its token ids: `(((465,), (2163,)), ...)`; a
    label of several tokens gives the mean of their embeddings.
    """

    length: int = 100
    initial_values: str = "vocabulary"
    population: int = 5000
    labels: tuple | None = None

    stacks: str = "encoder"

    def __post_init__(self) -> None:
        super().__post_init__()
        only = "'encoder': prompts come before its input"
        self.require("stacks", self.stacks == "encoder", only)
        self.require_positive("length", "population")
        self.require_one_of("initial_values", INITIAL_VALUES)
        if self.initial_values != "labels":
            expected = f"None with initial_values={self.initial_values!r}"
            self.require("labels", self.labels is None, expected)
            return
        expected = "for each task its labels, each a sequence of token ids"
        self.require("labels", _is_sequence(self.labels), expected)
        for task in self.labels:
            self.require("labels", _is_sequence(task), expected)
            self.require("labels", all(map(_is_label, task)), expected)
            fits = len(task) <= self.length
            self.require("labels", fits, f"at most length={self.length} a task")
        labels = tuple(tuple(map(tuple, task)) for task in self.labels)
        object.__setattr__(self, "labels", labels)


def _is_sequence(value: object) -> bool:
    return isinstance(value, list | tuple)


def _is_label(value: object) -> bool:
    return _is_sequence(value) and len(value) > 0 and all(map(_is_id, value))


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@keras.saving.register_keras_serializable("hypertf")
class PromptTuning(Method):
    """Trained tokens before the encoder's input, for each task its own."""

    Options = Options
    trains = "task"
    packs = MODES

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.options.labels is not None:
            self._check_labels()
        self._has_initial_values = False

    def _check_labels(self) -> None:
        labels, vocab_size = self.options.labels, self.config.vocab_size
        if len(labels) != self.num_tasks:
            raise ValueError(
                f"{self.method}: labels of {len(labels)} tasks, "
                f"expected num_tasks={self.num_tasks}"
            )
        for task in labels:
            largest = max((max(label) for label in task), default=0)
            if largest >= vocab_size:
                raise ValueError(
                    f"{self.method}: labels hold the id {largest}, "
                    f"expected ids below vocab_size={vocab_size}"
                )

    def add_weights(self) -> None:
        dims = {
            "task_num": self.num_tasks,
            "prompt": self.options.length,
            "d_model": self.config.d_model,
        }
        uniform = keras.initializers.RandomUniform(-0.5, 0.5)
        self.prompts = add_weight(self, "prompts", dims, uniform)

    def on_built(self, model: T5) -> None:
        """Gives new prompts their initial values."""
        if not self._has_initial_values and not in_stateless_scope():
            self.initialize_from(model)

    def initialize_from(self, model: T5, seed: int | None = None) -> None:
        """Gives all prompts initial values, from the model's embeddings as they are.

        A new model calls it by itself; call it again once pretrained weights are
        loaded, so that prompts start from the embeddings that were learned:

        ```python
        hypertf.checkpoints.load(model, path)
        model.conditioner.initialize_from(model)
        ```
        """
        if seed is None:
            seed = random.randrange(2**31)  # what keras.utils.set_random_seed governs
        rng = np.random.default_rng(seed)
        if self.options.initial_values == "uniform":
            values = rng.uniform(-0.5, 0.5, self.prompts.shape)
        else:
            values = self._drawn(model.shared.embedding, rng)
        self.prompts.assign(values.astype("float32"))
        self._has_initial_values = True

    def _drawn(self, table: keras.Variable, rng: np.random.Generator) -> np.ndarray:
        """Rows of the table for every task, the first ones its labels if it has any."""
        length = self.options.length
        population = min(self.options.population, self.config.vocab_size)
        again = length > population  # drawn twice only where there are too few
        ids = [
            rng.choice(population, length, replace=again) for _ in range(self.num_tasks)
        ]
        values = _rows(table, ids)
        for task, labels in enumerate(self.options.labels or ()):
            for i, label in enumerate(labels):
                values[task, i] = _rows(table, label).mean(axis=0)
        return values

    def stack_sites(
        self, stack: str, task_ids: Tensor, training: bool = False
    ) -> StackSites:
        plain = StackSites.plain(self.num_layers(stack))
        tokens = ops.cast(tf.gather(self.prompts, task_ids), self.compute_dtype)
        return dataclasses.replace(plain, tokens=tokens)


def _rows(table: keras.Variable, ids: Any) -> np.ndarray:
    return np.array(ops.take(table, np.array(ids, "int32"), axis=0), "float32")


register(PromptTuning, "prompt-tuning")
