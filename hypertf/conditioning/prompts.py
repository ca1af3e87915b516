"""The prompts of one stack and what makes hyper-prompts of them, for `hyperprompt`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning.parts import Declared, Weights, layer_norm
from hypertf.t5 import T5Config
from hypertf.t5.layer import Layer
from hypertf.t5.weights import normal
from hypertf.types import Tensor

if TYPE_CHECKING:
    from hypertf.conditioning.hyperprompt import Options

EPSILON = 1e-6
glorot = keras.initializers.GlorotUniform


class SharePrompts(Layer):
    """The prompts of one stack, and local hypernetworks that all tasks share.

    Shapes and initial values of weights are those of the authors' code in Mesh
    TensorFlow, which calls D "up" and U "down".
    """

    def __init__(
        self,
        config: T5Config,
        num_tasks: int,
        options: "Options",
        length: int,
        num_layers: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config, self.num_tasks, self.options = config, num_tasks, options
        self.length, self.num_layers = length, num_layers
        policy = {"dtype": self.dtype_policy}
        self.shared = Weights(self.shared_weights(), name="shared", **policy)
        self.blocks = [
            Weights(self.block_weights(), name=f"block_{m:03d}", **policy)
            for m in range(num_layers)
        ]

    def shared_weights(self) -> Declared:
        """What the blocks have in common. Prompts start as token embeddings do."""
        dims = {
            "task_num": self.num_tasks,
            "memory_length": self.length,
            "d_model": self.config.d_model,
        }
        return {"prompts": (dims, normal(1.0))}

    def block_weights(self) -> Declared:
        """What each block has for itself."""
        return {**self.norm_weights("prompts", self.config.d_model), **self.networks()}

    def norm_weights(self, name: str, size: int, dim: str = "d_model") -> Declared:
        """Scale and bias of the layer norm `name`, none without `norms`."""
        if not self.options.norms:
            return {}
        dims = {dim: size}
        return {f"{name}_scale": (dims, "ones"), f"{name}_bias": (dims, "zeros")}

    def networks(self) -> Declared:
        """D and U of keys and values; Glorot counts all but two axes as a window."""
        c, b = self.config, self.options.bottleneck_size(self.config.d_model)
        down = {"d_model": c.d_model, "prefix_hidden": b}
        up = {"prefix_hidden": b, "heads": c.num_heads, "d_kv": c.d_kv}
        return {
            f"{name}_{side}": ({**self.outer_dims(), **dims}, glorot())
            for name in ("k", "v")
            for side, dims in (("down", down), ("up", up))
        }

    def outer_dims(self) -> dict[str, int]:
        """The dimensions of the networks' weights before their own."""
        return {}

    def of_blocks(self, name: str, select: Callable = tf.convert_to_tensor) -> Tensor:
        """What is selected of the blocks' weights `name`: [blocks, ...]."""
        return ops.stack([select(getattr(block, name)) for block in self.blocks])

    def normed(self, x: Tensor, name: str) -> Tensor:
        """The layer norm of x [blocks or 1, ..., size], with each block's weights."""
        if not self.options.norms:
            return ops.broadcast_to(x, (self.num_layers, *x.shape[1:]))
        shape = (self.num_layers, *(1,) * (len(x.shape) - 2), x.shape[-1])
        scale = ops.reshape(self.of_blocks(f"{name}_scale"), shape)
        bias = ops.reshape(self.of_blocks(f"{name}_bias"), shape)
        return layer_norm(x, scale, bias, EPSILON)

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """One (batched) matrix product in the compute type."""
        dtype = self.compute_dtype
        return tf.matmul(ops.cast(x, dtype), ops.cast(weight, dtype))

    def local_networks(self, task_ids: Tensor, dropout: Callable) -> dict[str, Tensor]:
        """The networks D [blocks, d_model, b] and U [blocks, b, heads, d_kv], by name.

        Where tasks differ, [blocks, tasks, ...].
        """
        return {name: self.of_blocks(name) for name in self.networks()}

    def through(self, x: Tensor, weight: Tensor) -> Tensor:
        """Sends x [blocks, tasks, length, in] through a local [..., in, out]."""
        if len(weight.shape) == len(x.shape):
            return self.product(x, weight)
        rows = ops.reshape(x, (self.num_layers, -1, x.shape[-1]))
        return ops.reshape(self.product(rows, weight), (*x.shape[:-1], -1))

    def generate(self, task_ids: Tensor, dropout: Callable) -> tuple[Tensor, Tensor]:
        """Tasks [n] -> keys and values, each [blocks, n, heads, length, d_kv].

        `dropout` is a function of a tensor [blocks, n, ...].
        """
        prompts = ops.expand_dims(tf.gather(self.shared.prompts, task_ids), 0)
        prompts = ops.cast(self.normed(prompts, "prompts"), self.compute_dtype)
        prompts = dropout(prompts)  # [blocks, n, length, d_model]
        local, made = self.local_networks(task_ids, dropout), []
        for name in ("k", "v"):
            up = local[f"{name}_up"]
            *outer, heads, d_kv = up.shape
            hidden = self.through(prompts, local[f"{name}_down"])
            x = dropout(ops.relu(hidden))
            x = self.through(x, ops.reshape(up, (*outer, heads * d_kv)))
            x = ops.reshape(x, (*x.shape[:-1], heads, d_kv))
            made.append(ops.transpose(x, (0, 1, 3, 2, 4)))
        return tuple(made)


