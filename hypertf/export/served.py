"""What a SavedModel of ours computes: from text to text, without any Python.

`Served` is a plain `tf.Module` that holds weights, tokenizer and the table of tasks,
and has a function for each signature:

| signature | takes | gives |
|---|---|---|
| `serving_default` | `text`, `task` | `output_text`, `score`, `trimmed` |
| `classify` | `text`, `task` | `labels`, `probabilities`, `label`, `trimmed` |
| `tokens` | `tokens`, `task` | `output_tokens`, `score` |
| `encode` | `text`, `task` | `vector`, `trimmed` |

All are batched, [n] or [n, ...] with n unknown. Without XLA a batch is padded to its
longest text, and decoding ends when all rows have ended.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from hypertf.export.serving_form import arrange
from hypertf.export.stored_weights import StoredWeights
from hypertf.t5 import T5, target
from hypertf.t5.decoding import END, Options
from hypertf.t5.inputs import ENCODER_TOKENS, TARGETS, TASK_IDS
from hypertf.t5.model import generate_ids
from hypertf.t5.scoring import log_likelihood
from hypertf.types import Tensor

SIGNATURES = ("serving_default", "classify", "tokens", "encode")
ROUND_UP = 8  # a batch's length is a multiple of it
TEXT = tf.TensorSpec([None], tf.string, name="text")
TASK = tf.TensorSpec([None], tf.string, name="task")
TOKENS = tf.TensorSpec([None, None], tf.int32, name="tokens")


class ServedTask(Protocol):
    """A task as far as a server knows it; those of `tfds_tasks` are such."""

    name: str
    choices: Sequence[str] | None  # the labels, if every answer is one of them


class Vocabulary(Protocol):
    """Text to ids and back; those of `tfds_tasks` are such.

    The tokenizer is the one that a SavedModel holds; with None a graph makes its own.
    """

    @property
    def tokenizer(self) -> Any:
        """Makes the tokenizer that a SavedModel holds."""

    def encode(self, texts: Tensor, tokenizer: Any) -> tf.RaggedTensor:
        """Turns strings [batch] into ids [batch, (length)], without an end token."""

    def decode(self, ids: Tensor, tokenizer: Any) -> Tensor:
        """Turns ids [batch, length] into strings, up to the end token."""


@dataclasses.dataclass(frozen=True)
class Form:
    """How a model is served.

    Attributes:
        inputs_length: tokens of an input at most; longer ones lose their end.
        decoding: how answers are written, `max_length` among it.
        one_task: whether there is one task, and no `task` input.
        xla: whether functions must be compiled by XLA, for servers that allow it.
        weights: how weights are stored, one of `stored_weights.FORMATS`.
        signatures: which of `SIGNATURES` there are.
        in_process: whether it answers in this process and is never saved: `function`
            traces a signature when it is asked for.
    """

    inputs_length: int
    decoding: Options
    one_task: bool = False
    xla: bool = False
    weights: str = "float32"
    signatures: tuple[str, ...] = SIGNATURES
    in_process: bool = False


class Served(tf.Module):
    """A model and all that its signatures need.

    Args:
        model: a `hypertf.T5` that is not used elsewhere any more: its weights are
            rearranged.
        vocabulary: of the texts; None leaves only the signature `tokens`.
        tasks: pairs of a task and its id in the model.
        form: how it is served.
    """

    def __init__(
        self,
        model: T5,
        vocabulary: Vocabulary | None,
        tasks: Sequence[tuple[ServedTask, int]],
        form: Form,
    ) -> None:
        super().__init__()
        # Past TensorFlow's tracking: a SavedModel has no use for the Keras model.
        vars(self).update(_model=model, _vocabulary=vocabulary, _form=form)
        self._names = [task.name for task, _ in tasks]
        self._ids = np.array([task_id for _, task_id in tasks], "int32")
        variables = [*model.weights, *arrange(model, form.xla)]
        self._choices = None
        if vocabulary is not None and form.signatures != ("tokens",):
            # In a process that sets a seed only those live on that a graph makes.
            self.tokenizer = None if form.in_process else vocabulary.tokenizer
            self._choices = _choices([t for t, _ in tasks], vocabulary, self.tokenizer)
        if not form.one_task:
            rows = tf.range(len(self._names), dtype=tf.int64)
            entries = tf.lookup.KeyValueTensorInitializer(self._names, rows)
            self.table = tf.lookup.StaticHashTable(entries, default_value=-1)
        self.weights = None
        if form.in_process:
            return
        functions = self._trace()
        # Of the weights, those that are read at all are tracked.
        read = {id(x) for f in functions.values() for x in f.captured_inputs}
        variables = [v for v in variables if id(v.value.handle) in read]
        self.weights = StoredWeights(variables, form.weights)
        if form.weights != "float32":
            functions = self._trace()
        vars(self)["functions"] = functions

    @property
    def offered(self) -> list[str]:
        """The signatures that the model and its tasks have a use for."""
        without = set() if self._vocabulary is not None else {*SIGNATURES} - {"tokens"}
        if self._choices is None or not self._choices.counts.any():
            without.add("classify")
        return [name for name in self._form.signatures if name not in without]

    def function(self, name: str) -> Callable:
        """Traces the concrete function of a signature."""
        function = {
            "serving_default": self._write,
            "classify": self._classify,
            "tokens": self._tokens,
            "encode": self._encode,
        }[name]
        specs = [TOKENS if name == "tokens" else TEXT]
        specs += [] if self._form.one_task else [TASK]
        with target.tracing_for(xla=self._form.xla, gradients=False):
            return tf.function(function, autograph=False).get_concrete_function(*specs)

    def _trace(self) -> dict[str, Callable]:
        return {name: self.function(name) for name in self.offered}

    def _write(self, text: Tensor, task: Tensor | None = None) -> dict[str, Tensor]:
        inputs, _, trimmed = self._inputs(text, task)
        ids, scores = self._run(self._generate, inputs)
        written = self._vocabulary.decode(ids, self.tokenizer)
        return {"output_text": written, "score": scores, "trimmed": trimmed}

    def _classify(self, text: Tensor, task: Tensor | None = None) -> dict[str, Tensor]:
        inputs, rows, trimmed = self._inputs(text, task)
        choices = self._choices
        counts = tf.gather(choices.counts, rows)
        names = tf.gather(tf.constant(self._names), rows)
        message = tf.strings.join(["task ", names, " has no labels; expected one of "])
        have = [n for n, c in zip(self._names, choices.counts, strict=True) if c]
        labelled = _require(counts > 0, message, ", ".join(have))
        with tf.control_dependencies([labelled]):
            labels = tf.gather(choices.labels, rows)
        inputs[TARGETS] = tf.gather(choices.tokens, rows)
        scores = self._run(lambda given: log_likelihood(self._model, given), inputs)
        real = tf.range(choices.labels.shape[1]) < counts[:, None]
        shares = tf.nn.softmax(tf.where(real, scores, float("-inf")))
        best = tf.gather(labels, tf.argmax(shares, axis=1), batch_dims=1)
        return {
            "labels": labels,
            "probabilities": shares,
            "label": best,
            "trimmed": trimmed,
        }

    def _tokens(self, tokens: Tensor, task: Tensor | None = None) -> dict[str, Tensor]:
        # A server's batching may have put garbage behind a text: nothing after its end.
        ended = tf.cumsum(tf.cast(tokens == END, tf.int32), axis=1, exclusive=True)
        tokens = _trimmed(tf.where(ended > 0, 0, tokens), self._form.inputs_length)
        inputs, _ = self._with_task({ENCODER_TOKENS: tokens}, task)
        ids, scores = self._run(self._generate, inputs)
        return {"output_tokens": ids, "score": scores}

    def _encode(self, text: Tensor, task: Tensor | None = None) -> dict[str, Tensor]:
        inputs, _, trimmed = self._inputs(text, task)
        return {"vector": self._run(self._pooled, inputs), "trimmed": trimmed}

    def _generate(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        seed = tf.constant(0, tf.int64)
        return generate_ids(self._model, self._form.decoding, inputs, seed)

    def _pooled(self, inputs: dict[str, Tensor]) -> Tensor:
        """The mean of the encoder's output over the text's own tokens."""
        tokens = inputs[ENCODER_TOKENS]
        memory, _ = self._model.encode(inputs)
        memory = tf.cast(memory[:, -tf.shape(tokens)[1] :], tf.float32)
        real = tf.cast(tokens > 0, tf.float32)[:, :, None]
        return tf.reduce_sum(memory * real, axis=1) / tf.reduce_sum(real, axis=1)

    def _run(self, function: Callable, inputs: dict[str, Tensor]) -> Any:
        """Calls a function of the model, on stored weights; compiled if asked."""

        def with_weights(inputs):
            if self.weights is None:
                return function(inputs)
            with self.weights.in_use():
                return function(inputs)

        if not self._form.xla:
            return with_weights(inputs)
        return tf.function(with_weights, jit_compile=True, autograph=False)(inputs)

    def _inputs(self, text: Tensor, task: Tensor | None) -> tuple:
        """What the model takes, the tasks' rows, and which texts lost their end."""
        most = self._form.inputs_length - 1
        ids = self._vocabulary.encode(text, self.tokenizer)
        trimmed = ids.row_lengths() > most
        ids = tf.concat([ids[:, :most], tf.fill([tf.shape(text)[0], 1], END)], axis=1)
        width = self._rounded(tf.reduce_max(tf.concat([ids.row_lengths(), [1]], 0)))
        tokens = ids.to_tensor(0)
        tokens = tf.pad(tokens, [[0, 0], [0, width - tf.shape(tokens)[1]]])
        inputs, rows = self._with_task({ENCODER_TOKENS: tokens}, task)
        return inputs, rows, trimmed

    def _rounded(self, length: Tensor) -> Tensor:
        """Rounds a length up. XLA compiles for every length: it gets powers of two."""
        length = tf.cast(length, tf.int32)
        if not self._form.xla:
            up = -(-length // ROUND_UP) * ROUND_UP
        else:
            up = 2 ** np.arange(4, 20)  # 16, 32, ...
            up = tf.reduce_min(tf.where(up >= length, up, up[-1]))
            up = tf.cast(up, tf.int32)
        return tf.minimum(up, self._form.inputs_length)

    def _with_task(self, inputs: dict[str, Tensor], task: Tensor | None) -> tuple:
        """Adds task ids, if the model takes any; returns the tasks' rows too."""
        count = tf.shape(inputs[ENCODER_TOKENS])[0]
        if self._form.one_task:
            rows = tf.zeros([count], tf.int32)
        else:
            rows = self._rows(task, count)
        if self._model.conditioner is not None:
            inputs[TASK_IDS] = tf.gather(self._ids, rows)
        return inputs, rows

    def _rows(self, task: Tensor, count: Tensor) -> Tensor:
        sizes = [tf.strings.as_string(size) for size in (tf.size(task), count)]
        message = [sizes[0], " tasks for ", sizes[1], " texts; expected one for each"]
        same = _require(tf.size(task) == count, tf.strings.join(message))
        with tf.control_dependencies([same]):
            rows = tf.cast(self.table.lookup(task), tf.int32)
        known = f"; expected one of {', '.join(self._names)}"
        with tf.control_dependencies(
            [_require(rows >= 0, tf.strings.join(["unknown task ", task]), known)]
        ):
            return tf.identity(rows)


def _trimmed(tokens: Tensor, length: int) -> Tensor:
    """Rows of at most `length` tokens; those that lose some end there."""
    longer = tf.reduce_any(tokens[:, length:] > 0, axis=1)
    last = tf.range(tf.shape(tokens)[1]) == length - 1
    ended = tf.where(longer[:, None] & last, END, tokens)
    return ended[:, :length]


def _require(holds: Tensor, message: Tensor, end: str = "") -> Any:
    """Fails with the message of the first row that does not hold."""
    holds, message = tf.reshape(holds, [-1]), tf.reshape(message, [-1])
    wrong = tf.boolean_mask(message, tf.logical_not(holds))
    return tf.debugging.Assert(
        tf.reduce_all(holds), [tf.strings.join([wrong[:1], end])], summarize=1
    )


@dataclasses.dataclass(frozen=True)
class Choices:
    """The labels of all tasks: counts [tasks], labels [tasks, most], their tokens."""

    counts: np.ndarray
    labels: np.ndarray
    tokens: np.ndarray  # [tasks, most, length]


def _choices(tasks, vocabulary, tokenizer):
    """Tasks without labels have a count of 0."""
    labels = [tuple(task.choices or ()) for task in tasks]
    most = max([1, *map(len, labels)])
    table = np.full([len(tasks), most], b"", object)
    for row, words in zip(table, labels, strict=True):
        row[: len(words)] = [word.encode() for word in words]
    ids = vocabulary.encode(tf.constant(table.reshape(-1), tf.string), tokenizer)
    ids = tf.concat([ids, tf.fill([table.size, 1], END)], axis=1).to_tensor(0).numpy()
    counts = np.array([len(words) for words in labels], "int32")
    ids = ids.reshape(*table.shape, -1)
    ids = np.where(np.arange(most)[None, :, None] < counts[:, None, None], ids, 0)
    return Choices(counts, table, ids.astype("int32"))
