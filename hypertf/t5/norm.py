"""T5's layer norm: root mean square only, always in float32."""

from typing import Any

from keras import ops

from hypertf.t5.layer import Layer
from hypertf.t5.weights import add_weight
from hypertf.types import Tensor

EPSILON = 1e-6


class RMSNorm(Layer):
    """`x * rsqrt(mean(x^2) + 1e-6) * scale`; no mean is taken off, no bias added."""

    def __init__(self, d_model: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model

    def add_weights(self) -> None:
        dims = {"d_model": self.d_model}
        self.scale = add_weight(self, "scale", dims, "ones")

    def call(
        self, x: Tensor, token_mask: Tensor | None = None, scale: Tensor | None = None
    ) -> Tensor:
        """Norms x [batch, length, d_model].

        token_mask [batch, length, 1] is 0 at padding; scale [batch, 1, d_model] takes
        the place of the weight.
        """
        x = ops.cast(x, "float32")
        factor = ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + EPSILON)
        if token_mask is not None:
            factor = factor * token_mask  # zeroes padding without a pass of its own
        scale = self.scale if scale is None else ops.cast(scale, "float32")
        return ops.cast(x * factor * scale, self.compute_dtype)
