"""Hyperdecoders (Ivison and Peters, 2022) and the baselines of its Table 8.

Adapters sit beside the feed-forward of every block (`parallel_adapters.py`). In each
stack they come from one of:

| kind | adapters |
|---|---|
| `manual` | trained, shared by all tasks |
| `manual-specific` | trained, one set per task |
| `task` | written by a hypernetwork that reads a task embedding |
| `generated` | written by a hypernetwork that reads the encoder's output |
| `none` | no adapters |

The paper's own is manual in the encoder and generated in the decoder: every input
gets a decoder of its own.
"""

import dataclasses
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning import base
from hypertf.conditioning.parallel_adapters import (
    Hypernetwork,
    Linear,
    TrainedAdapters,
    per_example,
)
from hypertf.conditioning.registry import register
from hypertf.t5 import StackSites
from hypertf.t5.layer import Layer
from hypertf.t5.weights import add_weight, normal

KINDS = ("manual", "manual-specific", "task", "generated", "none")
STACKS = ("encoder", "decoder")


@dataclasses.dataclass(frozen=True)
class Options(base.Options):
    """The defaults are the paper's for GLUE on T5 large.

    `encoder` and `decoder` are kinds of adapters, `encoder_size` and `decoder_size`
    their sizes. The others shape the hypernetworks, where there are any:
    `bottleneck` is their hidden size, `layer_embedding` the size of what tells them
    the block, `task_embedding` that of what tells them the task (None: d_model).
    `mlp` processes the pooled encoder output of generated adapters (eq. 8).
    `norm_input` lets adapters read the normed stream, as the FFN does.
    """

    encoder: str = "manual"
    decoder: str = "generated"
    encoder_size: int = 64
    decoder_size: int = 64
    bottleneck: int = 128
    mlp: bool = True
    norm_input: bool = False
    layer_embedding: int = 10
    task_embedding: int | None = None

    def __post_init__(self):
        super().__post_init__()
        for stack in STACKS:
            self.require_one_of(stack, KINDS)
        self.require(
            "decoder",
            (self.encoder, self.decoder) != ("none", "none"),
            "adapters in a stack at least (the plain model's name is 'none')",
        )
        self.require_positive(
            "encoder_size", "decoder_size", "bottleneck", "layer_embedding"
        )
        if self.task_embedding is not None:
            self.require_positive("task_embedding")
        for name in ("mlp", "norm_input"):
            self.require(name, isinstance(getattr(self, name), bool), "True or False")
        self.require_unset(
            *without_effect(self.encoder, self.decoder),
            because=f"encoder={self.encoder!r} and decoder={self.decoder!r}",
        )


def without_effect(encoder, decoder):
    """Names of the options that change nothing with these kinds of adapters."""
    kinds = {encoder, decoder}
    names = []
    if "generated" not in kinds:
        names.append("mlp")
    if "task" not in kinds:
        names.append("task_embedding")
    if not kinds & {"task", "generated"}:
        names += ["bottleneck", "layer_embedding"]
    for stack, kind in zip(STACKS, (encoder, decoder), strict=True):
        if kind == "none":
            names.append(f"{stack}_size")
    return names


class Pooled(NamedTuple):
    """What generated adapters are made of, [batch, d_model] each."""

    mean: Any  # of the encoder's output
    embedding: Any  # e of eq. 8, which enters the hypernetwork


def masked_mean(x, mask):
    """Mean of x [batch, length, d] over the places where mask [batch, length] holds.

    In float32; 0 for a row of nothing but padding.
    """
    mask = ops.cast(mask, "float32")
    total = tf.einsum("bld,bl->bd", ops.cast(x, "float32"), mask)
    return total / ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1.0)


class TaskHypernetwork(Layer):
    """A hypernetwork behind a table of task embeddings."""

    def __init__(self, num_tasks, size, hypernetwork, **kwargs):
        super().__init__(**kwargs)
        self.num_tasks, self.size, self.hypernetwork = num_tasks, size, hypernetwork

    def build(self, input_shape=None):
        dims = {"tasks": self.num_tasks, "task_embedding": self.size}
        self.task_embedding = add_weight(self, "task_embedding", dims, normal(1.0))
        self.hypernetwork.build()
        self.built = True

    def call(self, task_ids):
        return self.hypernetwork(tf.gather(self.task_embedding.value, task_ids))


