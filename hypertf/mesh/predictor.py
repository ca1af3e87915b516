"""Generation and scoring by a model that is split over a mesh.

with hypertf.t5.Unallocated():
    model = hypertf.T5(config, conditioner)
predictor = MeshPredictor(model, mesh, parse_layout(), max_length=32)
predictor.load("run/model.ckpt-1000")
ids, scores = predictor.write(batch)  # the batch of all devices, numpy arrays
"""

import os
from typing import Any

import keras
import tensorflow as tf
from tensorflow.experimental import dtensor

from hypertf.checkpoints import Report
from hypertf.mesh import devices, filling, loops
from hypertf.mesh.batches import side_by_side, taken_apart
from hypertf.mesh.filling import Weights
from hypertf.mesh.layouts import Layout
from hypertf.t5 import T5, named_weights, target
from hypertf.t5.decoding import Options
from hypertf.t5.inputs import ENCODER_TOKENS, OF_ENCODER, TARGETS, only
from hypertf.t5.model import generate_ids
from hypertf.t5.scoring import log_likelihood
from hypertf.training import Predictor
from hypertf.types import Batch, Tensor


class MeshPredictor(Predictor):
    """Answers batches by weights that are split over a mesh.

    Args:
        model: a `hypertf.T5`, which may be made without values.
        mesh: of `hypertf.mesh.devices.create_mesh`.
        layout: the rules by which weights, caches and batches are split.
        max_length: tokens written at most.
        weights: `{name: DVariable}`, of another predictor or a `MeshStep`; by default
            its own, which are 0 until `load` fills them.
        **options: of `T5.generate`, such as `beam_size`; nothing is sampled.
    """

    def __init__(
        self,
        model: T5,
        mesh: dtensor.Mesh,
        layout: Layout,
        max_length: int,
        weights: Weights | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, max_length, **options)
        self.mesh, self.layout = mesh, layout
        self._generation = Options(**self._options)
        if self._generation.temperature:
            raise ValueError(
                f"temperature={self._generation.temperature}: expected 0 on a mesh, "
                "where nothing is sampled"
            )
        if weights is None:
            weights = devices.distribute(model, layout, mesh, values=False)
        self.weights = weights
        self._named = named_weights(model)
        self._write = tf.function(self._generate, autograph=False)
        self._rate = tf.function(self._log_likelihood, autograph=False)

    def load(self, path: str | os.PathLike) -> Report:
        """Fills the weights from a checkpoint of any form, and says what it held."""
        return filling.load(self.weights, self.model, path)

    def write(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Writes for a batch of numpy arrays, of all devices: ids and their scores."""
        return self._run(self._write, only(batch, OF_ENCODER), (ENCODER_TOKENS,))

    def score(self, batch: Batch) -> Tensor:
        """Computes log-likelihoods of a batch's targets, as `T5.score` does."""
        return self._run(self._rate, batch, (ENCODER_TOKENS, TARGETS))[0]

    def _run(self, function, batch, required):
        self.model.check(batch, required)
        laid_out = side_by_side(batch, self.layout, self.mesh)
        tracing = target.tracing_for(gradients=False, whole=self._whole)
        with tracing, loops.named_apart():
            values = function(*laid_out)
        return tuple(dtensor.unpack(value)[0] for value in values)

    def _generate(self, joined, shapes):
        with self._values():
            batch = taken_apart(joined, shapes)
            values = generate_ids(self.model, self._generation, batch, None)
            return tuple(self._whole(value) for value in values)

    def _log_likelihood(self, joined, shapes):
        with self._values():
            scores = log_likelihood(self.model, taken_apart(joined, shapes))
            return (self._whole(scores),)

    def _values(self):
        """A scope in which the model reads the weights on the mesh."""
        mapping = [(self._named[n], v.read_value()) for n, v in self.weights.items()]
        return keras.StatelessScope(state_mapping=mapping)

    def _whole(self, x):
        return dtensor.relayout(x, dtensor.Layout.replicated(self.mesh, len(x.shape)))
