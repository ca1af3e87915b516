"""A training step on a mesh: weights, slots and batch are split, the results are not.

    step = MeshStep(model, hypertf.Adafactor(), mesh, parse_layout(), num_tasks=8)
    totals = step.one(batch)  # the batch of all devices, as numpy arrays

Weights and slots are copied out of the model and its optimizer into variables that are
laid out over the mesh. The model runs on those: it reads them in place of its own. So
loss, gradients and updates are those of `hypertf.training.TrainStep` on one device.
"""

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from hypertf.checkpoints import Report
from hypertf.keras_internals import has_value
from hypertf.mesh import devices, filling, limits, processes, shards
from hypertf.mesh.batches import side_by_side, taken_apart
from hypertf.mesh.layouts import Layout
from hypertf.mesh.microbatches import Microbatches
from hypertf.mesh.tensors import variables
from hypertf.mesh.updates import Updates, slot_name
from hypertf.t5 import T5, named_weights, target
from hypertf.t5.inputs import OF_MODEL, TARGETS, only
from hypertf.training import RunFolder
from hypertf.training.loss import NORMALIZATIONS, token_losses
from hypertf.training.step import Totals, random_states, seeds, sums_by_task
from hypertf.types import Batch

_TAKEN = (*OF_MODEL, TARGETS)


