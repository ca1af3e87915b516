"""HyperPrompt (He, Zheng et al., 2022): task prompts in every self-attention.

Each task has a global prompt P [length, d_model] per stack. In block m, two local
hypernetworks make of it the hyper-prompts that come before the keys and the values
(eqs. 1 to 6):

    P_k = relu(P D_k) U_k        D [d_model, b], U [b, heads, d_kv], no biases

    hyperprompt-share   one D and U per block, for all tasks
    hyperprompt-sep     one D and U per block and task
    hyperprompt-global  D and U written for task and block by one hypernetwork per
                        stack, D = I W^D, U = I W^U, from the layer-aware task
                        embedding I = MLP([task; block]) (eqs. 7 and 8)

The authors' code adds what their equations leave out, and so do the defaults here:
layer norms on P and on I, each with a scale and a bias per block, and dropout on P,
on both bottlenecks and inside the MLP. Unlike that code, keys at padding are masked.

Parameters per stack with M blocks and T tasks, d = heads * d_kv:

    share   d l T + 4 b d M
    sep     d l T + 4 b d M T
    global  d l T + 4 b d t + T t' + M t' + (2 t' + t) e
    norms   2 d M more, in global 2 (d + t) M more
"""

import dataclasses

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning import base
from hypertf.conditioning.registry import register
from hypertf.t5.layer import Layer
from hypertf.t5.sites import Sites, StackSites
from hypertf.t5.weights import add_weight, normal

EPSILON = 1e-6
REDUCTION = 32
glorot = keras.initializers.GlorotUniform


