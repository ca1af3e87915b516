"""Classifiers on a frozen encoder: what a run with `head="linear"` trains and scores.

They are the encoder-only models of Hyperdecoders (section 5.1, appendix C). The encoder
of another run, its adapters included, stays as it is. The mean of its output goes
through an MLP as in eq. 8, which all tasks share, and through a linear layer of the
task's own to its labels. These two are trained, and are all that checkpoints hold.
Tasks that are answered by more than their labels, such as STS-B, are left out.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from experiments.runs import components, config_file, transfer
from experiments.runs.checkpoint_choice import chosen_step
from experiments.runs.config import Config
from experiments.runs.prediction import Scorer
from hypertf import analysis, checkpoints
from hypertf.checkpoints.mesh import MeshReader, is_trained, slot_name
from hypertf.checkpoints.values import fill
from hypertf.conditioning.hyperdecoder import masked_mean
from hypertf.conditioning.parallel_adapters import linear
from hypertf.conditioning.parts import uniform
from hypertf.t5 import T5, named_weights
from hypertf.t5.inputs import DECODER_TOKENS, OF_ENCODER, TARGETS, TASK_IDS, only
from hypertf.t5.layer import BuildsChildren
from hypertf.t5.weights import add_weight
from hypertf.training import RunFolder, TrainStep, checkpoint_steps
from hypertf.types import Batch, Tensor
from tfds_tasks import Mixture, Task, Vocabulary
from tfds_tasks.batches import tokens

NEVER = -1e9  # the logit of what is no label of the task


class LinearHeads(BuildsChildren, keras.Model):
    """Labels of tasks, read off the encoder of a T5 that is not trained.

    Labels are numbered from 1, so that 0 is padding, as it is of tokens.

    Args:
        t5: whose encoder is read; it is no part of this model's weights.
        labels: how many labels each task id has.
    """

    def __init__(self, t5: T5, labels: Sequence[int], **kwargs: Any) -> None:
        super().__init__(autocast=False, name="heads", **kwargs)
        # Past Keras's tracking: the checkpoint of its own run holds it.
        self.__dict__["t5"] = t5
        self.labels, size = tuple(labels), t5.config.d_model
        dims = {"d_model": size}, {"embedding": size}
        self.mlp = [linear(*dims, name=f"mlp_{i}") for i in range(2)]
        self.__dict__["_compiled"] = tf.function(
            self._log_likelihoods, jit_compile=True, autograph=False
        )
        self.build()

    def add_weights(self) -> None:
        tasks, labels = {"task_num": len(self.labels)}, {"labels": max(self.labels)}
        size = {"embedding": self.t5.config.d_model}
        start = uniform(1 / math.sqrt(self.t5.config.d_model))
        self.kernel = add_weight(self, "kernel", {**tasks, **size, **labels}, start)
        self.bias = add_weight(self, "bias", {**tasks, **labels}, start)

    def call(self, inputs: Batch, training: bool = False) -> Tensor:
        """Computes logits [batch, 1, 1 + labels] of a batch with `OF_ENCODER`."""
        # What is frozen drops nothing: the encoder runs as it does when it answers.
        output, mask = self.t5.encode(only(inputs, OF_ENCODER))
        first, second = self.mlp
        x = second(ops.relu(first(masked_mean(output, mask))))  # e of eq. 8
        x = ops.cast(x, "float32")
        of_all = tf.einsum("be,tel->btl", x, self.kernel.value) + self.bias.value
        logits = tf.gather(of_all, inputs[TASK_IDS], batch_dims=1)  # [batch, labels]
        count = tf.expand_dims(tf.gather(self.labels, inputs[TASK_IDS]), 1)
        logits = tf.where(tf.range(logits.shape[1]) < count, logits, NEVER)
        logits = tf.pad(logits, [[0, 0], [1, 0]], constant_values=NEVER)
        return tf.expand_dims(logits, 1)

    def score(self, inputs: Batch) -> Tensor:
        """Computes log-likelihoods [batch, choices] of targets, numbers of labels."""
        of_labels = self._compiled(only(inputs, OF_ENCODER))
        return tf.gather(of_labels, inputs[TARGETS][:, :, 0], batch_dims=1)

    def _log_likelihoods(self, inputs):
        return tf.nn.log_softmax(self(inputs)[:, 0])  # [batch, 1 + labels]


class HeadsStep(TrainStep):
    """Trains `LinearHeads`; what is loaded from another run is the encoder."""

    def load(self, path: str) -> checkpoints.Report:
        """Fills the frozen T5, and says what was there."""
        return checkpoints.load(self.model.t5, path)

    def restore(self, folder: RunFolder) -> int:
        """Goes on from a run's newest checkpoint; returns its step, 0 without one."""
        step = folder.restore_by(
            lambda prefix: load_heads(self.model, prefix, self.optimizer)
        )
        if step:
            self.load(config_file.read(folder.path).init)
        return step


def load_heads(
    model: LinearHeads,
    prefix: str,
    optimizer: keras.optimizers.Optimizer | None = None,
) -> None:
    """Fills the classifiers, and the slots and the step of their optimizer."""
    with MeshReader(prefix) as reader:
        for name, weight in named_weights(model).items():
            _fill(weight, reader, name)
            if optimizer is not None and is_trained(optimizer, weight):
                for slot, value in optimizer.slots(weight).items():
                    _fill(value, reader, slot_name(name, slot))
        if optimizer is not None:
            optimizer.set_step(reader.step)