class SepPrompts(SharePrompts):
    """Every task has local hypernetworks of its own."""

    def outer_dims(self) -> dict[str, int]:
        return {"task_num": self.num_tasks}

    def local_networks(self, task_ids: Tensor, dropout: Callable) -> dict[str, Tensor]:
        def of_tasks(weight: keras.Variable) -> Tensor:
            return tf.gather(weight, task_ids)

        return {name: self.of_blocks(name, of_tasks) for name in self.networks()}


class GlobalPrompts(SharePrompts):
    """One hypernetwork writes the local ones, for all tasks and blocks.

    Its input I is normed, so that D and U start with the variance of Share's.
    """

    def outer_dims(self) -> dict[str, int]:
        return {"task_final": self.options.embedding_size}

    def shared_weights(self) -> Declared:
        o = self.options
        raw, hidden = o.raw_embedding_size, o.hidden_size
        tasks = {"task_num": self.num_tasks, "task_raw": raw}
        layers = {"layer_num": self.num_layers, "task_raw": raw}
        one = {"task_raw": 2 * raw, "task_hidden": hidden}
        two = {"task_hidden": hidden, "task_final": o.embedding_size}
        return {
            **super().shared_weights(),
            "task_embedding": (tasks, normal(1.0)),
            "layer_embedding": (layers, normal(1.0)),
            "task_projector_one": (one, glorot()),
            "task_projector_two": (two, glorot()),
            **self.networks(),
        }

    def block_weights(self) -> Declared:
        return {
            **self.norm_weights("prompts", self.config.d_model),
            **self.norm_weights("task", self.options.embedding_size, "task_final"),
        }

    def layer_aware_task_embedding(self, task_ids: Tensor, dropout: Callable) -> Tensor:
        """The embedding I of every block and task: [blocks, tasks, t]."""
        w = self.shared
        task = ops.expand_dims(tf.gather(w.task_embedding, task_ids), 0)
        layer = ops.expand_dims(w.layer_embedding, 1)
        shape = (self.num_layers, *ops.shape(task)[1:])
        both = [ops.broadcast_to(x, shape) for x in (task, layer)]
        x = ops.concatenate(both, axis=-1)
        x = ops.relu(self.product(x, w.task_projector_one))
        x = self.product(dropout(x), w.task_projector_two)
        return self.normed(x, "task")

    def local_networks(self, task_ids: Tensor, dropout: Callable) -> dict[str, Tensor]:
        dtype = self.compute_dtype
        embedding = self.layer_aware_task_embedding(task_ids, dropout)
        embedding = ops.cast(embedding, dtype)

        def written(weight: keras.Variable) -> Tensor:
            # Kept in its shape: as a matrix a TPU would copy it into another layout.
            own = "abc"[: len(weight.shape) - 1]
            equation = f"mte,e{own}->mt{own}"
            return tf.einsum(equation, embedding, ops.cast(weight, dtype))

        return {name: written(getattr(self.shared, name)) for name in self.networks()}