@dataclasses.dataclass(frozen=True)
class Options(base.Options):
    """Options of all three forms; defaults are the paper's best on T5 base.

    `encoder_length` and `decoder_length` are the lengths l of the prompts; 0 leaves
    that stack as T5 has it. The bottleneck b is `bottleneck`, or d_model divided by
    `reduction` (32 unless given). `norms` and `dropout` are those of the authors'
    code; without both it is the bare form of the paper's equations.
    """

    encoder_length: int = 16
    decoder_length: int = 6
    bottleneck: int | None = None
    reduction: int | None = None
    norms: bool = True
    dropout: bool = True

    def __post_init__(self):
        super().__post_init__()
        for name in ("encoder_length", "decoder_length"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            self.require(name, whole and value >= 0, "an integer >= 0 (0: no prompts)")
        self.require(
            "decoder_length",
            self.encoder_length or self.decoder_length,
            "prompts in at least one stack, but encoder_length=0 too",
        )
        for name in ("bottleneck", "reduction"):
            if getattr(self, name) is not None:
                self.require_positive(name)
        self.require(
            "reduction",
            self.bottleneck is None or self.reduction is None,
            f"None beside bottleneck={self.bottleneck}: either one decides b",
        )
        for name in ("norms", "dropout"):
            self.require_one_of(name, (True, False))

    def width(self, d_model):
        """The bottleneck's size b in a model of size `d_model`."""
        reduction = self.reduction or REDUCTION
        if self.bottleneck is None and d_model < reduction:
            raise ValueError(
                f"reduction={reduction}, expected at most d_model={d_model}; "
                "or give the bottleneck itself"
            )
        return self.bottleneck or d_model // reduction


@dataclasses.dataclass(frozen=True)
class GlobalOptions(Options):
    """Adds the sizes of the layer-aware task embedding.

    `embedding_size` is t, `raw_embedding_size` t' (task and block alike) and
    `hidden_size` e. Of these the paper prints t only, as a choice of 32, 64 and 128;
    64 gives the parameter counts of its tables. The others are those of HyperFormer++,
    whose recipe it says it follows.
    """

    embedding_size: int = 64
    raw_embedding_size: int = 64
    hidden_size: int = 128

    def __post_init__(self):
        super().__post_init__()
        self.require_positive("embedding_size", "raw_embedding_size", "hidden_size")


@dataclasses.dataclass(frozen=True)
class PromptSites(Sites):
    """The hyper-prompts of a block: each [batch, length, heads, d_kv]."""

    keys: object
    values: object

    def keys_values(self):
        return self.keys, self.values


class Weights(Layer):
    """Holds weights as declared: `{name: (dims, initializer)}`."""

    def __init__(self, declared, **kwargs):
        super().__init__(**kwargs)
        self.declared = declared

    def build(self, input_shape=None):
        for name, (dims, initializer) in self.declared.items():
            setattr(self, name, add_weight(self, name, dims, initializer))
        self.built = True


class SharePrompts(Layer):
    """The prompts of one stack, and local hypernetworks that all tasks share.

    Shapes, dimension names and initial values of weights are those of the authors'
    code in Mesh TensorFlow, which calls D "up" and U "down".
    """

    local_axes = "m"  # of D and U, before their own: m blocks, n tasks

    def __init__(self, config, num_tasks, options, length, num_layers, **kwargs):
        super().__init__(**kwargs)
        self.config, self.num_tasks, self.options = config, num_tasks, options
        self.length, self.num_layers = length, num_layers
        policy = {"dtype": self.dtype_policy}
        self.shared = Weights(self.shared_weights(), name="shared", **policy)
        self.blocks = [
            Weights(self.block_weights(), name=f"block_{m:03d}", **policy)
            for m in range(num_layers)
        ]

    def build(self, input_shape=None):
        for weights in (self.shared, *self.blocks):
            weights.build()
        self.built = True

    def shared_weights(self):
        """What the blocks have in common. Prompts start as token embeddings do."""
        dims = {
            "task_num": self.num_tasks,
            "memory_length": self.length,
            "d_model": self.config.d_model,
        }
        return {"prompts": (dims, normal(1.0))}

    def block_weights(self):
        """What each block has for itself."""
        return {**self.norm_weights("prompts", self.config.d_model), **self.networks()}

    def norm_weights(self, name, size, dim="d_model"):
        if not self.options.norms:
            return {}
        dims = {dim: size}
        return {f"{name}_scale": (dims, "ones"), f"{name}_bias": (dims, "zeros")}

    def networks(self):
        """D and U of keys and values; Glorot counts all but two axes as a window."""
        c, b = self.config, self.options.width(self.config.d_model)
        down = {"d_model": c.d_model, "prefix_hidden": b}
        up = {"prefix_hidden": b, "heads": c.num_heads, "d_kv": c.d_kv}
        return {
            f"{name}_{side}": ({**self.outer_dims(), **dims}, glorot())
            for name in ("k", "v")
            for side, dims in (("down", down), ("up", up))
        }

    def outer_dims(self):
        """The dimensions of the networks' weights before their own."""
        return {}

    def of_blocks(self, name, select=tf.convert_to_tensor):
        """What is selected of the blocks' weights `name`: [blocks, ...]."""
        return ops.stack([select(getattr(block, name)) for block in self.blocks])

    def normed(self, x, name):
        """x [blocks, ..., size], each block with its own scale and bias."""
        if not self.options.norms:
            return x
        shape = (self.num_layers, *(1,) * (len(x.shape) - 2), x.shape[-1])
        scale = ops.reshape(self.of_blocks(f"{name}_scale"), shape)
        bias = ops.reshape(self.of_blocks(f"{name}_bias"), shape)
        return base.layer_norm(x, scale, bias, EPSILON)

    def product(self, equation, x, weight):
        """In the compute type, as one (batched) matrix product."""
        dtype = self.compute_dtype
        return tf.einsum(equation, ops.cast(x, dtype), ops.cast(weight, dtype))

    def local_networks(self, task_ids, dropout):
        """D [*local axes, d_model, b] and U [*local axes, b, heads, d_kv], by name."""
        return {name: self.of_blocks(name) for name in self.networks()}

    def generate(self, task_ids, dropout):
        """Tasks [n] -> hyper-prompts [n, 2, blocks, length, heads, d_kv].

        The second axis holds keys and values; `dropout` is a function of a tensor.
        """
        prompts = tf.gather(self.shared.prompts, task_ids)
        prompts = ops.broadcast_to(prompts, (self.num_layers, *ops.shape(prompts)))
        prompts = ops.cast(self.normed(prompts, "prompts"), self.compute_dtype)
        prompts = dropout(prompts)  # [blocks, tasks, length, d_model]
        local, made = self.local_networks(task_ids, dropout), []
        for name in ("k", "v"):
            down, up = local[f"{name}_down"], local[f"{name}_up"]
            hidden = self.product(f"mnld,{self.local_axes}db->mnlb", prompts, down)
            hidden = dropout(ops.relu(hidden))
            made.append(self.product(f"mnlb,{self.local_axes}bhk->nmlhk", hidden, up))
        return ops.stack(made, axis=1)


class SepPrompts(SharePrompts):
    """Every task has local hypernetworks of its own."""

    local_axes = "mn"

    def outer_dims(self):
        return {"task_num": self.num_tasks}

    def local_networks(self, task_ids, dropout):
        def of_tasks(weight):
            return tf.gather(weight, task_ids)

        return {name: self.of_blocks(name, of_tasks) for name in self.networks()}


class GlobalPrompts(SharePrompts):
    """One hypernetwork writes the local ones, for all tasks and blocks.

    Its input I is normed, so that D and U start with the variance of Share's.
    """

    local_axes = "mn"

    def outer_dims(self):
        return {"task_final": self.options.embedding_size}

    def shared_weights(self):
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

    def block_weights(self):
        return {
            **self.norm_weights("prompts", self.config.d_model),
            **self.norm_weights("task", self.options.embedding_size, "task_final"),
        }

    def layer_aware_task_embedding(self, task_ids, dropout):
        """I of every block and task: [blocks, tasks, t]."""
        w = self.shared
        task = tf.gather(w.task_embedding, task_ids)[None]
        layer = tf.convert_to_tensor(w.layer_embedding)[:, None]
        shape = (self.num_layers, *ops.shape(task)[1:])
        both = [ops.broadcast_to(x, shape) for x in (task, layer)]
        x = ops.concatenate(both, axis=-1)
        x = ops.relu(self.product("mni,ie->mne", x, w.task_projector_one))
        x = self.product("mne,et->mnt", dropout(x), w.task_projector_two)
        return self.normed(x, "task")

    def local_networks(self, task_ids, dropout):
        embedding = self.layer_aware_task_embedding(task_ids, dropout)
        equation = {"down": "mnt,tdb->mndb", "up": "mnt,tbhk->mnbhk"}
        return {
            name: self.product(
                equation[name[2:]], embedding, getattr(self.shared, name)
            )
            for name in self.networks()
        }


class HyperPrompt(base.Method):
    """What the three forms share: prompts in the encoder, the decoder or both."""

    Options = Options
    Prompts = None  # the layer that holds one stack's weights

    def __init__(self, config, num_tasks, options=None, method=None, **kwargs):
        super().__init__(config, num_tasks, options, method, **kwargs)
        try:
            self.options.width(self.config.d_model)
        except ValueError as error:
            raise ValueError(f"{self.method}: {error}") from None
        self.encoder_prompts = self._prompts("encoder", self.options.encoder_length)
        self.decoder_prompts = self._prompts("decoder", self.options.decoder_length)

    def _prompts(self, stack, length):
        if not length:
            return None
        return self.Prompts(
            self.config,
            self.num_tasks,
            self.options,
            length,
            self.num_layers(stack),
            name=stack,
            dtype=self.dtype_policy,
        )

    def build(self, input_shape=None):
        for prompts in (self.encoder_prompts, self.decoder_prompts):
            if prompts is not None:
                prompts.build()
        self.built = True

    def encoder(self, task_ids, training=False, first_pass=None):
        return self._sites("encoder", self.encoder_prompts, task_ids, training)

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        return self._sites("decoder", self.decoder_prompts, task_ids, training)

    def _sites(self, stack, prompts, task_ids, training):
        if prompts is None:
            return StackSites.plain(self.num_layers(stack))

        def dropout(x):
            return self.dropout(x, training and self.options.dropout)

        made = self.per_example(lambda ids: prompts.generate(ids, dropout), task_ids)
        # [batch, 2, blocks, length, heads, d_kv]
        keys, values = (tf.unstack(x, axis=1) for x in tf.unstack(made, axis=1))
        blocks = tuple(PromptSites(k, v) for k, v in zip(keys, values, strict=True))
        return StackSites(blocks, num_keys=prompts.length)


@keras.saving.register_keras_serializable("hypertf")
class HyperPromptShare(HyperPrompt):
    """All tasks share the local hypernetworks (eqs. 3 and 4)."""

    Prompts = SharePrompts


@keras.saving.register_keras_serializable("hypertf")
class HyperPromptSep(HyperPrompt):
    """Every task has its own local hypernetworks (eqs. 5 and 6)."""

    Prompts = SepPrompts


@keras.saving.register_keras_serializable("hypertf")
class HyperPromptGlobal(HyperPrompt):
    """A global hypernetwork writes the local ones (eqs. 7 and 8)."""

    Options = GlobalOptions
    Prompts = GlobalPrompts


register(HyperPromptShare, "hyperprompt-share")
register(HyperPromptSep, "hyperprompt-sep")
register(HyperPromptGlobal, "hyperprompt-global")
