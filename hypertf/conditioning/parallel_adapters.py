"""Adapters beside the feed-forward, as Hyperdecoders places them (eqs. 1, 2).

    h + dropout(FFN(norm h)) + up(relu(down(h)))

`down` and `up` have biases; the adapter itself has no norm, no dropout and no inner
residual. This file has the sites, the adapters that are trained and the hypernetwork
that writes them; `hyperdecoder.py` puts them together.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import tensorflow as tf
from keras import ops

from hypertf.conditioning.adapter_sites import ACTIVATIONS
from hypertf.conditioning.options import Options
from hypertf.conditioning.parts import Linear, uniform
from hypertf.t5 import Sites, shared
from hypertf.t5.layer import Layer
from hypertf.t5.packing import Segments
from hypertf.t5.products import project, unstack
from hypertf.t5.weights import add_weight, normal
from hypertf.types import Tensor

GAIN = 1e-4  # of the trained adapters' Xavier values


class Adapter(NamedTuple):
    """The weights of one adapter; per example they have the batch in front."""

    down: Tensor  # [d_model, size]
    down_bias: Tensor  # [size]
    up: Tensor  # [size, d_model]
    up_bias: Tensor  # [d_model]


class _BesideFFN(Sites):
    """Runs the adapter on the stream, or with `norm_input` on what the FFN reads."""

    def beside_ffn(self, x: Tensor, normed: Tensor, training: bool) -> Tensor:
        x = normed if self.norm_input else x
        hidden = self._product(x, self.down) + self.down_bias
        hidden = ACTIVATIONS[self.activation](hidden)
        return self._product(hidden, self.up) + self.up_bias


@dataclasses.dataclass(frozen=True, eq=False)
class SharedAdapter(_BesideFFN):
    """One adapter for all examples."""

    down: Tensor = shared()
    down_bias: Tensor = shared()
    up: Tensor = shared()
    up_bias: Tensor = shared()
    norm_input: bool = shared()
    activation: str = shared()

    _product = staticmethod(project)


@dataclasses.dataclass(frozen=True, eq=False)
class ExampleAdapter(_BesideFFN):
    """An adapter of its own for every example."""

    down: Tensor  # [batch, d_model, size]
    down_bias: Tensor  # [batch, 1, size]
    up: Tensor  # [batch, size, d_model]
    up_bias: Tensor  # [batch, 1, d_model]
    norm_input: bool = shared()
    activation: str = shared()

    _product = staticmethod(ops.matmul)

    def by_segment(self, segments: Segments) -> "SegmentAdapter":
        return SegmentAdapter(
            segments.inward(self.down),
            segments.inward(self.down_bias),
            segments.outward(self.up),
            self.up_bias,
            self.norm_input,
            self.activation,
            segments,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class SegmentAdapter(Sites):
    """Adapters of all segments side by side; each token goes through its own."""

    down: Tensor  # [rows, d_model, segments * size]
    down_bias: Tensor  # [rows, 1, segments * size]
    up: Tensor  # [rows, segments * size, d_model]
    up_bias: Tensor  # [rows * segments, 1, d_model]
    norm_input: bool = shared()
    activation: str = shared()
    segments: Segments = shared()

    def beside_ffn(self, x: Tensor, normed: Tensor, training: bool) -> Tensor:
        x = normed if self.norm_input else x
        hidden = ops.matmul(x, self.down) + self.down_bias
        hidden = self.segments.only_own(ACTIVATIONS[self.activation](hidden))
        return ops.matmul(hidden, self.up) + self.segments.choose(self.up_bias)


class TrainedAdapter(Layer):
    """The trained adapter of a block; with `num_tasks`, one for every task."""

    def __init__(
        self, d_model: int, size: int, num_tasks: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.d_model, self.size, self.num_tasks = d_model, size, num_tasks

    def add_weights(self) -> None:
        tasks = {} if self.num_tasks is None else {"task_num": self.num_tasks}
        d_model, size = {"d_model": self.d_model}, {"adapter": self.size}
        # Xavier's; each task's adapter counts by itself.
        bound = GAIN * math.sqrt(6 / (self.d_model + self.size))

        def add(name: str, dims: dict, initializer: Any) -> Tensor:
            return add_weight(self, name, {**tasks, **dims}, initializer)

        self.down = add("down", {**d_model, **size}, uniform(bound))
        self.down_bias = add("down_bias", size, "zeros")
        self.up = add("up", {**size, **d_model}, uniform(bound))
        self.up_bias = add("up_bias", d_model, "zeros")

    def adapter(self) -> Adapter:
        """The weights in the compute type."""
        weights = (getattr(self, field) for field in Adapter._fields)
        return Adapter(*(ops.cast(weight, self.compute_dtype) for weight in weights))


class TrainedAdapters(Layer):
    """The trained ("manual") adapters of a stack, one per block.

    With `num_tasks` there is one per block and task ("manual-specific").
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        size: int,
        num_tasks: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        policy = {"dtype": self.dtype_policy}
        self.blocks = [
            TrainedAdapter(d_model, size, num_tasks, name=f"block_{i:03d}", **policy)
            for i in range(num_layers)
        ]

    def shared(self, options: Options) -> tuple[SharedAdapter, ...]:
        """A `SharedAdapter` for every block."""
        how = (options.norm_input, options.activation)
        return tuple(SharedAdapter(*b.adapter(), *how) for b in self.blocks)

    def of_tasks(self, task_ids: Tensor) -> list[Adapter]:
        """The `Adapter` of every block, for each example's task."""
        return [
            Adapter(*(tf.gather(table, task_ids) for table in block.adapter()))
            for block in self.blocks
        ]


