"""A training step: one update of the global batch, whatever the devices.

The loss of every replica is divided by what the whole batch counts, so that the
sum over replicas, or over the parts of gradient accumulation, is the loss of one
device that takes the batch at once. Randomness is a function of the seed, the step
and the replica: nothing but the step has to be remembered to go on.
"""

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from hypertf import checkpoints
from hypertf.checkpoints import Report
from hypertf.t5 import T5
from hypertf.t5.inputs import (
    DECODER_POSITIONS,
    DECODER_SEGMENT_IDS,
    TARGETS,
    TASK_IDS,
    of_model,
)
from hypertf.training.loss import NORMALIZATIONS, token_losses
from hypertf.training.run_folder import RunFolder
from hypertf.types import Batch, Tensor

Totals = dict[str, np.ndarray]  # see `TrainStep.run`
NEXT_POSITION = "next_position"  # [rows, 2], of data that say where they go on


class TrainStep:
    """Updates a model's trainable weights by batches of a strategy's dataset.

    A batch has "encoder_tokens", "decoder_tokens", "targets" and "task_ids", as
    `hypertf.t5.inputs` describes them. Its rows may be packed.

    Args:
        model: a `hypertf.T5`.
        optimizer: a Keras optimizer; built for the model's trainable weights.
        num_tasks: how many tasks ids tell apart, for the losses per task.
        strategy: the `tf.distribute` strategy under which the model was made.
        microbatches: parts in which a replica takes its rows, one after the other.
        clip_norm: largest norm of all gradients together, None for no limit.
        z_loss, label_smoothing, normalization: as in `T5Loss`.
        seed: of dropout and all other randomness.
        jit_compile: compile with XLA. A TPU always does; on CPU it is slower.
    """

    def __init__(
        self,
        model: T5,
        optimizer: keras.optimizers.Optimizer,
        num_tasks: int,
        strategy: tf.distribute.Strategy | None = None,
        microbatches: int = 1,
        clip_norm: float | None = None,
        z_loss: float = 1e-4,
        label_smoothing: float = 0.0,
        normalization: str = "target_size",
        seed: int = 0,
        jit_compile: bool = False,
    ) -> None:
        if normalization not in NORMALIZATIONS:
            raise ValueError(
                f"normalization={normalization!r}, expected one of "
                f"{', '.join(NORMALIZATIONS)}"
            )
        self.model, self.optimizer, self.num_tasks = model, optimizer, num_tasks
        self.strategy = strategy or tf.distribute.get_strategy()
        self.microbatches, self.clip_norm = microbatches, clip_norm
        self.z_loss, self.label_smoothing = z_loss, label_smoothing
        self.normalization, self.seed = normalization, seed
        with self.strategy.scope():
            optimizer.build(model.trainable_variables)
        self._variables = [v.value for v in model.trainable_variables]
        self._random_states = random_states(model)
        # Plain Python all through: converting it would only make tracing slow.
        self._update = tf.autograph.experimental.do_not_convert(self._replica_step)
        if jit_compile:
            self._update = tf.function(
                self._replica_step, jit_compile=True, autograph=False
            )

    def run(self, iterator: Iterator[Batch], step: int, num_steps: int) -> Totals:
        """Takes `num_steps` batches; returns what they came to, as numpy values.

        Args:
            step: the number of the first of them, counted from 0.

        Returns:
            {"loss", "tokens", "examples"}: sums over the steps, [tasks] each;
            "bad_step": the first step whose loss was not a number, or -1, and
            "bad_examples" [tasks], what it was made of; "next_position" [2], where
            the last batch says that the next begins, -1 if it says nothing.
        """
        totals = self._run(
            iterator, tf.constant(step, tf.int64), tf.constant(num_steps)
        )
        return {name: value.numpy() for name, value in totals.items()}

    def one(self, batch: Batch, step: int) -> Totals:
        """Takes one batch at hand, of this strategy's dataset, as `run` would."""
        totals = self._one(batch, tf.constant(step, tf.int64))
        return {name: value.numpy() for name, value in totals.items()}

    @property
    def compiled(self) -> tf.types.experimental.PolymorphicFunction:
        """The update of a replica, a function of a batch and a step for XLA."""
        if not isinstance(self._update, tf.types.experimental.PolymorphicFunction):
            raise ValueError("jit_compile=False, expected True for a compiled update")
        return self._update

    def restore(self, folder: RunFolder) -> int:
        """Goes on from a run's newest checkpoint; returns its step, 0 without one."""
        return folder.restore(self.model, self.optimizer)

    def load(self, path: str) -> Report:
        """Fills the weights from a checkpoint of any form, and says what it held."""
        return checkpoints.load(self.model, path)

    def save(self, folder: RunFolder, step: int) -> None:
        """Writes the checkpoint of a step into the folder of a run."""
        folder.save(self.model, self.optimizer, step)

    def not_a_number(self) -> str | None:
        """Names a weight or slot that is not a number; None if all are."""
        for variable in (*self.model.weights, *self.optimizer.variables):
            value = tf.convert_to_tensor(variable.value)
            if value.dtype.is_floating and not np.isfinite(tf.reduce_sum(value)):
                return variable.path
        return None

    def any_process(self, asked: bool) -> bool:
        """Tells whether any process was asked to; all of them get the same answer.

        All of them have to call it.
        """
        return bool(self._sum(tf.constant(float(asked))).numpy())

    def all_processes_have(self, number: int) -> bool:
        """Tells whether all processes call this with the same whole number."""
        if not isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return True  # there is but one
        replicas = self.strategy.num_replicas_in_sync
        total = self._sum(tf.constant(number, tf.float64)).numpy()
        return not self.any_process(total != number * replicas)

    @tf.function(autograph=False)
    def _sum(self, value):
        # A tensor of its own for each replica: one that they share is not reduced.
        per_replica = self.strategy.run(lambda: tf.identity(value))
        return self.strategy.reduce("SUM", per_replica, axis=None)

    @tf.function
    def _run(self, iterator, step, num_steps):
        totals = self._no_totals()
        for i in tf.range(num_steps):
            at = step + tf.cast(i, tf.int64)
            batch = iterator.get_next()
            totals = self._add(totals, self._global_step(batch, at), at, batch)
        return totals

    @tf.function(autograph=False)
    def _one(self, batch, step):
        metrics = self._global_step(batch, step)
        return self._add(self._no_totals(), metrics, step, batch)

    def _no_totals(self):
        none = tf.zeros([self.num_tasks])
        sums = dict.fromkeys(("loss", "tokens", "examples", "bad_examples"), none)
        bad_step = tf.constant(-1, tf.int64)
        return {**sums, "bad_step": bad_step, NEXT_POSITION: tf.constant(_NOWHERE)}

    def _add(self, totals, metrics, step, batch):
        finite = tf.math.is_finite(tf.reduce_sum(metrics["loss"]))
        first_bad = ~finite & (totals["bad_step"] < 0)
        sums = {name: totals[name] + value for name, value in metrics.items()}
        return {
            **sums,
            "bad_step": tf.where(first_bad, step, totals["bad_step"]),
            "bad_examples": tf.where(
                first_bad, metrics["examples"], totals["bad_examples"]
            ),
            NEXT_POSITION: self._next_position(batch),
        }

    def _next_position(self, batch):
        """All replicas are told the same."""
        if NEXT_POSITION not in batch:
            return tf.constant(_NOWHERE)
        local = self.strategy.experimental_local_results(batch[NEXT_POSITION])
        return local[0][0]

    def _global_step(self, batch, step):
        per_replica = self.strategy.run(self._update, args=(batch, step))
        return {
            name: self.strategy.reduce("SUM", value, axis=None)
            for name, value in per_replica.items()
        }

    def _replica_step(self, batch, step):
        replica = tf.distribute.get_replica_context()
        seeds = self._seeds(step, replica.replica_id_in_sync_group)
        size = self._batch_size(batch[TARGETS], replica)
        gradients, metrics = self.gradients(batch, seeds, size)
        if self.clip_norm is not None:
            gradients = self._clipped(gradients, replica)
        self.optimizer.apply(gradients, self.model.trainable_variables)
        return metrics

    def _seeds(self, step, replica):
        """A state for each of the model's random generators."""
        return seeds(self.seed, step, replica, len(self._random_states))

    def _batch_size(self, targets, replica):
        """What the loss of the global batch is divided by."""
        if self.normalization == "target_size":
            size = targets.shape[0] * targets.shape[1]
            return tf.constant(size * self.strategy.num_replicas_in_sync, tf.float32)
        if self.normalization == "sum":
            return tf.constant(1.0)
        tokens = tf.reduce_sum(tf.cast(targets > 0, tf.float32))
        return tf.maximum(replica.all_reduce("SUM", tokens), 1.0)

    def gradients(
        self, batch: Batch, seeds: list[Tensor], size: Tensor | float
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Gradients of this replica's part of the loss, and sums per task.

        `seeds` are those of the model's random states; the loss is divided by `size`.
        """
        if self.microbatches == 1:
            return self._gradients_of(batch, seeds, size)
        parts = {
            name: tf.reshape(x, [self.microbatches, -1, *x.shape[1:]])
            for name, x in batch.items()
        }

        def part(i, gradients, metrics):
            rows = {name: x[i] for name, x in parts.items()}
            own = [tf.random.experimental.stateless_fold_in(seed, i) for seed in seeds]
            more = self._gradients_of(rows, own, size)
            add = tf.nest.map_structure(tf.add, (gradients, metrics), more)
            return i + 1, *add

        none = [tf.zeros_like(v) for v in self._variables]
        sums = {n: tf.zeros([self.num_tasks]) for n in ("loss", "tokens", "examples")}
        _, gradients, metrics = tf.while_loop(
            lambda i, *_: i < self.microbatches,
            part,
            (tf.constant(0), none, sums),
            parallel_iterations=1,
        )
        return gradients, metrics

    def _gradients_of(self, batch, seeds, size):
        states = [
            (state, tf.cast(seed, state.dtype))
            for state, seed in zip(self._random_states, seeds, strict=True)
        ]
        inputs = of_model(batch)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._variables)
            # Within the scope generators go on from `states`, no variable changes.
            with keras.StatelessScope(state_mapping=states):
                logits = self.model(inputs, training=True)
            losses = token_losses(
                logits, batch[TARGETS], self.z_loss, self.label_smoothing
            )
            loss = tf.reduce_sum(losses) / size
        gradients = tape.gradient(
            loss, self._variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        gradients = [tf.convert_to_tensor(g) for g in gradients]
        return gradients, sums_by_task(losses, batch, self.num_tasks)

    def _clipped(self, gradients, replica):
        """The norm is that of the sum over replicas.

        Keras sums over replicas when it updates: each hands in its share of what
        was summed here.
        """
        replicas = self.strategy.num_replicas_in_sync
        if replicas > 1:
            gradients = replica.all_reduce("SUM", gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm)
        return [g / replicas for g in gradients] if replicas > 1 else gradients


def seeds(seed: int, step: Tensor, replica: Tensor | int, count: int) -> list[Tensor]:
    """States of random generators: a function of seed, step and replica."""
    fold = tf.random.experimental.stateless_fold_in
    of_step = fold(tf.constant([seed, 0], tf.int64), step)
    of_replica = fold(of_step, replica)
    return [fold(of_replica, i) for i in range(count)]


def sums_by_task(losses: Tensor, batch: Batch, num_tasks: int) -> dict[str, Tensor]:
    """Sums "loss", "tokens" and "examples" of each task, [tasks].

    Rows without a target do not count. losses are [batch, length].
    """
    if batch.get(DECODER_SEGMENT_IDS) is not None:
        return _sums_of_packed_rows(losses, batch, num_tasks)
    real = tf.cast(batch[TARGETS] > 0, tf.float32)
    tokens = tf.reduce_sum(real, axis=1)
    sums = {
        "loss": tf.reduce_sum(losses, axis=1),
        "tokens": tokens,
        "examples": tf.cast(tokens > 0, tf.float32),
    }
    task_ids = batch.get(TASK_IDS)
    if task_ids is None:
        task_ids = tf.zeros_like(batch[TARGETS][:, 0])
    return {
        name: tf.math.unsorted_segment_sum(value, task_ids, num_tasks)
        for name, value in sums.items()
    }


def _sums_of_packed_rows(losses, batch, num_tasks):
    """As `sums_by_task`: a segment is an example, and each token says its task."""
    real = tf.cast(batch[TARGETS] > 0, tf.float32)
    segments, task_ids = batch[DECODER_SEGMENT_IDS], batch.get(TASK_IDS)
    if task_ids is None:
        task_ids = tf.zeros_like(segments)
    elif len(task_ids.shape) == 1:
        task_ids = tf.broadcast_to(tf.expand_dims(task_ids, 1), tf.shape(segments))
    else:
        task_ids = tf.gather(task_ids, tf.maximum(segments - 1, 0), batch_dims=1)
    is_first = tf.cast(batch[DECODER_POSITIONS] == 0, tf.float32)
    sums = {"loss": losses, "tokens": real, "examples": real * is_first}
    return {
        name: tf.math.unsorted_segment_sum(value, task_ids, num_tasks)
        for name, value in sums.items()
    }


def random_states(model: T5) -> list[keras.Variable]:
    """Lists the states of the random generators of a model and its conditioner."""
    return [v for v in model.non_trainable_variables if v.name.startswith(_STATE)]


_STATE = "seed_generator_state"
_NOWHERE = np.array([-1, -1], "int32")