class MeshStep:
    """Updates weights that are split over a mesh, by global batches.

    Args:
        model: a `hypertf.T5`, built; its own variables stay as they are. One made
            inside `hypertf.t5.Unallocated` is never whole in memory.
        optimizer: an `Adafactor` or `AdamW`; its state, if it is built, is where
            training starts.
        mesh: of `hypertf.mesh.devices.create_mesh`.
        layout: the rules by which weights, slots and batches are split.
        num_tasks, clip_norm, z_loss, label_smoothing, normalization, seed,
            microbatches: as in `hypertf.training.TrainStep`; of a batch of all devices,
            each part is split over them.
        values: whether weights get the model's values; if not they are 0, until
            `restore` or `load` fills them.

    Attributes:
        weights: `{name: DVariable}`.
        slots: `{name_slot_v: DVariable}` and so on, of the weights that are trained.
        step: a DVariable that counts the steps taken. One that was not would have the
            step expanded anew whenever it changes.

    A `hypertf.training.Loop` takes it in place of a `TrainStep`. Each process saves
    what its devices hold; a run goes on with other meshes, or without one.
    """

    def __init__(
        self,
        model: T5,
        optimizer: keras.optimizers.Optimizer,
        mesh: dtensor.Mesh,
        layout: Layout,
        num_tasks: int,
        clip_norm: float | None = None,
        z_loss: float = 1e-4,
        label_smoothing: float = 0.0,
        normalization: str = "target_size",
        seed: int = 0,
        values: bool = True,
        microbatches: int = 1,
    ) -> None:
        if normalization not in NORMALIZATIONS:
            raise ValueError(
                f"normalization={normalization!r}, expected one of "
                f"{', '.join(NORMALIZATIONS)}"
            )
        limits.check_optimizer(optimizer)
        limits.check_model(model)
        self.model, self.optimizer, self.num_tasks = model, optimizer, num_tasks
        self.mesh, self.layout, self.clip_norm = mesh, layout, clip_norm
        self.z_loss, self.label_smoothing = z_loss, label_smoothing
        self.normalization, self.seed = normalization, seed
        self._named = named_weights(model)
        self._allocated = all(map(has_value, self._named.values()))
        optimizer.rate_factors.check(model.trainable_variables)
        self.weights = devices.distribute(model, layout, mesh, values)
        if values and not self._allocated:
            filling.start_from_others(self.weights, model)
        self.slots = devices.distribute_slots(optimizer, model, layout, mesh)
        self._next = int(optimizer.iterations)
        self.step = self._scalar("step", np.int64(self._next))
        self._rate = None
        if isinstance(optimizer.learning_rate, keras.Variable):
            self._rate = self._scalar("rate", np.float32(optimizer.learning_rate))
        self._trained = {v.name: v for v in variables(model) if v.trained}
        self._updates = Updates(optimizer)
        self._random_states = random_states(model)
        self._function = tf.function(self._update, autograph=False)
        self._parts = None
        if microbatches > 1:
            trained, lie = list(self._trained.values()), (layout, mesh, self._whole)
            self._parts = Microbatches(
                microbatches, trained, self._part, self._apply, *lie
            )
        # Of the data: each process reads all of it.
        self.strategy = tf.distribute.get_strategy()

    def one(self, batch: Batch, step: int | None = None) -> Totals:
        """Takes the next step with a global batch of numpy arrays.

        Every process gives the whole batch and hands its own devices their rows.
        `step`, if given, must be the number of the next one.

        Returns:
            As `run`, of this step.
        """
        if step not in (None, self._next):
            raise ValueError(
                f"step={step}, expected {self._next}, the next one of the mesh"
            )
        self.model.check(only(batch, OF_MODEL), OF_MODEL[:2])
        if self._rate is not None:
            self._rate.assign(
                self._whole_value(np.float32(self.optimizer.learning_rate))
            )
        batch = only(batch, _TAKEN)
        if self._parts is not None:
            size = self._batch_size(tf.constant(batch[TARGETS]))
            totals = self._parts.one(batch, float(size))
        else:
            found = self._function(*side_by_side(batch, self.layout, self.mesh))
            totals = {name: dtensor.unpack(x)[0].numpy() for name, x in found.items()}
        is_bad = not np.isfinite(totals["loss"].sum())
        bad_step = np.int64(self._next if is_bad else -1)
        self._next += 1
        self.optimizer.set_step(self._next)  # for those who ask for its rate
        examples = totals["examples"]
        return {**totals, "bad_step": bad_step, "bad_examples": examples * is_bad}

    def run(self, iterator: Iterator[Batch], step: int, num_steps: int) -> Totals:
        """Takes `num_steps` batches, as `hypertf.training.TrainStep.run` does.

        `step`, the number of the first of them, must be the one that is next.
        """
        totals = self.one(next(iterator), step)
        for at in range(step + 1, step + num_steps):
            more = self.one(next(iterator), at)
            bad = totals if totals["bad_step"] >= 0 else more
            sums = {n: totals[n] + more[n] for n in ("loss", "tokens", "examples")}
            totals = {**sums, **{n: bad[n] for n in ("bad_step", "bad_examples")}}
        return totals

    def any_process(self, asked: bool) -> bool:
        """Tells whether any process was asked to; all of them have to call it."""
        return processes.any_process(self.mesh, asked)

    def all_processes_have(self, number: int) -> bool:
        """Tells whether all processes call this with the same whole number."""
        return processes.all_processes_have(self.mesh, number)

    def restore(self, folder: RunFolder) -> int:
        """Goes on from a run's newest checkpoint; returns its step, 0 without one.

        Each device reads its parts only.
        """
        state = {**self.weights, **self.slots}
        step = folder.restore_by(lambda prefix: shards.restore(state, prefix))
        if step:
            self._next = step
            self.step.assign(self._whole_value(np.int64(step)))
            self.optimizer.set_step(step)
        return step

    def load(self, path: str) -> Report:
        """Fills the weights from a checkpoint of any form, and says what it held."""
        return filling.load(self.weights, self.model, path)

    def save(self, folder: RunFolder, step: int) -> None:
        """Writes the checkpoint of a step, each process what its devices hold."""
        shards.save({**self.weights, **self.slots}, folder.prefix(step), step)
        folder.remove_old()

    def not_a_number(self) -> str | None:
        """Names a weight or slot that is not a number; None if all are."""
        own = (
            name
            for name, variable in {**self.weights, **self.slots}.items()
            for part in dtensor.unpack(variable.read_value())
            if not np.isfinite(tf.reduce_sum(part))
        )
        name = next(own, None)
        if self.any_process(name is not None):
            return name or "a weight that another process holds"
        return None

    def gather(self) -> None:
        """Copies weights, slots and step back into the model and its optimizer.

        From there they are laid out over another mesh by a new `MeshStep`, or used on
        one device. This process then holds the whole model.
        """
        if not self._allocated:
            raise ValueError(
                "gather: the model was made without values, expected one that has "
                "them; hypertf.checkpoints.load reads what was saved"
            )
        self.optimizer.build(self.model.trainable_variables)
        for name, variable in self.weights.items():
            self._named[name].assign(devices.whole(variable))
        for name in self._trained:
            own = self.optimizer.slots(self._named[name])
            for slot, variable in self._slots_of(name).items():
                own[slot].assign(devices.whole(variable))
        self.optimizer.set_step(int(devices.whole(self.step)))

    @property
    def traces(self) -> int:
        """How often the step was traced; each time it is expanded, which takes long."""
        functions = [self._function] if self._parts is None else self._parts.functions
        return max(f.experimental_get_tracing_count() for f in functions)

    def _scalar(self, name, value):
        return dtensor.DVariable(self._whole_value(value), name=name, trainable=False)

    def _whole_value(self, value):
        return devices.put(value, dtensor.Layout.replicated(self.mesh, rank=0))

    def _whole(self, x):
        return dtensor.relayout(x, dtensor.Layout.replicated(self.mesh, len(x.shape)))

    def _update(self, joined, shapes):
        with target.tracing_for(whole=self._whole):
            batch = taken_apart(joined, shapes)
            size = self._batch_size(batch[TARGETS])
            gradients, metrics = self._gradients(batch, self._seeds(), size)
            self._apply(gradients)
            return metrics

    def _part(self, batch, number, size):
        fold_in = tf.random.experimental.stateless_fold_in
        own = [fold_in(seed, tf.cast(number, tf.int32)) for seed in self._seeds()]
        return self._gradients(batch, own, size)

    def _apply(self, gradients):
        step = self.step.read_value()
        if self.clip_norm is not None:
            names, values = list(gradients), list(gradients.values())
            values, _ = tf.clip_by_global_norm(values, self.clip_norm)
            gradients = dict(zip(names, values, strict=True))
        has_schedule = self._rate is None
        rate = self._updates.rate(step) if has_schedule else self._rate.read_value()
        for name, gradient in gradients.items():
            self._update_one(name, gradient, step, rate)
        self.step.assign(step + 1)

    def _gradients(self, batch, seeds, size):
        """Gradients of the loss by the weights' names, and sums per task."""
        values = {name: v.read_value() for name, v in self.weights.items()}
        trained = [values[name] for name in self._trained]
        states = [
            (state, self._whole(tf.cast(seed, state.dtype)))
            for state, seed in zip(self._random_states, seeds, strict=True)
        ]
        mapping = [(self._named[name], value) for name, value in values.items()]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(trained)
            with keras.StatelessScope(state_mapping=[*mapping, *states]):
                logits = self.model(only(batch, OF_MODEL), training=True)
            losses = token_losses(
                logits, batch[TARGETS], self.z_loss, self.label_smoothing
            )
            loss = tf.reduce_sum(losses) / size
        gradients = tape.gradient(
            loss, trained, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        laid_out = {
            name: dtensor.relayout(tf.convert_to_tensor(g), self.weights[name].layout)
            for name, g in zip(self._trained, gradients, strict=True)
        }
        sums = sums_by_task(losses, batch, self.num_tasks)
        return laid_out, {name: self._whole(x) for name, x in sums.items()}

    def _seeds(self):
        """What `TrainStep` on one device would have: those of replica 0."""
        step = self.step.read_value()
        return seeds(self.seed, step, 0, len(self._random_states))

    def _batch_size(self, targets):
        if self.normalization == "target_size":
            return float(targets.shape[0] * targets.shape[1])
        if self.normalization == "sum":
            return 1.0
        return tf.maximum(tf.reduce_sum(tf.cast(targets > 0, tf.float32)), 1.0)

    def _slots_of(self, name):
        """The slots of a weight: `{"v": DVariable}`, or "vr" and "vc"."""
        found = self._updates.slots(self._trained[name])
        return {slot_name(tensor): self.slots[tensor.name] for tensor in found}

    def _update_one(self, name, gradient, step, rate):
        own, weight = self._slots_of(name), self.weights[name]
        new, new_slots = self._updates.updated(
            self._named[name],
            tf.cast(weight.read_value(), tf.float32),
            tf.cast(gradient, tf.float32),
            {slot: variable.read_value() for slot, variable in own.items()},
            tf.cast(step, tf.float32),
            rate,
        )
        for slot, variable in own.items():
            variable.assign(dtensor.relayout(new_slots[slot], variable.layout))
        weight.assign(tf.cast(dtensor.relayout(new, weight.layout), weight.dtype))
