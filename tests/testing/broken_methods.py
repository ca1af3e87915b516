"""Methods with one thing wrong each, and the checks that must say so."""

import dataclasses

import keras
import tensorflow as tf

from hypertf.conditioning import Method, Options
from hypertf.t5 import Sites, StackSites, shared
from hypertf.t5.products import project
from hypertf.t5.weights import add_weight, normal


@dataclasses.dataclass(frozen=True)
class Shift(Sites):
    by: object  # [batch, 1, d_model]

    def after_ffn(self, y, training):
        return y + tf.cast(self.by, y.dtype)


@keras.saving.register_keras_serializable("broken")
class Sound(Method):
    """Every task and block of the decoder adds a vector; nothing is wrong with it."""

    trains = "task"
    Sites = Shift

    def add_weights(self):
        dims = {
            "task_num": self.num_tasks,
            "layers": self.num_layers("decoder"),
            "d_model": self.config.d_model,
        }
        self.shifts = add_weight(self, "shifts", dims, normal(1.0))

    def encoder(self, task_ids, training=False, first_pass=None):
        return StackSites.plain(self.num_layers("encoder"))

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        shifts = self.shift(task_ids)[:, :, None]
        return StackSites(tuple(map(self.Sites, tf.unstack(shifts, axis=1))))

    def shift(self, task_ids):
        """What is added: [batch, layers, d_model]."""
        return tf.gather(self.shifts, task_ids)


BROKEN = []


def fails(*checks):
    """Says which checks must fail."""

    def add(cls):
        cls = keras.saving.register_keras_serializable("broken")(cls)
        BROKEN.append((cls, checks))
        return cls

    return add


@fails("mixed_tasks")
class IgnoresTheTask(Sound):
    def shift(self, task_ids):
        return super().shift(tf.zeros_like(task_ids))


@fails("mixed_tasks", "single")
class ReadsItsBatchMates(Sound):
    def shift(self, task_ids):
        made = super().shift(task_ids)
        return made - tf.reduce_mean(made, axis=0, keepdims=True)


@fails("state")
class KeepsStateOnTheLayer(Sound):
    def encoder(self, task_ids, training=False, first_pass=None):
        self.kept = task_ids
        return super().encoder(task_ids, training, first_pass)

    def shift(self, task_ids):
        return super().shift(self.kept)


@fails("padding")
class ReadsPadding(Sound):
    reads_input = ("decoder",)

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        read = tf.reduce_mean(encoder_output, axis=1)[:, None, None]
        shifts = self.shift(task_ids)[:, :, None] + read
        return StackSites(tuple(map(Shift, tf.unstack(shifts, axis=1))))


@dataclasses.dataclass(frozen=True)
class LengthSites(Shift):
    def after_ffn(self, y, training):
        return super().after_ffn(y, training) + tf.reduce_mean(y, axis=1, keepdims=True)


@fails("cached", "beam", "score")
class ReadsTheWholeTarget(Sound):
    Sites = LengthSites


@fails("gradients")
class StopsAGradient(Sound):
    def shift(self, task_ids):
        return tf.stop_gradient(super().shift(task_ids))


@fails("gradients")
class HasAGradientOfZero(Sound):
    def shift(self, task_ids):
        return super().shift(task_ids) + 0.0 * tf.reduce_mean(self.unused)

    def add_weights(self):
        super().add_weights()
        self.unused = add_weight(self, "unused", {"d_model": 4}, normal(1.0))


@fails("dropout")
class DropsInInference(Sound):
    def shift(self, task_ids):
        return tf.nn.dropout(super().shift(task_ids), self.config.dropout_rate)


@fails("dropout")
class ReadsTheRateInInference(Sound):
    def shift(self, task_ids):
        return super().shift(task_ids) * (1.0 - self.config.dropout_rate)


@fails("names")
class HasNoNamedDimensions(Sound):
    def add_weights(self):
        shape = (self.num_tasks, self.num_layers("decoder"), self.config.d_model)
        self.shifts = self.add_weight(name="shifts", shape=shape)


@fails("what_trains")
class FreezesNothing(Sound):
    def choose_trainable(self, model):
        pass


@fails("what_trains")
class TrainsNothing(Sound):
    def choose_trainable(self, model):
        super().choose_trainable(model)
        self.trainable = False


@fails("counting")
class MakesWeightsWhenCalled(Sound):
    def add_weights(self):
        pass

    def shift(self, task_ids):
        if not self.weights:
            super().add_weights()
        return super().shift(task_ids)


@dataclasses.dataclass(frozen=True)
class DeafOptions(Options):
    @classmethod
    def of(cls, method, values):
        return cls()


@fails("errors")
class IgnoresWrongOptions(Sound):
    Options = DeafOptions


@fails("configuration", "keras_file", "checkpoint")
class HidesAWeight(Sound):
    """From Keras, so that no copy and no file has it."""

    def add_weights(self):
        super().add_weights()
        hidden = keras.random.normal((self.config.d_model,))
        self.__dict__["hidden"] = tf.constant(hidden)

    def shift(self, task_ids):
        return super().shift(task_ids) + self.hidden


@fails("bfloat16")
class HasWeightsInHalfPrecision(Sound):
    def add_weights(self):
        shape = (self.num_tasks, self.num_layers("decoder"), self.config.d_model)
        self.shifts = self.add_weight(
            name="shifts", shape=shape, dtype=self.compute_dtype
        )
        self.shifts.dims = ("task_num", "layers", "d_model")


@dataclasses.dataclass(frozen=True)
class SharedShift(Shift):
    by: object = shared()  # which it is not


@fails("baked", "baked_tasks")
class CallsItsValuesShared(Sound):
    Sites = SharedShift


@dataclasses.dataclass(frozen=True)
class FunctionSites(Sites):
    shift: object = shared()  # a function, inside which nobody looks

    def after_ffn(self, y, training):
        return self.shift(y)


@fails("rematerialisation", "baked")
class HidesValuesInAFunction(Sound):
    @staticmethod
    def Sites(by):
        return FunctionSites(lambda y: y + tf.cast(by, y.dtype))


@fails("served")
class NeedsAKnownBatch(Sound):
    """Makes a row for each example in Python: a graph of any batch has none."""

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        rows = [task_ids[i] for i in range(task_ids.shape[0] or 0)]
        return super().decoder(
            tf.stack(rows) if rows else task_ids[:0],
            encoder_output,
            encoder_mask,
            training,
        )


@dataclasses.dataclass(frozen=True)
class ShiftOfTheFirst(Shift):
    """In a packed row all examples get what the first one has."""

    def by_segment(self, segments):
        return Shift(segments.in_rows(self.by)[:, 0])


@fails("packed")
class MixesSegments(Sound):
    Sites = ShiftOfTheFirst
    packs = ("task", "mixed")


@fails("compiled_step", "compiled_generate")
class CannotBeCompiled(Sound):
    def shift(self, task_ids):
        made = super().shift(task_ids)
        same = tf.numpy_function(lambda x: x, [made], tf.float32)
        return tf.ensure_shape(same, made.shape)


@dataclasses.dataclass(frozen=True)
class WrongFold(Sites):
    """Scales what the kernel gives, and folds its inverse."""

    by: object  # [batch, 1, d_model]
    kernels = frozenset(["o"])

    def project(self, name, x, kernel, observed):
        return project(x, kernel) * tf.cast(self.by, x.dtype)

    def folded(self, name, kernel):
        return kernel / self.by[0]


@fails("folded")
class FoldsAnotherKernel(Sound):
    Sites = WrongFold