def per_example(
    adapters: list[Adapter], options: Options
) -> tuple[ExampleAdapter, ...]:
    """An `ExampleAdapter` for every block, of adapters with the batch in front."""
    return tuple(
        ExampleAdapter(
            adapter.down,
            ops.expand_dims(adapter.down_bias, 1),
            adapter.up,
            ops.expand_dims(adapter.up_bias, 1),
            options.norm_input,
            options.activation,
        )
        for adapter in adapters
    )


def linear(inputs: dict[str, int], outputs: dict[str, int], **kwargs: Any) -> Linear:
    """A linear map that starts within 1 / sqrt(fan-in), as PyTorch's do."""
    start = uniform(1 / math.sqrt(*inputs.values()))
    return Linear(inputs, outputs, start, start, **kwargs)


class Hypernetwork(Layer):
    """Writes the adapters of all blocks of a stack from one vector (eqs. 3-7, 9)."""

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        size: int,
        input_size: int,
        options: Options,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        policy = {"dtype": self.dtype_policy}
        self.num_layers, self.input_size = num_layers, input_size
        self.layer_embedding_size = options.layer_embedding
        bottleneck = {"bottleneck": options.bottleneck}
        inputs = {"hypernetwork_input": input_size + options.layer_embedding}
        self.hidden = linear(inputs, bottleneck, name="hidden", **policy)

        def head(name: str, dim: str, outputs: int, fan_in: int = 1) -> Linear:
            # The larger the fan-in in the adapter, the smaller its weights start.
            bound = 1e-3 * math.sqrt(3 / (options.bottleneck * fan_in))
            start = uniform(bound)
            return Linear(bottleneck, {dim: outputs}, start, name=name, **policy)

        d, a = d_model, size
        self.heads = [  # in the order of Adapter
            head("down", "d_model*adapter", d * a, fan_in=d),
            head("down_bias", "adapter", a),
            head("up", "adapter*d_model", a * d, fan_in=a),
            head("up_bias", "d_model", d),
        ]
        self.shapes = Adapter(down=(d, a), down_bias=(a,), up=(a, d), up_bias=(d,))

    def add_weights(self) -> None:
        dims = {
            "layer_num": self.num_layers,
            "layer_embedding": self.layer_embedding_size,
        }
        self.layer_embedding = add_weight(self, "layer_embedding", dims, normal(1.0))

    def call(self, vectors: Tensor) -> list[Adapter]:
        """[batch, input size] -> the `Adapter` of every block, batch in front."""
        batch = ops.shape(vectors)[0]
        hidden = self._hidden(vectors)
        hidden = ops.reshape(hidden, (-1, hidden.shape[-1]))
        parts = []
        for head, shape in zip(self.heads, self.shapes, strict=True):
            # One product for all blocks, block by block: each is then contiguous.
            y = ops.reshape(head(hidden), (self.num_layers, batch, *shape))
            parts.append(unstack(y))
        return [Adapter(*parts_of_block) for parts_of_block in zip(*parts, strict=True)]

    def _hidden(self, vectors: Tensor) -> Tensor:
        """relu(W0 [vector; layer embedding] + b0): [layers, batch, bottleneck].

        The two halves of the product are made apart: one per example, one per block.
        """
        kernel, bias = self.hidden.cast()
        vectors = ops.cast(vectors, self.compute_dtype)
        layers = ops.cast(self.layer_embedding, self.compute_dtype)
        of_example = ops.matmul(vectors, kernel[: self.input_size])
        of_layer = ops.matmul(layers, kernel[self.input_size :]) + bias
        return ops.relu(ops.expand_dims(of_example, 0) + ops.expand_dims(of_layer, 1))
