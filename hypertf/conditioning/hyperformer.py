"""HyperFormer (Mahabadi et al., 2021): hypernetworks that write each task's adapters.

A task embedding I goes through linear maps, the hypernetworks, which write the
adapter of `adapters.py`: D, U, their biases, and scale and bias of its norm (eqs. 6
and 7). Who shares the hypernetworks is the option `sharing`:

| sharing | hypernetworks | embedding | known as |
|---|---|---|---|
| `"layer"` | one set per adapter | h_I(task), eq. 5 | HyperFormer |
| `"stack-positions"` | two per stack | LN h_I(task, layer) | the code's config |
| `"stack"` | one per stack | LN h_I(task, layer, position), eq. 8 | HyperFormer++ |

The public code's config "hyperformer" runs as `"stack-positions"`: a set for the
adapters after self-attention and one for those after the FFN. The sizes that the
paper reports (Table 1) are those of `"layer"`.
"""

import dataclasses
import math
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning.adapter_sites import (
    INITIAL_STDDEV,
    POSITIONS,
    AdapterMethod,
    AdapterOptions,
    declared_adapter,
    declared_norms,
)
from hypertf.conditioning.parts import Linear, Weights, layer_norm
from hypertf.conditioning.registry import register
from hypertf.t5 import StackSites
from hypertf.t5.layer import Layer
from hypertf.t5.products import unstack
from hypertf.t5.weights import add_weight, normal
from hypertf.types import Tensor

EMBEDDING_EPSILON = 1e-6
# n tasks, l layers, p positions, t embedding, o what is written
PRODUCTS = {
    "layer": "nt,tlpo->nlpo",
    "stack-positions": "nlt,tpo->nlpo",
    "stack": "nlpt,to->nlpo",
}


@dataclasses.dataclass(frozen=True)
class Options(AdapterOptions):
    """The choices of the paper.

    `task_features` is the size t' of a task's vector z and of layer and position
    embeddings: 512 for `sharing="layer"`, else 64. The task projector h_I has
    `task_hidden` units (e, 128) and writes embeddings of `task_embedding` (t, 64).
    `embedding_norm` is the layer norm on them; None has it where layers share.

    What Table 4 takes away: `adapter_blocks`, which leaves T5 with its norms trained;
    `conditional_norm`, instead of which each adapter has a trained norm that tasks
    share; `task_projector`, without which the hypernetworks read what it would read
    (z of size 64, or the embeddings side by side); and, by `trains="task"`, the
    training of T5's norms.
    """

    sharing: str = "layer"
    task_features: int | None = None
    task_hidden: int | None = None
    task_embedding: int | None = None
    embedding_norm: bool | None = None
    adapter_blocks: bool = True
    conditional_norm: bool = True
    task_projector: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_one_of("sharing", PRODUCTS)
        self.require_flags("adapter_blocks", "conditional_norm", "task_projector")
        self.require_flags("embedding_norm")
        sizes = ("task_features", "task_hidden", "task_embedding")
        self.require_positive(*sizes)
        if not self.task_projector:
            own = ("task_hidden", "task_embedding")
            self.require_unset(*own, because="task_projector=False")
        if self.conditional_norm:
            self.require_unset("initial_scale", because="conditional_norm=True")
        trained = self.adapter_blocks or self.trains != "task"
        self.require("trains", trained, "'task+norms' with adapter_blocks=False")
        if not self.adapter_blocks:
            own = ("embedding_norm", "conditional_norm", "task_projector", *sizes)
            inherited = {f.name for f in dataclasses.fields(AdapterOptions)}
            inherited -= {"trains"}
            self.require_unset(*own, *inherited, because="adapter_blocks=False")

    @property
    def has_embedding_norm(self) -> bool:
        """Whether the embeddings that hypernetworks read are normed."""
        if self.embedding_norm is None:
            return self.sharing != "layer"
        return self.embedding_norm

    @property
    def feature_size(self) -> int:
        """The paper's t'."""
        large = self.sharing == "layer" and self.task_projector
        return self.task_features or (512 if large else 64)

    @property
    def joint_size(self) -> int:
        """Of what enters the task projector: z, [z; l] or [z; l; p]."""
        parts = {"layer": 1, "stack-positions": 2, "stack": 3}
        return parts[self.sharing] * self.feature_size

    @property
    def embedding_size(self) -> int:
        """The paper's t, the size of what the hypernetworks read."""
        return (self.task_embedding or 64) if self.task_projector else self.joint_size


