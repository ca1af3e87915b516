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
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning import options
from hypertf.conditioning.adapter_sites import ACTIVATIONS
from hypertf.conditioning.method import Method
from hypertf.conditioning.parallel_adapters import (
    Adapter,
    Hypernetwork,
    TrainedAdapters,
    linear,
    per_example,
)
from hypertf.conditioning.registry import register
from hypertf.t5 import T5, StackSites
from hypertf.t5.layer import Layer
from hypertf.t5.packing import MODES
from hypertf.t5.sites import STACKS
from hypertf.t5.weights import add_weight, normal
from hypertf.types import Batch, Tensor

KINDS = ("manual", "manual-specific", "task", "generated", "none")


@dataclasses.dataclass(frozen=True)
class Options(options.Options):
    """The defaults are the paper's for GLUE on T5 large.

    `encoder` and `decoder` are kinds of adapters, `encoder_size` and `decoder_size`
    their sizes. The others shape the hypernetworks, where there are any:
    `bottleneck` is their hidden size, `layer_embedding` the size of what tells them
    the block, `task_embedding` that of what tells them the task (None: d_model).
    `mlp` processes the pooled encoder output of generated adapters (eq. 8).
    `norm_input` lets adapters read the normed stream, as the FFN does. `activation`
    is the adapters' non-linearity, a key of `adapter_sites.ACTIVATIONS`.
    """

    encoder: str = "manual"
    decoder: str = "generated"
    encoder_size: int = 64
    decoder_size: int = 64
    bottleneck: int = 128
    mlp: bool = True
    norm_input: bool = False
    activation: str = "relu"
    layer_embedding: int = 10
    task_embedding: int | None = None

    def kind(self, stack: str) -> str:
        """The kind of adapters in a stack."""
        of_stack = {"encoder": self.encoder, "decoder": self.decoder}
        return of_stack[stack] if stack in self.chosen_stacks else "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        for stack in STACKS:
            self.require_one_of(stack, KINDS)
        self.require(
            "decoder",
            any(self.kind(stack) != "none" for stack in STACKS),
            "adapters in a stack at least (the plain model's name is 'none')",
        )
        self.require_positive("encoder_size", "decoder_size", "bottleneck")
        self.require_positive("layer_embedding", "task_embedding")
        self.require_flags("mlp", "norm_input")
        self.require_one_of("activation", ACTIVATIONS)
        names = without_effect(self.kind("encoder"), self.kind("decoder"))
        # Sizes of a stack that `stacks` leaves out are refused where they are given.
        left_out = (
            {f"{stack}_size" for stack in STACKS} if self.stacks != "both" else ()
        )
        self.require_unset(
            *(name for name in names if name not in left_out),
            because=f"encoder={self.kind('encoder')!r} and "
            f"decoder={self.kind('decoder')!r}",
        )


