"""Predictions of a model over batches: text ids or the likeliest of given targets."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from hypertf import checkpoints
from hypertf.checkpoints import Report
from hypertf.t5 import T5
from hypertf.t5.inputs import ENCODER_TOKENS, INDEX, OF_ENCODER, TARGETS, only
from hypertf.training.strategies import distribute
from hypertf.types import Array, Batch, Tensor


class Predictor:
    """Runs a model over finite datasets, on all devices of its strategy.

    Rows whose index is -1 only fill up a batch and are left out.

    Args:
        model: a `hypertf.T5`.
        max_length: tokens written at most.
        strategy: under which the model was made.
        **options: of `T5.generate`, such as `beam_size`.
    """

    def __init__(
        self,
        model: T5,
        max_length: int,
        strategy: tf.distribute.Strategy | None = None,
        **options: Any,
    ) -> None:
        self.model = model
        self.strategy = strategy or tf.distribute.get_strategy()
        self._options = {"max_length": max_length, "return_scores": True, **options}

    def load(self, path: str | os.PathLike) -> Report:
        """Fills the model from a checkpoint of any form, and says what it held."""
        return checkpoints.load(self.model, path)

    def generate(
        self,
        make_dataset: Callable,
        total: int | None = None,
        title: str = "generating",
    ) -> list[np.ndarray]:
        """Writes for all rows: ids [rows, max_length] and log probabilities [rows].

        Args:
            make_dataset: function of `host` and `num_hosts` to tf.data.
            total: number of batches, for the progress bar.
        """
        return self._over(self.write, make_dataset, total, title)

    def write(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Writes for a batch at hand, on one device."""
        inputs = only(batch, OF_ENCODER)
        return self.model.generate(inputs, seed=0, **self._options)

    def rank(
        self,
        make_dataset: Callable,
        choices: Array,
        total: int | None = None,
        title: str = "ranking",
    ) -> np.ndarray:
        """Computes log-likelihoods [rows, choices] of targets that all rows share.

        Args:
            choices: ids [choices, length], ended and padded.
        """
        choices = tf.constant(choices, tf.int32)

        def score(batch):
            inputs = only(batch, OF_ENCODER)
            rows = inputs[ENCODER_TOKENS].shape[0]
            targets = tf.broadcast_to(choices, [rows, *choices.shape])
            return (self.score({**inputs, TARGETS: targets}),)

        return self._over(score, make_dataset, total, title)[0]

    def score(self, batch: Batch) -> Tensor:
        """Computes log-likelihoods of a batch's targets, as `T5.score` does."""
        return self.model.score(batch)

    def _over(self, function, make_dataset, total, title):
        step = self._step(function)
        parts = []
        data = distribute(self.strategy, make_dataset)
        for batch in tqdm(data, title, total, leave=False, disable=None):
            *values, index = step(batch)
            real = index.numpy() >= 0
            parts.append([value.numpy()[real] for value in values])
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def _step(self, function):
        def of_replica(batch):
            return (*function(batch), batch[INDEX])

        if self.strategy.num_replicas_in_sync == 1:
            return of_replica

        @tf.function(autograph=False)
        def step(batch):
            values = self.strategy.run(of_replica, args=(batch,))
            return [self.strategy.gather(value, axis=0) for value in values]

        return step