def linear(inputs: dict[str, int], outputs: dict[str, int], **kwargs: Any) -> Linear:
    """A linear map that starts as all of the public code do."""
    return Linear(inputs, outputs, normal(INITIAL_STDDEV), **kwargs)


class TaskProjector(Layer):
    """h_I: two linear maps with a ReLU between them, and the norm of the result."""

    def __init__(self, options: Options, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        policy = {"dtype": self.dtype_policy}
        self.hidden = self.output_map = self.norm = None
        embedding = {"embedding": options.embedding_size}
        if options.task_projector:
            features = {"features": options.joint_size}
            units = {"task_hidden": options.task_hidden or 128}
            self.hidden = linear(features, units, name="hidden", **policy)
            self.output_map = linear(units, embedding, name="output", **policy)
        if options.has_embedding_norm:
            norm = {"scale": (embedding, "ones"), "bias": (embedding, "zeros")}
            self.norm = Weights(norm, name="norm", **policy)

    def call(self, x: Tensor) -> Tensor:
        """[..., joint size] -> [..., embedding size]."""
        x = ops.cast(x, self.compute_dtype)
        if self.hidden is not None:
            x = self.output_map(ops.relu(self.hidden(x)))
        if self.norm is not None:
            x = layer_norm(x, self.norm.scale, self.norm.bias, EMBEDDING_EPSILON)
        return x


class Hypernetwork(Layer):
    """One linear map per field of `AdapterSites` that it writes (eqs. 6 and 7)."""

    def __init__(
        self, embedding_size: int, written: dict[str, tuple[int, ...]], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        inputs, policy = {"embedding": embedding_size}, {"dtype": self.dtype_policy}
        self.maps = {
            name: linear(inputs, {name: math.prod(shape)}, name=name, **policy)
            for name, shape in written.items()
        }


class StackNetworks(Layer):
    """The hypernetworks of one stack, and the embeddings that belong to it."""

    def __init__(self, method: "HyperFormer", stack: str, **kwargs: Any) -> None:
        super().__init__(name=stack, **kwargs)
        options, layers = method.options, method.num_layers(stack)
        policy = {"dtype": self.dtype_policy}
        self.sharing, self.num_layers = options.sharing, layers
        self.feature_size = options.feature_size
        places = [f"block_{i:03d}_{p}" for i in range(layers) for p in POSITIONS]
        owners, self.grid = {
            "layer": (places, (layers, len(POSITIONS))),
            "stack-positions": (POSITIONS, (len(POSITIONS),)),
            "stack": (["adapters"], ()),
        }[self.sharing]

        d_model = method.config.d_model
        written = declared_adapter(d_model, method.bottleneck)
        norms = declared_norms(d_model, options)
        if options.conditional_norm:
            written, norms = written | norms, {}
        self.written = {k: tuple(dims.values()) for k, (dims, _) in written.items()}
        self.trained = list(norms)
        size = options.embedding_size
        self.networks = [
            Hypernetwork(size, self.written, name=owner, **policy) for owner in owners
        ]
        self.norms = []
        if norms:
            self.norms = [Weights(norms, name=f"{p}_norm", **policy) for p in places]
        self.projector = None
        if self.sharing != "layer":
            self.projector = TaskProjector(options, name="task_projector", **policy)

    def add_weights(self) -> None:
        def embeddings(name: str, count: int) -> keras.Variable:
            dims = {name: count, "features": self.feature_size}
            return add_weight(self, f"{name}_embeddings", dims, normal(1.0))

        if self.sharing != "layer":
            self.layer_embeddings = embeddings("layer", self.num_layers)
        if self.sharing == "stack":
            self.position_embeddings = embeddings("position", len(POSITIONS))

    def embed(self, z: Tensor) -> Tensor:
        """Task vectors z [n, features] -> what the hypernetworks read, eq. 8.

        [n, layers, 2, embedding], without the position where it has no part in it,
        and z itself where the layers have none.
        """
        if self.sharing == "layer":
            return z
        parts = [ops.expand_dims(z, 1), ops.expand_dims(self.layer_embeddings, 0)]
        shape = [ops.shape(z)[0], self.num_layers]
        if self.sharing == "stack":
            parts = [ops.expand_dims(part, 2) for part in parts]
            parts.append(ops.expand_dims(self.position_embeddings, (0, 1)))
            shape.append(len(POSITIONS))
        shape.append(self.feature_size)
        parts = [tf.broadcast_to(part, shape) for part in parts]
        return self.projector(ops.concatenate(parts, axis=-1))

    def write(self, embedding: Tensor) -> dict[str, Tensor]:
        """Writes `{field of AdapterSites: [n, layers, 2, ...]}`, eqs. 6 and 7."""
        fields = {name: self._written(embedding, name) for name in self.written}
        n = ops.shape(embedding)[0]
        for name in self.trained:
            value = ops.stack([getattr(norm, name).value for norm in self.norms])
            shape = (n, self.num_layers, len(POSITIONS), value.shape[-1])
            fields[name] = tf.broadcast_to(ops.reshape(value, shape[1:]), shape)
        return fields

    def _written(self, embedding: Tensor, name: str) -> Tensor:
        """All layers and positions of one field in one product."""
        maps = [network.maps[name] for network in self.networks]
        kernel = ops.stack([linear.kernel.value for linear in maps], axis=1)
        bias = ops.stack([linear.bias.value for linear in maps])
        outputs = (*self.grid, bias.shape[-1])
        kernel = ops.reshape(kernel, (kernel.shape[0], *outputs))
        kernel, bias = (ops.cast(w, embedding.dtype) for w in (kernel, bias))
        value = tf.einsum(PRODUCTS[self.sharing], embedding, kernel)
        value = value + ops.reshape(bias, outputs)
        return ops.reshape(value, (-1, *value.shape[1:3], *self.written[name]))


@keras.saving.register_keras_serializable("hypertf")
class HyperFormer(AdapterMethod):
    """Task vectors, and for each stack the hypernetworks that write its adapters."""

    Options = Options

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        policy = {"dtype": self.dtype_policy}
        self.stacks, self.projector = [], None
        if not self.options.adapter_blocks:
            return
        if self.options.sharing == "layer":
            self.projector = TaskProjector(
                self.options, name="task_projector", **policy
            )
        self.stacks = self.each_stack(lambda s: StackNetworks(self, s, **policy))

    def add_weights(self) -> None:
        if self.stacks:
            dims = {"task_num": self.num_tasks, "features": self.options.feature_size}
            self.task_features = add_weight(self, "task_features", dims, normal(1.0))

    def embed(self, stack: str, task_ids: Tensor) -> Tensor:
        """Task ids [n] -> the embeddings that a stack's hypernetworks read."""
        z = tf.gather(self.task_features.value, task_ids)
        if self.projector is not None:
            z = self.projector(z)  # eq. 5
        return self.of_stack(self.stacks, stack).embed(z)

    def write(self, stack: str, task_ids: Tensor) -> dict[str, Tensor]:
        """Task ids [n] -> `{field of AdapterSites: [n, layers, 2, ...]}`."""
        embedding = self.embed(stack, task_ids)
        return self.cast(self.of_stack(self.stacks, stack).write(embedding))

    def stack_sites(
        self, stack: str, task_ids: Tensor, training: bool = False
    ) -> StackSites:
        if not self.stacks:
            return StackSites.plain(self.num_layers(stack))
        fields = self.per_example(lambda ids, _: self.write(stack, ids), task_ids)
        # Unstacked, not sliced: the gradients of slices would be as large as the whole.
        fields = {name: unstack(value, axis=1) for name, value in fields.items()}
        blocks = range(self.num_layers(stack))
        return StackSites(
            tuple(
                self.block_sites({k: v[i] for k, v in fields.items()}) for i in blocks
            )
        )


register(HyperFormer, "hyperformer", sharing="layer")
register(HyperFormer, "hyperformer++", sharing="stack")