def without_effect(encoder: str, decoder: str) -> list[str]:
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

    mean: Tensor  # of the encoder's output
    embedding: Tensor  # e of eq. 8, which enters the hypernetwork


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of x [batch, length, d] over the places where mask [batch, length] holds.

    In float32; 0 for a row of nothing but padding. For packed rows the mask is [batch,
    segments, length], and the means are of segments: [batch * segments, d].
    """
    mask = ops.cast(mask, "float32")
    if len(mask.shape) == 3:
        total = ops.matmul(mask, ops.cast(x, "float32"))
        means = total / ops.maximum(ops.sum(mask, axis=2, keepdims=True), 1.0)
        return ops.reshape(means, (-1, x.shape[2]))
    total = tf.einsum("bld,bl->bd", ops.cast(x, "float32"), mask)
    return total / ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1.0)


class TaskHypernetwork(Layer):
    """A hypernetwork behind a table of task embeddings."""

    def __init__(
        self, num_tasks: int, size: int, hypernetwork: Hypernetwork, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_tasks, self.size, self.hypernetwork = num_tasks, size, hypernetwork

    def add_weights(self) -> None:
        dims = {"task_num": self.num_tasks, "task_embedding": self.size}
        self.task_embedding = add_weight(self, "task_embedding", dims, normal(1.0))

    def call(self, task_ids: Tensor) -> list[Adapter]:
        return self.hypernetwork(tf.gather(self.task_embedding.value, task_ids))


class InputHypernetwork(Layer):
    """A hypernetwork behind the embedding of the input (eq. 8).

    In the encoder it also holds the trained adapters of the first pass, the one that
    reads the input.
    """

    def __init__(
        self,
        d_model: int,
        hypernetwork: Hypernetwork,
        first_pass: TrainedAdapters | None,
        mlp: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        dims = {"d_model": d_model}, {"embedding": d_model}
        policy = {"dtype": self.dtype_policy}
        self.mlp = [linear(*dims, name=f"mlp_{i}", **policy) for i in range(2 * mlp)]
        self.hypernetwork, self.first_pass = hypernetwork, first_pass

    def embedding(self, mean: Tensor) -> Tensor:
        """The masked mean [batch, d_model] -> e of eq. 8."""
        if not self.mlp:
            return mean
        first, second = self.mlp
        return second(ops.relu(first(mean)))

    def call(self, mean: Tensor) -> list[Adapter]:
        return self.hypernetwork(self.embedding(mean))


@keras.saving.register_keras_serializable("hypertf")
class Hyperdecoder(Method):
    """Adapters beside the FFN, of one of `KINDS` in each stack."""

    Options = Options
    trains = "task"
    packs = MODES

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.encoder_adapters = self._adapters("encoder", self.options.encoder_size)
        self.decoder_adapters = self._adapters("decoder", self.options.decoder_size)

    @property
    def reads_input(self) -> tuple[str, ...]:
        return tuple(s for s in STACKS if self.options.kind(s) == "generated")

    @property
    def needs_first_pass(self) -> bool:
        return "encoder" in self.reads_input

    def _adapters(self, stack: str, size: int) -> Layer | None:
        """What makes the adapters of a stack, None if it has none."""
        o, d = self.options, self.config.d_model
        kind, sizes = o.kind(stack), (self.num_layers(stack), d, size)
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

    def encoder(
        self,
        task_ids: Tensor,
        training: bool = False,
        first_pass: Callable | None = None,
    ) -> StackSites:
        encoded = None
        if self.options.kind("encoder") == "generated":
            if first_pass is None:
                raise ValueError(
                    f"{self.method}: encoder='generated' reads the input; it needs "
                    "first_pass, a run of the encoder"
                )
            trained = self.encoder_adapters.first_pass.shared(self.options)
            encoded = first_pass(StackSites(trained))
        return self._sites("encoder", self.encoder_adapters, task_ids, encoded)

    def decoder(
        self,
        task_ids: Tensor,
        encoder_output: Tensor,
        encoder_mask: Tensor,
        training: bool = False,
    ) -> StackSites:
        encoded = encoder_output, encoder_mask
        return self._sites("decoder", self.decoder_adapters, task_ids, encoded)

    def _sites(
        self, stack: str, adapters: Layer | None, task_ids: Tensor, encoded: Any
    ) -> StackSites:
        kind = self.options.kind(stack)
        if kind == "none":
            return StackSites.plain(self.num_layers(stack))
        if kind == "manual":
            return StackSites(adapters.shared(self.options))
        if kind == "manual-specific":
            made = adapters.of_tasks(task_ids)
        elif kind == "task":
            made = self.per_example(lambda ids, _: adapters(ids), task_ids)
        else:
            made = adapters(masked_mean(*encoded))
        return StackSites(per_example(made, self.options))

    def pooled(self, model: T5, inputs: Batch) -> Pooled:
        """The input as the decoder's hypernetwork sees it, for analysis.

        ```python
        mean, embedding = model.conditioner.pooled(model, inputs)
        ```

        `inputs` are those of the model; the decoder's are not needed.
        """
        if self.options.kind("decoder") != "generated":
            kind = self.options.kind("decoder")
            raise ValueError(
                f"{self.method}: decoder={kind!r} pools no input, expected 'generated'"
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