def _fill(variable, reader, name):
    stored = {**reader.tensors, **reader.slots}.get(name)
    shape = None if stored is None else list(stored.shape)
    if shape != list(variable.shape):
        raise ValueError(
            f"{reader.path}: {name} is {shape or 'absent'}, expected "
            f"{list(variable.shape)}, as of classifiers of these tasks"
        )
    fill(variable, reader.blocks(name))


def with_encoder(config: Config) -> Config:
    """Names the checkpoint that is taken: of a run the best on validation.

    Of a run that is not scored it is the newest.
    """
    if config.init is None:
        raise ValueError(
            "head='linear': init=None, expected the run whose encoder is classified by"
        )
    if not checkpoint_steps(config.init):
        return config
    step, _ = chosen_step(config.init, "best")
    return config.replace(init=RunFolder(config.init, writes=False).prefix(step))


def check(config: Config, mixture: Mixture) -> None:
    """Complains of a run whose encoder is another one, or whose task ids are."""
    source = transfer.config_of(config.init)
    if source is None:  # weights of another program
        return
    names = ["model", "conditioner", "conditioner_options"]
    if components.make_mixture(source).identities != mixture.identities:
        names.append("mixture")
    for name in names:
        ours, theirs = getattr(config, name), getattr(source, name)
        if ours != theirs:
            raise ValueError(
                f"head='linear': {name}={ours!r}, expected {theirs!r}, as of "
                f"init={config.init!r}"
            )


def check_no_mesh(config: Config) -> None:
    """Refuses classifiers where a run is asked to use a mesh."""
    if config.head == "linear":
        raise ValueError("head='linear': expected no mesh")


def make_model(config: Config, mixture: Mixture) -> LinearHeads:
    """Makes fresh classifiers on a T5 that has not been loaded yet."""
    t5 = components.make_model(config.replace(head="decoder"), mixture)
    labels = [0] * mixture.num_tasks
    for task in components.labelled(mixture).tasks:
        labels[mixture.task_id(task)] = len(task.choices)
    return LinearHeads(t5, labels)


make_train_step = functools.partial(components.make_train_step, kind=HeadsStep)


def make_dataset(
    config: Config, mixture: Mixture, vocabulary: Vocabulary, data_dir: str | None
) -> Callable[..., tf.data.Dataset]:
    """Does as `components.make_dataset`; targets are [rows, 1], numbers of labels."""
    make = components.make_dataset(config, mixture, vocabulary, data_dir)
    choices = _choices(mixture, vocabulary, config.targets_length)
    numbers = np.arange(1, choices.shape[1] + 1)

    def numbered(batch: Batch) -> Batch:
        of_rows = tf.gather(choices, batch[TASK_IDS])  # [rows, labels, length]
        same = tf.reduce_all(of_rows == batch[TARGETS][:, None], axis=2)
        number = tf.reduce_max(tf.where(same, numbers, 0), axis=1, keepdims=True)
        kept = {name: x for name, x in batch.items() if name != DECODER_TOKENS}
        return {**kept, TARGETS: tf.cast(number, tf.int32)}

    return lambda **where: make(**where).map(numbered)


def _choices(mixture, vocabulary, length):
    """The tokens of every label: [tasks, labels, length], -1 where there is none."""
    tasks = components.labelled(mixture).tasks
    most = max(len(task.choices) for task in tasks)
    table = np.full([mixture.num_tasks, most, length], -1, "int32")
    for task in tasks:
        ids = tokens(list(task.choices), vocabulary, length).numpy()
        if len(np.unique(ids, axis=0)) < len(ids):
            raise ValueError(
                f"targets_length={length}: labels of {task.name} are trimmed to the "
                "same tokens; expected more"
            )
        table[mixture.task_id(task), : len(ids)] = ids
    return table


def parameters(model: LinearHeads) -> analysis.Parameters:
    """Counts parameters by part; the classifiers count as what is added."""
    counted = analysis.parameters(model.t5)
    parts = {part: (count, 0) for part, (count, _) in counted.parts.items()}
    heads = sum(math.prod(weight.shape) for weight in model.weights)
    parts["conditioner"] = parts["conditioner"][0] + heads, heads
    return analysis.Parameters(parts, len(model.labels))


class HeadsScorer(Scorer):
    """Scores classifiers on the tasks that they have labels of; arguments as there."""

    how = "linear head"

    def __init__(
        self,
        config: Config,
        strategy: tf.distribute.Strategy | None = None,
        split: str = "validation",
        tasks: Sequence[str] = (),
        batch_size: int = 64,
        data_dir: str | None = None,
    ) -> None:
        known = components.labelled(components.make_mixture(config)).tasks
        names = [task.name for task in known if split in task.parts]
        others = [name for name in tasks if name not in {task.name for task in known}]
        if others:
            raise ValueError(
                f"tasks: {', '.join(others)}: without a classifier; expected some of "
                f"{', '.join(names)}"
            )
        config = config.replace(decoding="rank")
        super().__init__(config, strategy, split, tasks or names, batch_size, data_dir)

    def load(self, model_dir: str, step: int) -> None:
        """Fills the classifiers from a checkpoint of a run."""
        load_heads(self.model, RunFolder(model_dir, writes=False).prefix(step))

    def _make_model(self, config: Config, mixture: Mixture) -> LinearHeads:
        model = make_model(config, mixture)
        checkpoints.load(model.t5, config.init)
        return model

    def _untrained(self, mixture: Mixture) -> list[int]:
        return []

    def _targets(self, task: Task) -> np.ndarray:
        return np.arange(1, len(task.choices) + 1)[:, None]
