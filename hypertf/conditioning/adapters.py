"""Adapters (Houlsby et al., 2019): a small network after each sublayer.

It sits after self-attention and after the FFN, not after cross-attention, before
the residual (HyperFormer, eq. 3):

    A(y) = y + LN(U gelu(D y))

`AdapterSites` is that place for all methods, whoever makes D, U and the norm. Here
they are trained: by `adapters`, every task has its own, and its own T5 norms; by
`adapters-shared-norm` (the paper's dagger), the tasks share all norms.
"""

import dataclasses

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning import base
from hypertf.conditioning.base import Method, Weights, layer_norm
from hypertf.conditioning.registry import register
from hypertf.t5 import Sites, StackSites
from hypertf.t5.layer import Layer
from hypertf.t5.weights import normal

POSITIONS = ("feed_forward", "self_attention")  # in the order of HyperFormer's code
SUBLAYERS = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}
STACKS = tuple(SUBLAYERS)
EPSILON = 1e-5  # of the adapters' norms; T5's own have 1e-6
REDUCTION = 32
INITIAL_STDDEV = 0.01
# Of the norm after a trained adapter, which would be 1 in the public code. Near the
# identity, as Houlsby et al. ask for and as generated norms are.
INITIAL_SCALE = 0.1


@dataclasses.dataclass(frozen=True)
class AdapterOptions(base.Options):
    """What an adapter looks like.

    `bottleneck` is its inner size, by default d_model // `reduction` (the paper's r,
    32), at least 1. `norm_after` is the norm of eq. 3; `norm_before` one more, on
    what the adapter reads, which the public code knows and no paper uses.
    """

    reduction: int | None = None
    bottleneck: int | None = None
    norm_before: bool = False
    norm_after: bool = True

    def __post_init__(self):
        super().__post_init__()
        given = [n for n in ("reduction", "bottleneck") if getattr(self, n) is not None]
        self.require_positive(*given)
        self.require(
            "bottleneck", len(given) < 2, f"None beside reduction={self.reduction!r}"
        )
        self.require_flags("norm_before", "norm_after")

    def require_flags(self, *names):
        for name in names:
            self.require(name, isinstance(getattr(self, name), bool), "True or False")

    def inner_size(self, d_model):
        return self.bottleneck or max(1, d_model // (self.reduction or REDUCTION))


@dataclasses.dataclass(frozen=True)
class AdapterSites(Sites):
    """Adapters of one block, each example's own.

    The second axis is the place in `POSITIONS`; of `norm_scales`, the block's
    sublayers from first to last. A norm without scale is left out.
    """

    down: object  # [batch, 2, d_model, bottleneck]
    down_bias: object  # [batch, 2, bottleneck]
    up: object  # [batch, 2, bottleneck, d_model]
    up_bias: object  # [batch, 2, d_model]
    before_scale: object = None  # [batch, 2, d_model], and so the next three
    before_bias: object = None
    after_scale: object = None
    after_bias: object = None
    norm_scales: object = None  # [batch, 2 or 3, d_model]

    def after_attention(self, y, training):
        return self._adapter(y, POSITIONS.index("self_attention"))

    def after_ffn(self, y, training):
        return self._adapter(y, POSITIONS.index("feed_forward"))

    def norm_scale(self, sublayer):
        if self.norm_scales is None:
            return None
        stack = "decoder" if self.norm_scales.shape[1] == 3 else "encoder"
        at = SUBLAYERS[stack].index(sublayer)
        return self.norm_scales[:, at : at + 1]

    def _adapter(self, y, position):
        """Eq. 3 for y [batch, length, d_model]."""

        def row(x):
            # Not x[:, position, None]: TensorFlow's optimizer of graphs takes a stack
            # apart there, and loses the new axis.
            return x[:, position : position + 1]  # [batch, 1, ...]

        def norm(x, scale, bias):
            return x if scale is None else layer_norm(x, row(scale), row(bias), EPSILON)

        def linear(x, kernel, bias):
            return tf.einsum("bli,bio->blo", x, kernel[:, position]) + row(bias)

        z = norm(y, self.before_scale, self.before_bias)
        z = ops.gelu(linear(z, self.down, self.down_bias), approximate=True)
        z = linear(z, self.up, self.up_bias)
        return y + norm(z, self.after_scale, self.after_bias)


def declared_adapter(d_model, bottleneck):
    """`{field of AdapterSites: (dims, initializer)}` of D and U with their biases."""
    d_model, inner = {"d_model": d_model}, {"bottleneck": bottleneck}
    return {
        "down": ({**d_model, **inner}, normal(INITIAL_STDDEV)),
        "down_bias": (inner, "zeros"),
        "up": ({**inner, **d_model}, normal(INITIAL_STDDEV)),
        "up_bias": (d_model, "zeros"),
    }


def declared_norms(d_model, options):
    """The same of the norms that the options ask for."""
    dims = {"d_model": d_model}
    places = [p for p in ("before", "after") if getattr(options, f"norm_{p}")]
    start = {"before": "ones", "after": keras.initializers.Constant(INITIAL_SCALE)}
    scales = {f"{place}_scale": (dims, start[place]) for place in places}
    return scales | {f"{place}_bias": (dims, "zeros") for place in places}


class AdapterMethod(Method):
    """A method that puts `AdapterSites` into every block."""

    Options = AdapterOptions
    trains = "task+norms"

    def __init__(self, config, num_tasks, options=None, **kwargs):
        super().__init__(config, num_tasks, options, **kwargs)
        self.bottleneck = self.options.inner_size(self.config.d_model)

    def encoder(self, task_ids, training=False, first_pass=None):
        return self.stack_sites("encoder", task_ids)

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        return self.stack_sites("decoder", task_ids)

    def stack_sites(self, stack, task_ids):
        """task_ids [batch] -> the `StackSites` of `"encoder"` or `"decoder"`."""
        raise NotImplementedError

    def cast(self, fields):
        """Fields of `AdapterSites` in the types they are used in."""

        def of_norm(name):
            return name in ("before_bias", "after_bias") or "scale" in name

        return {
            name: ops.cast(value, "float32" if of_norm(name) else self.compute_dtype)
            for name, value in fields.items()
        }


@dataclasses.dataclass(frozen=True)
class Options(AdapterOptions):
    """`norms` says whose the norms are, T5's and the adapters': each task's own
    (`"task"`) or all tasks' together (`"shared"`)."""

    norms: str = "task"

    def __post_init__(self):
        super().__post_init__()
        self.require_one_of("norms", ("task", "shared"))


class AdapterBlock(Layer):
    """The adapters of one block, and each task's T5 norms where tasks have them.

    Tasks come first in every weight of theirs.
    """

    def __init__(self, method, sublayers, **kwargs):
        super().__init__(**kwargs)
        policy = {"dtype": self.dtype_policy}
        d_model, tasks = method.config.d_model, {"tasks": method.num_tasks}
        own_norms = method.options.norms == "task"

        def of_tasks(declared):
            return {
                k: ({**tasks, **dims}, init) for k, (dims, init) in declared.items()
            }

        norms = declared_norms(d_model, method.options)
        adapters = of_tasks(declared_adapter(d_model, method.bottleneck))
        adapters |= of_tasks(norms) if own_norms else norms
        self.adapters = [Weights(adapters, name=name, **policy) for name in POSITIONS]
        scale = {"scale": ({"d_model": d_model}, "ones")}
        self.rms_norms = [
            Weights(of_tasks(scale), name=f"{name}_norm", **policy)
            for name in (sublayers if own_norms else ())
        ]

    def build(self, input_shape=None):
        for layer in (*self.adapters, *self.rms_norms):
            layer.build()
        self.built = True

    def fields(self, task_ids):
        """task_ids [batch] -> `{field of AdapterSites: [batch, ...]}`."""

        def of_examples(weight):
            if weight.dims[0] == "tasks":
                return tf.gather(weight.value, task_ids)
            batch = ops.shape(task_ids)[0]
            return tf.broadcast_to(weight.value, (batch, *weight.shape))

        def stacked(layers, name):
            return ops.stack([of_examples(getattr(w, name)) for w in layers], axis=1)

        names = self.adapters[0].declared
        fields = {name: stacked(self.adapters, name) for name in names}
        if self.rms_norms:
            fields["norm_scales"] = stacked(self.rms_norms, "scale")
        return fields


class AdapterStack(Layer):
    """The blocks of one stack and, where tasks have their own, its final norm."""

    def __init__(self, method, stack, **kwargs):
        super().__init__(name=stack, **kwargs)
        policy = {"dtype": self.dtype_policy}
        self.blocks = [
            AdapterBlock(method, SUBLAYERS[stack], name=f"block_{i:03d}", **policy)
            for i in range(method.num_layers(stack))
        ]
        self.final_norm = None
        if method.options.norms == "task":
            dims = {"tasks": method.num_tasks, "d_model": method.config.d_model}
            scale = {"scale": (dims, "ones")}
            self.final_norm = Weights(scale, name="final_norm", **policy)

    def build(self, input_shape=None):
        for layer in (*self.blocks, self.final_norm):
            if layer is not None:
                layer.build()
        self.built = True


@keras.saving.register_keras_serializable("hypertf")
class Adapters(AdapterMethod):
    """Adapters of each task, with its own norms or shared ones.

    A task's own T5 norms start from the model's: `initialize_from` copies them, and
    is to be called once pretrained weights are loaded.
    """

    Options = Options

    def __init__(self, config, num_tasks, options=None, **kwargs):
        super().__init__(config, num_tasks, options, **kwargs)
        self.trains = "task+norms" if self.options.norms == "shared" else "task"
        policy = {"dtype": self.dtype_policy}
        self.stacks = [AdapterStack(self, stack, **policy) for stack in STACKS]

    def build(self, input_shape=None):
        for stack in self.stacks:
            stack.build()
        self.built = True

    def stack_sites(self, stack, task_ids):
        ours = self.stacks[STACKS.index(stack)]
        blocks = [block.fields(task_ids) for block in ours.blocks]
        norm_scale = None
        if ours.final_norm is not None:
            norm_scale = tf.gather(ours.final_norm.scale.value, task_ids)[:, None]
        return StackSites(
            blocks=tuple(AdapterSites(**self.cast(fields)) for fields in blocks),
            norm_scale=norm_scale,
        )

    def choose_trainable(self, model):
        super().choose_trainable(model)
        for _, unused in self.norm_scales(model):
            unused.trainable = False
        if all(_is_one(scale) for scale, _ in self.norm_scales(model)):
            self.initialize_from(model)

    def initialize_from(self, model):
        """Gives every task the norms of a `hypertf.T5`, such as a pretrained one."""
        for scale, of_model in self.norm_scales(model):
            scale.assign(ops.broadcast_to(of_model, scale.shape))

    def norm_scales(self, model):
        """Pairs of each task's scales [tasks, d_model] and the scale they replace."""
        if self.options.norms == "shared":
            return
        stacks = (model.encoder, model.decoder)
        for ours, stack in zip(self.stacks, stacks, strict=True):
            for norms, block in zip(ours.blocks, stack.blocks, strict=True):
                for norm in norms.rms_norms:
                    sublayer = getattr(block, norm.name.removesuffix("_norm"))
                    yield norm.scale, sublayer.rms_norm.scale
            yield ours.final_norm.scale, stack.rms_norm.scale


def _is_one(scale):
    return bool(ops.all(ops.equal(scale, 1.0)))


register(Adapters, "adapters", norms="task")
register(Adapters, "adapters-shared-norm", norms="shared")
