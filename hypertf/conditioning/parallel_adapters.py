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
from keras import initializers, ops

from hypertf.t5 import Sites
from hypertf.t5.layer import Layer
from hypertf.t5.products import project
from hypertf.t5.weights import add_weight, normal

GAIN = 1e-4  # of the trained adapters' Xavier values


class Adapter(NamedTuple):
    """The weights of one adapter; per example they have the batch in front."""

    down: Any  # [d_model, size]
    down_bias: Any  # [size]
    up: Any  # [size, d_model]
    up_bias: Any  # [d_model]


SHARED = {"metadata": {"shared": True}}  # the same for all examples; see Sites


class _BesideFFN(Sites):
    """Runs the adapter on the stream, or with `norm_input` on what the FFN reads."""

    def beside_ffn(self, x, normed, training):
        x = normed if self.norm_input else x
        hidden = ops.relu(self._product(x, self.down) + self.down_bias)
        return self._product(hidden, self.up) + self.up_bias


@dataclasses.dataclass(frozen=True, eq=False)
class SharedAdapter(_BesideFFN):
    """One adapter for all examples."""

    down: Any = dataclasses.field(**SHARED)
    down_bias: Any = dataclasses.field(**SHARED)
    up: Any = dataclasses.field(**SHARED)
    up_bias: Any = dataclasses.field(**SHARED)
    norm_input: bool = dataclasses.field(**SHARED)

    _product = staticmethod(project)


@dataclasses.dataclass(frozen=True, eq=False)
class ExampleAdapter(_BesideFFN):
    """An adapter of its own for every example."""

    down: Any  # [batch, d_model, size]
    down_bias: Any  # [batch, 1, size]
    up: Any  # [batch, size, d_model]
    up_bias: Any  # [batch, 1, d_model]
    norm_input: bool = dataclasses.field(**SHARED)

    _product = staticmethod(ops.matmul)


class TrainedAdapter(Layer):
    """The trained adapter of a block; with `num_tasks`, one for every task."""

    def __init__(self, d_model, size, num_tasks=None, **kwargs):
        super().__init__(**kwargs)
        self.d_model, self.size, self.num_tasks = d_model, size, num_tasks

    def build(self, input_shape=None):
        tasks = {} if self.num_tasks is None else {"tasks": self.num_tasks}
        d_model, size = {"d_model": self.d_model}, {"adapter": self.size}
        # Xavier's; each task's adapter counts by itself.
        bound = GAIN * math.sqrt(6 / (self.d_model + self.size))

        def add(name, dims, initializer):
            return add_weight(self, name, {**tasks, **dims}, initializer)

        self.down = add("down", {**d_model, **size}, uniform(bound))
        self.down_bias = add("down_bias", size, "zeros")
        self.up = add("up", {**size, **d_model}, uniform(bound))
        self.up_bias = add("up_bias", d_model, "zeros")
        self.built = True

    def adapter(self):
        weights = (getattr(self, field) for field in Adapter._fields)
        return Adapter(*(ops.cast(weight, self.compute_dtype) for weight in weights))


class TrainedAdapters(Layer):
    """The trained ("manual") adapters of a stack, one per block.

    With `num_tasks` there is one per block and task ("manual-specific").
    """

    def __init__(self, num_layers, d_model, size, num_tasks=None, **kwargs):
        super().__init__(**kwargs)
        policy = {"dtype": self.dtype_policy}
        self.blocks = [
            TrainedAdapter(d_model, size, num_tasks, name=f"block_{i:03d}", **policy)
            for i in range(num_layers)
        ]

    def build(self, input_shape=None):
        for block in self.blocks:
            block.build()
        self.built = True

    def shared(self, norm_input):
        """A `SharedAdapter` for every block."""
        return tuple(SharedAdapter(*b.adapter(), norm_input) for b in self.blocks)

    def of_tasks(self, task_ids):
        """The `Adapter` of every block, for each example's task."""
        return [
            Adapter(*(tf.gather(table, task_ids) for table in block.adapter()))
            for block in self.blocks
        ]


