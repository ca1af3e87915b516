"""What all methods share: options, what trains, how a task is looked up."""

import dataclasses
import difflib
import math

import keras
import tensorflow as tf
from keras import ops

from hypertf.t5 import Conditioner, T5Config
from hypertf.t5.dropout import dropout
from hypertf.t5.layer import Layer
from hypertf.t5.weights import add_weight

TRAINS = {
    "all": "every weight",
    "all-but-embeddings": "every weight but the token embeddings",
    "task": "the conditioner only",
    "task+norms": "the conditioner and T5's norms",
}


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a method; each method adds its own fields.

    `trains` says which weights train (a key of `TRAINS`), None for the paper's choice.
    """

    trains: str | None = None

    def __post_init__(self):
        if self.trains is not None:
            self.require_one_of("trains", TRAINS)

    def require(self, name, holds, expected):
        """Raises an error that names the option, its value and what was expected."""
        if not holds:
            value = getattr(self, name)
            raise ValueError(f"{name}={value!r}, expected {expected}")

    def require_one_of(self, name, choices):
        expected = f"one of {', '.join(map(repr, choices))}"
        self.require(name, getattr(self, name) in choices, expected)

    def require_positive(self, *names):
        for name in names:
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            self.require(name, whole and value >= 1, "an integer >= 1")

    def require_unset(self, *names, because):
        """Options that would change nothing must be as they are by default."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name in names:
            default = defaults[name]
            unset = getattr(self, name) == default
            self.require(name, unset, f"{default!r}: no effect with {because}")

    @classmethod
    def of(cls, method, values):
        """Options of a method from keywords; a misspelt one gets the nearest name."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise ValueError(
                    f"{method}: unknown option {name!r}; {hint}"
                    f"its options are {', '.join(known)}"
                )
        try:
            return cls(**values)
        except ValueError as error:
            raise ValueError(f"{method}: {error}") from None


class Method(Conditioner):
    """The base of all methods.

    A method declares `Options`, and `trains`, what the paper trains. Weights are made
    in `build`; one weight per layer where the paper has one, as Adafactor takes each
    weight by itself.
    """

    Options = Options
    trains = "all"

    def __init__(self, config, num_tasks, options=None, method=None, **kwargs):
        kwargs.setdefault("name", "conditioner")
        super().__init__(autocast=False, **kwargs)
        self.config = T5Config(**config) if isinstance(config, dict) else config
        self.method = method or type(self).__name__
        if isinstance(num_tasks, bool) or not isinstance(num_tasks, int):
            raise ValueError(
                f"{self.method}: num_tasks={num_tasks!r}, expected an integer >= 1"
            )
        if num_tasks < 1:
            raise ValueError(
                f"{self.method}: num_tasks={num_tasks}, expected at least 1 task"
            )
        self.num_tasks = num_tasks
        if not isinstance(options, self.Options):
            options = self.Options.of(self.method, options or {})
        self.options = options
        self.seed_generator = keras.random.SeedGenerator()

    def num_layers(self, stack):
        c = self.config
        return c.num_encoder_layers if stack == "encoder" else c.num_decoder_layers

    def choose_trainable(self, model):
        """Freezes what the option `trains` leaves out, T5's norms and all."""
        choice = self.options.trains or self.trains
        if choice == "all":
            return
        if choice == "all-but-embeddings":
            model.shared.trainable = False
            return
        mine = {id(weight) for weight in self.weights}
        for weight in model.weights:
            norm = choice == "task+norms" and weight.path.endswith("rms_norm/scale")
            weight.trainable = id(weight) in mine or norm

    def per_example(self, generate, task_ids, axis=0):
        """What `generate(task_ids)` makes, once per task where tasks are fewer.

        generate: ids [n] -> nest of tensors with n at `axis`. Returns the nest for
        each example, the batch in place of n. A batch larger than the number of tasks
        generates for every task and looks the examples up.
        """
        batch = task_ids.shape[0]
        if batch is not None and batch <= self.num_tasks:
            return generate(task_ids)
        made = generate(tf.range(self.num_tasks))
        return tf.nest.map_structure(lambda x: look_up(x, task_ids, axis), made)

    def dropout(self, x, training):
        """Element by element, with T5's rate."""
        if not training or not self.config.dropout_rate:
            return x
        return dropout(x, self.config.dropout_rate, self.seed_generator)

    def get_config(self):
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "num_tasks": self.num_tasks,
            "options": dataclasses.asdict(self.options),
            "method": self.method,
        }


class Weights(Layer):
    """Holds weights as declared: `{name: (dims, initializer)}`."""

    def __init__(self, declared, **kwargs):
        super().__init__(**kwargs)
        self.declared = declared

    def build(self, input_shape=None):
        for name, (dims, initializer) in self.declared.items():
            setattr(self, name, add_weight(self, name, dims, initializer))
        self.built = True


def look_up(x, task_ids, axis=0):
    """The tasks' entries of x along an axis: `tf.gather` with a cheaper gradient.

    Gradients of examples add up to those of tasks in a matrix product. TensorFlow
    would go through them one by one, and turn the tensor for an axis within it.
    """
    shape = x.shape
    flat = [math.prod(shape[:axis]), -1, math.prod(shape[axis + 1 :])]

    @tf.custom_gradient
    def gather(x):
        def gradient(of_examples):
            tasks = tf.one_hot(task_ids, shape[axis], dtype=x.dtype)  # [batch, tasks]
            rows = tf.reshape(of_examples, flat)
            return tf.reshape(tf.matmul(tasks, rows, transpose_a=True), shape)

        return tf.gather(x, task_ids, axis=axis), gradient

    return gather(x)


def layer_norm(x, scale, bias, epsilon):
    """The norm that subtracts the mean, biased variance, in float32."""
    dtype, x = x.dtype, ops.cast(x, "float32")
    mean = ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(x - mean), axis=-1, keepdims=True)
    x = (x - mean) * ops.rsqrt(variance + epsilon)
    return ops.cast(x * scale + bias, dtype)