class InputHypernetwork(Layer):
    """A hypernetwork behind the embedding of the input (eq. 8).

    In the encoder it also holds the trained adapters of the first pass, the one that
    reads the input.
    """

    def __init__(self, d_model, hypernetwork, first_pass, mlp, **kwargs):
        super().__init__(**kwargs)
        self.hypernetwork, self.first_pass = hypernetwork, first_pass
        dims = {"d_model": d_model}, {"embedding": d_model}
        policy = {"dtype": self.dtype_policy}
        self.mlp = [Linear(*dims, name=f"mlp_{i}", **policy) for i in range(2 * mlp)]

    def build(self, input_shape=None):
        for layer in (*self.mlp, self.hypernetwork, self.first_pass):
            if layer is not None:
                layer.build()
        self.built = True

    def embedding(self, mean):
        """The masked mean [batch, d_model] -> e of eq. 8."""
        if not self.mlp:
            return mean
        first, second = self.mlp
        return second(ops.relu(first(mean)))

    def call(self, mean):
        return self.hypernetwork(self.embedding(mean))


@keras.saving.register_keras_serializable("hypertf")
class Hyperdecoder(base.Method):
    """Adapters beside the FFN, of one of `KINDS` in each stack."""

    Options = Options
    trains = "task"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.encoder_adapters = self._adapters("encoder", self.options.encoder_size)
        self.decoder_adapters = self._adapters("decoder", self.options.decoder_size)

    @property
    def reads_input(self):
        return tuple(s for s in STACKS if getattr(self.options, s) == "generated")

    def _adapters(self, stack, size):
        """What makes the adapters of a stack, None if it has none."""
        o, d = self.options, self.config.d_model
        kind, sizes = getattr(o, stack), (self.num_layers(stack), d, size)
        policy = {"dtype": self.dtype_policy}
        if kind == "none":
            return None
        if kind == "manual":
            return TrainedAdapters(*sizes, name=stack, **policy)
        if kind == "manual-specific":
            return TrainedAdapters(*sizes, self.num_tasks, name=stack, **policy)
        input_size = (o.task_embedding or d) if kind == "task" else d
        writer = Hypernetwork(*sizes, input_size, o, name="hypernetwork", **policy)
        if kind == "task":
            return TaskHypernetwork(
                self.num_tasks, input_size, writer, name=stack, **policy
            )
        reader = None
        if stack == "encoder":
            reader = TrainedAdapters(*sizes, name="first_pass", **policy)
        return InputHypernetwork(d, writer, reader, o.mlp, name=stack, **policy)

    def build(self, input_shape=None):
        for adapters in (self.encoder_adapters, self.decoder_adapters):
            if adapters is not None:
                adapters.build()
        self.built = True

    def encoder(self, task_ids, training=False, first_pass=None):
        encoded = None
        if self.options.encoder == "generated":
            if first_pass is None:
                raise ValueError(
                    f"{self.method}: encoder='generated' reads the input; it needs "
                    "first_pass, a run of the encoder"
                )
            trained = self.encoder_adapters.first_pass.shared(self.options.norm_input)
            encoded = first_pass(StackSites(trained))
        return self._sites("encoder", self.encoder_adapters, task_ids, encoded)

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        encoded = encoder_output, encoder_mask
        return self._sites("decoder", self.decoder_adapters, task_ids, encoded)

    def _sites(self, stack, adapters, task_ids, encoded):
        kind, norm_input = getattr(self.options, stack), self.options.norm_input
        if kind == "none":
            return StackSites.plain(self.num_layers(stack))
        if kind == "manual":
            return StackSites(adapters.shared(norm_input))
        if kind == "manual-specific":
            made = adapters.of_tasks(task_ids)
        elif kind == "task":
            made = self.per_example(adapters, task_ids)
        else:
            made = adapters(masked_mean(*encoded))
        return StackSites(per_example(made, norm_input))

    def pooled(self, model, inputs):
        """The input as the decoder's hypernetwork sees it, for analysis.

        ```python
        mean, embedding = model.conditioner.pooled(model, inputs)
        ```

        `inputs` are those of the model; the decoder's are not needed.
        """
        if self.options.decoder != "generated":
            raise ValueError(
                f"{self.method}: decoder={self.options.decoder!r} pools no input, "
                "expected 'generated'"
            )
        names = ("encoder_tokens", "task_ids")
        output, mask = model.encode(
            {name: ops.convert_to_tensor(inputs[name], "int32") for name in names}
        )
        mean = masked_mean(output, mask)
        return Pooled(mean, self.decoder_adapters.embedding(mean))


# The baselines' sizes are those of their rows in the paper's Table 1.
register(Hyperdecoder, "hyperdecoder")
register(
    Hyperdecoder,
    "task-hypernet",
    encoder="task",
    decoder="task",
    encoder_size=50,
    decoder_size=50,
    bottleneck=100,
)
register(
    Hyperdecoder,
    "parallel-adapters",
    encoder="manual",
    decoder="manual",
    encoder_size=230,
    decoder_size=230,
)