def per_example(adapters, norm_input):
    """An `ExampleAdapter` for every block, of adapters with the batch in front."""
    return tuple(
        ExampleAdapter(
            adapter.down,
            adapter.down_bias[:, None],
            adapter.up,
            adapter.up_bias[:, None],
            norm_input,
        )
        for adapter in adapters
    )


class Linear(Layer):
    """A kernel and a bias, within 1 / sqrt(fan-in) at first as PyTorch's are.

    With a `bound` the kernel starts within it, and the bias at 0.
    """

    def __init__(self, inputs, outputs, bound=None, **kwargs):
        super().__init__(**kwargs)
        self.inputs, self.outputs, self.bound = inputs, outputs, bound

    def build(self, input_shape=None):
        bound = self.bound or 1 / math.sqrt(*self.inputs.values())
        dims = {**self.inputs, **self.outputs}
        self.kernel = add_weight(self, "kernel", dims, uniform(bound))
        bias = "zeros" if self.bound else uniform(bound)
        self.bias = add_weight(self, "bias", self.outputs, bias)
        self.built = True

    def cast(self):
        """Kernel and bias in the compute type."""
        return (ops.cast(w, self.compute_dtype) for w in (self.kernel, self.bias))

    def call(self, x):
        kernel, bias = self.cast()
        return ops.matmul(ops.cast(x, self.compute_dtype), kernel) + bias


class Hypernetwork(Layer):
    """Writes the adapters of all blocks of a stack from one vector (eqs. 3-7, 9)."""

    def __init__(self, num_layers, d_model, size, input_size, options, **kwargs):
        super().__init__(**kwargs)
        policy = {"dtype": self.dtype_policy}
        self.num_layers, self.input_size = num_layers, input_size
        self.layer_embedding_size = options.layer_embedding
        bottleneck = {"bottleneck": options.bottleneck}
        inputs = {"hypernetwork_input": input_size + options.layer_embedding}
        self.hidden = Linear(inputs, bottleneck, name="hidden", **policy)

        def head(name, dim, outputs, fan_in=1):
            # The larger the fan-in in the adapter, the smaller its weights start.
            bound = 1e-3 * math.sqrt(3 / (options.bottleneck * fan_in))
            return Linear(bottleneck, {dim: outputs}, bound, name=name, **policy)

        d, a = d_model, size
        self.heads = [  # in the order of Adapter
            head("down", "d_model*adapter", d * a, fan_in=d),
            head("down_bias", "adapter", a),
            head("up", "adapter*d_model", a * d, fan_in=a),
            head("up_bias", "d_model", d),
        ]
        self.shapes = Adapter(down=(d, a), down_bias=(a,), up=(a, d), up_bias=(d,))

    def build(self, input_shape=None):
        dims = {
            "layers": self.num_layers,
            "layer_embedding": self.layer_embedding_size,
        }
        self.layer_embedding = add_weight(self, "layer_embedding", dims, normal(1.0))
        for layer in (self.hidden, *self.heads):
            layer.build()
        self.built = True

    def call(self, vectors):
        """[batch, input size] -> the `Adapter` of every block, batch in front."""
        batch = ops.shape(vectors)[0]
        hidden = self._hidden(vectors)
        hidden = ops.reshape(hidden, (-1, hidden.shape[-1]))
        parts = []
        for head, shape in zip(self.heads, self.shapes, strict=True):
            # One product for all blocks, block by block: each is then contiguous.
            y = ops.reshape(head(hidden), (self.num_layers, batch, *shape))
            parts.append(ops.unstack(y, self.num_layers))
        return [Adapter(*parts_of_block) for parts_of_block in zip(*parts, strict=True)]

    def _hidden(self, vectors):
        """relu(W0 [vector; layer embedding] + b0): [layers, batch, bottleneck].

        The two halves of the product are made apart: one per example, one per block.
        """
        kernel, bias = self.hidden.cast()
        vectors = ops.cast(vectors, self.compute_dtype)
        layers = ops.cast(self.layer_embedding, self.compute_dtype)
        of_example = ops.matmul(vectors, kernel[: self.input_size])
        of_layer = ops.matmul(layers, kernel[self.input_size :]) + bias
        return ops.relu(of_example[None] + of_layer[:, None])


def uniform(bound):
    return initializers.RandomUniform(-bound, bound)
