"""A method with a tiny T5 to be checked in, and the measures that checks use."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hypertf.conditioning
from hypertf.t5 import T5, T5Config

# Stacks of different depth, so that neither can pass for the other.
TINY = T5Config(
    vocab_size=60,
    d_model=16,
    d_ff=24,
    num_heads=2,
    d_kv=6,
    num_encoder_layers=1,
    num_decoder_layers=2,
    dropout_rate=0.0,
)
INPUT_LENGTH, TARGET_LENGTH = 8, 4
SEED = 3
# Of the size of outputs; attention that is almost a choice multiplies it.
ROUNDING = 1e-4


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A method by name, its options, and the T5 in which it is checked.

    What is dear to make is made once and shared by all checks: they must not change
    its weights.

    Attributes:
        method: the name that `hypertf.conditioning.create` knows.
        options: the method's own, of sizes that fit `config`.
        config: the T5; its dropout rate is 0 but where dropout is checked.
        num_tasks: how many tasks there are, at least 2.
        tasks_differ: whether the same input gives different outputs for two tasks.
    """

    method: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    config: T5Config = TINY
    num_tasks: int = 3
    tasks_differ: bool = True

    def __post_init__(self) -> None:
        if self.num_tasks < 2:
            raise ValueError(
                f"Case: num_tasks={self.num_tasks}, expected at least 2 tasks to mix"
            )
        config = dataclasses.replace(self.config, dropout_rate=0.0)
        object.__setattr__(self, "config", config)

    def create(self, config: T5Config | None = None, **options: Any) -> Any:
        """Makes a conditioner, in another T5 or with other options if given."""
        return hypertf.conditioning.create(
            self.method,
            config or self.config,
            self.num_tasks,
            **{**self.options, **options},
        )

    def make(self, **sizes: Any) -> T5:
        """A model whose weights are spread wide enough for outputs to differ."""
        config = dataclasses.replace(self.config, **sizes)
        keras.utils.set_random_seed(SEED)
        model = T5(config, conditioner=self.create(config))
        rng = np.random.default_rng(SEED)
        for weight in model.weights:
            weight.assign(weight + 0.2 * rng.normal(size=weight.shape))
        return model

    def copy(self, **changes: Any) -> T5:
        """Another model made from the first one's configuration and weights."""
        other = T5.from_config({**self.model.get_config(), **changes})
        other.set_weights(self.model.get_weights())
        return other

    @functools.cached_property
    def twin(self) -> T5:
        """A copy of the model, of whose weights each check makes what it needs."""
        return T5.from_config(self.model.get_config())

    @functools.cached_property
    def model(self) -> T5:
        """The model that most checks share."""
        return self.make()

    @functools.cached_property
    def small(self) -> T5:
        """One block in each stack, for what is compiled."""
        return self.make(num_encoder_layers=1, num_decoder_layers=1)

    @functools.cached_property
    def logits(self) -> np.ndarray:
        """What the shared model says of the batch."""
        return self.model(self.batch()).numpy()

    @functools.cached_property
    def written(self) -> tuple[np.ndarray, np.ndarray]:
        """The tokens that the shared model writes, greedily, and their scores."""
        with eagerly():
            ids, scores = self.model.generate(
                self.inputs(), TARGET_LENGTH, length_penalty=0.0, return_scores=True
            )
        return np.asarray(ids), np.asarray(scores)

    @functools.cached_property
    def gradients(self) -> tuple[np.ndarray, dict[str, np.ndarray | None]]:
        """The shared model's loss and gradients; see `gradients_of`."""
        return gradients_of(self.model, self.batch())

    @property
    def tasks(self) -> list[int]:
        """A task id for each row: more rows than tasks, which are not in order."""
        last = self.num_tasks - 1
        return [0, *range(last, 0, -1), last]

    @property
    def other_tasks(self) -> list[int]:
        """Every second row has another task."""
        return [(t + i % 2) % self.num_tasks for i, t in enumerate(self.tasks)]

    def inputs(self, tasks: Sequence[int] | None = None) -> dict[str, np.ndarray]:
        """The batch as `generate` takes it, padded rows among its rows."""
        tasks = self.tasks if tasks is None else tasks
        lengths = [(4, 8, 6, 5)[i % 4] for i in range(len(tasks))]
        return {
            "encoder_tokens": rows(lengths, INPUT_LENGTH, self.config.vocab_size),
            "task_ids": np.array(tasks, "int32"),
        }

    def targets(self, seed: int = 1) -> np.ndarray:
        """Target tokens for each row of the batch."""
        lengths = [(3, 4, 2, 4)[i % 4] for i in range(len(self.tasks))]
        return rows(lengths, TARGET_LENGTH, self.config.vocab_size, seed)

    def batch(self, tasks: Sequence[int] | None = None) -> dict[str, np.ndarray]:
        """The batch as the model takes it."""
        return {**self.inputs(tasks), "decoder_tokens": self.targets()}


