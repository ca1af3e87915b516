"""What methods with an adapter after each sublayer share: its place, and its options.

It sits after self-attention and after the FFN, not after cross-attention, before
the residual (HyperFormer, eq. 3):

    A(y) = y + LN(U gelu(D y))

`AdapterSites` is that place for all methods, whoever makes D, U and the norm.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning import options
from hypertf.conditioning.method import Method
from hypertf.conditioning.parts import Declared, layer_norm
from hypertf.t5 import Sites, shared
from hypertf.t5.packing import MODES, Segments
from hypertf.t5.sites import SUBLAYERS
from hypertf.t5.weights import normal
from hypertf.types import Tensor

POSITIONS = ("feed_forward", "self_attention")  # in the order of HyperFormer's code
EPSILON = 1e-5  # of the adapters' norms; T5's own have 1e-6
REDUCTION = 32
INITIAL_STDDEV = 0.01
# Of the norm after a trained adapter. Near the identity, as Houlsby et al. ask for and
# as generated norms are; the public code has 1.
INITIAL_SCALE = 0.1
# By the names of the public code.
ACTIVATIONS = {
    "relu": ops.relu,
    "swish": ops.silu,
    "gelu_new": lambda x: ops.gelu(x, approximate=True),
}


@dataclasses.dataclass(frozen=True)
class AdapterOptions(options.Options):
    """What an adapter looks like.

    `bottleneck` is its inner size, by default d_model // `reduction` (the paper's r,
    32), at least 1. `activation` is its non-linearity, a key of `ACTIVATIONS`.
    `norm_after` is the norm of eq. 3; `norm_before` one more, on what the adapter
    reads, which the public code knows and no paper uses. `initial_scale` is where the
    scale of a trained `norm_after` starts: None is 0.1, the public code has 1.
    """

    reduction: int | None = None
    bottleneck: int | None = None
    norm_before: bool = False
    norm_after: bool = True
    activation: str = "gelu_new"
    initial_scale: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_positive("reduction", "bottleneck")
        self.require_either("bottleneck", "reduction")
        self.require_flags("norm_before", "norm_after")
        self.require_one_of("activation", ACTIVATIONS)
        self.require_number("initial_scale")
        if not self.norm_after:
            self.require_unset("initial_scale", because="norm_after=False")

    def bottleneck_size(self, d_model: int) -> int:
        """The adapters' inner size in a model of size `d_model`."""
        return self.bottleneck or max(1, d_model // (self.reduction or REDUCTION))


@dataclasses.dataclass(frozen=True)
class AdapterSites(Sites):
    """Adapters of one block, each example's own.

    The second axis is the place in `POSITIONS`; of `norm_scales`, the block's
    sublayers from first to last. A norm without scale is left out.
    """

    down: Tensor  # [batch, 2, d_model, bottleneck]
    down_bias: Tensor  # [batch, 2, bottleneck]
    up: Tensor  # [batch, 2, bottleneck, d_model]
    up_bias: Tensor  # [batch, 2, d_model]
    before_scale: Tensor = None  # [batch, 2, d_model], and so the next three
    before_bias: Tensor = None
    after_scale: Tensor = None
    after_bias: Tensor = None
    norm_scales: Tensor = None  # [batch, 2 or 3, d_model]
    activation: str = shared(default="gelu_new")

    def after_attention(self, y: Tensor, training: bool) -> Tensor:
        return self._adapter(y, POSITIONS.index("self_attention"))

    def after_ffn(self, y: Tensor, training: bool) -> Tensor:
        return self._adapter(y, POSITIONS.index("feed_forward"))

    def norm_scale(self, sublayer: str) -> Tensor | None:
        if self.norm_scales is None:
            return None
        stack = "decoder" if self.norm_scales.shape[1] == 3 else "encoder"
        at = SUBLAYERS[stack].index(sublayer)
        return self.norm_scales[:, at : at + 1, :]

    def _adapter(self, y: Tensor, position: int) -> Tensor:
        """Eq. 3 for y [batch, length, d_model]."""

        def row(x: Tensor) -> Tensor:
            # Not x[:, position, None]: TensorFlow's optimizer of graphs takes a stack
            # apart there, and loses the new axis.
            return x[:, position : position + 1]  # [batch, 1, ...]

        def norm(x: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
            return x if scale is None else layer_norm(x, row(scale), row(bias), EPSILON)

        def linear(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
            return tf.einsum("bli,bio->blo", x, kernel[:, position]) + row(bias)

        z = norm(y, self.before_scale, self.before_bias)
        z = ACTIVATIONS[self.activation](linear(z, self.down, self.down_bias))
        z = linear(z, self.up, self.up_bias)
        return y + norm(z, self.after_scale, self.after_bias)

    def by_segment(self, segments: Segments) -> "SegmentAdapterSites":
        return SegmentAdapterSites(**vars(self), segments=segments)


@dataclasses.dataclass(frozen=True)
class SegmentAdapterSites(AdapterSites):
    """Adapters of packed rows: fields as above, with [rows * segments] in front.

    Adapters of all segments lie side by side; each token goes through its own.
    """

    segments: Segments = shared(default=None)

    def norm_scale(self, sublayer: str) -> Tensor | None:
        scale = super().norm_scale(sublayer)
        return None if scale is None else self.segments.choose(scale)

    def _adapter(self, y: Tensor, position: int) -> Tensor:
        own = self.segments

        def of(x: Tensor) -> Tensor:
            return x[:, position : position + 1]  # [rows * segments, 1, ...]

        def norm(x: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
            if scale is None:
                return x
            return layer_norm(x, own.choose(of(scale)), own.choose(of(bias)), EPSILON)

        z = norm(y, self.before_scale, self.before_bias)
        z = ops.matmul(z, own.inward(self.down[:, position]))
        z = ACTIVATIONS[self.activation](z + own.inward(of(self.down_bias)))
        z = ops.matmul(own.only_own(z), own.outward(self.up[:, position]))
        z = z + own.choose(of(self.up_bias))
        return y + norm(z, self.after_scale, self.after_bias)


def declared_adapter(d_model: int, bottleneck: int) -> Declared:
    """Declares D and U with their biases, by the fields of `AdapterSites`."""
    d_model, inner = {"d_model": d_model}, {"bottleneck": bottleneck}
    return {
        "down": ({**d_model, **inner}, normal(INITIAL_STDDEV)),
        "down_bias": (inner, "zeros"),
        "up": ({**inner, **d_model}, normal(INITIAL_STDDEV)),
        "up_bias": (d_model, "zeros"),
    }


def declared_norms(d_model: int, options: AdapterOptions) -> Declared:
    """Declares the norms that the options ask for, likewise."""
    initial_scale = options.initial_scale or INITIAL_SCALE
    dims = {"d_model": d_model}
    places = [p for p in ("before", "after") if getattr(options, f"norm_{p}")]
    start = {"before": "ones", "after": keras.initializers.Constant(initial_scale)}
    scales = {f"{place}_scale": (dims, start[place]) for place in places}
    return scales | {f"{place}_bias": (dims, "zeros") for place in places}


class AdapterMethod(Method):
    """A method that puts `AdapterSites` into every block."""

    Options = AdapterOptions
    trains = "task+norms"
    packs = MODES

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.bottleneck = self.options.bottleneck_size(self.config.d_model)

    def block_sites(self, fields: Mapping[str, Tensor]) -> AdapterSites:
        """The adapters of a block, of fields in the types they are used in."""
        return AdapterSites(**fields, activation=self.options.activation)

    def cast(self, fields: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Fields of `AdapterSites` in the types they are used in."""

        def of_norm(name: str) -> bool:
            return name in ("before_bias", "after_bias") or "scale" in name

        return {
            name: ops.cast(value, "float32" if of_norm(name) else self.compute_dtype)
            for name, value in fields.items()
        }