def rows(
    lengths: Sequence[int], width: int, vocab_size: int = 60, seed: int = 0
) -> np.ndarray:
    """Token rows of the given lengths, ended by 1 and padded with 0 to `width`."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(2, vocab_size, (len(lengths), width)).astype("int32")
    for row, length in zip(tokens, lengths, strict=True):
        row[length - 1] = 1
        row[length:] = 0
    return tokens


def relative_error(got: Any, expected: Any) -> float:
    """The largest difference, relative to the scale of what is expected."""
    got, expected = np.asarray(got, "float64"), np.asarray(expected, "float64")
    assert got.shape == expected.shape, f"{got.shape} is not {expected.shape}"
    return np.abs(got - expected).max() / max(np.abs(expected).max(), 1e-30)


def require_close(
    what: str, got: Any, expected: Any, tolerance: float = ROUNDING
) -> None:
    """Raises unless two arrays are as near as `tolerance` of what is expected."""
    error = relative_error(got, expected)
    # Not `error >= tolerance`, which a NaN would pass.
    if not error < tolerance:
        raise AssertionError(
            f"{what}: off by {error:.2g} of its size, expected less than {tolerance:g}"
        )


def require_same(
    what: str,
    got: tuple,
    expected: tuple,
    tolerance: float,
    least: float = 1e-5,
) -> None:
    """Loss and gradients are the same, each of its own size.

    What is smaller than `least` of the largest gradient is rounding of the others.
    """
    (loss, gradients), (expected_loss, expected_gradients) = got, expected
    require_close(f"the {what} loss", loss, expected_loss, 1e-5)
    sizes = [np.abs(g).max() for g in expected_gradients.values() if g is not None]
    least *= max(sizes)
    pairs = zip(expected_gradients, gradients.values(), strict=True)
    for path, gradient in pairs:
        wanted = expected_gradients[path]
        require(
            (gradient is None) == (wanted is None),
            f"{what}: {_which_of(gradient)} for {path}, expected {_which_of(wanted)}",
        )
        if wanted is not None:
            error = np.abs(gradient - wanted).max() / max(np.abs(wanted).max(), least)
            require(
                error < tolerance,
                f"the {what} gradient of {path}: off by {error:.2g} of its size, "
                f"expected less than {tolerance:g}",
            )


def _which_of(gradient: np.ndarray | None) -> str:
    return "no gradient" if gradient is None else "a gradient"


def require(holds: bool, message: str) -> None:
    """Raises an AssertionError unless it holds, under `python -O` too."""
    if not holds:
        raise AssertionError(message)


def log_likelihood(model: T5, batch: dict, ids: Any) -> np.ndarray:
    """Of what was written up to its end token, by one pass over the whole of it.

    Unlike `model.score`, counts padding that a random model wrote as text.
    """
    ids = np.asarray(ids)
    return likelihood_of(ids, logits_before(model, batch, ids))


def logits_before(model: T5, batch: dict, ids: np.ndarray) -> np.ndarray:
    """What the model says before each token of `ids`, in one pass over all."""
    before = np.pad(ids, ((0, 0), (1, 0)))[:, :-1]
    return model({**batch, "decoder_tokens": before}).numpy()


def likelihood_of(ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """The logarithm of it, from the logits before each token."""
    chosen = chosen_of(keras.ops.log_softmax(logits).numpy(), ids)
    ended = np.cumsum(ids == 1, axis=1) - (ids == 1)
    return np.where(ended, 0, chosen).sum(axis=1)


def chosen_of(values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The value of each token that was chosen, of those of all tokens."""
    return np.take_along_axis(values, ids[:, :, None], axis=-1)[:, :, 0]


def gradients_of(
    model: T5, batch: dict, jit_compile: bool = False
) -> tuple[np.ndarray, dict[str, np.ndarray | None]]:
    """A loss in training, and its gradients by the paths of the trained weights."""
    batch = {name: tf.constant(value) for name, value in batch.items()}
    values = [variable.value for variable in model.trainable_variables]

    def step() -> tuple:
        with tf.GradientTape() as tape:
            logits = model(batch, training=True)
            loss = tf.reduce_mean(tf.square(logits - 0.1))
        return loss, tape.gradient(loss, values)

    if jit_compile:
        step = tf.function(step, jit_compile=True, autograph=False)
    loss, gradients = step()
    paths = [variable.path for variable in model.trainable_variables]
    arrays = map(_array, gradients)
    return np.asarray(loss), dict(zip(paths, arrays, strict=True))


def _array(gradient: Any) -> np.ndarray | None:
    # Those of looked up rows come as slices.
    return None if gradient is None else np.asarray(tf.convert_to_tensor(gradient))


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    """Runs compiled functions without compiling, which for tiny models is faster."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)
