"""The feed-forward layer: ReLU (T5 1.0) or tanh-GELU gated (1.1)."""

from typing import Any

import keras
from keras import ops

from hypertf.t5.config import T5Config
from hypertf.t5.dropout import make_dropout
from hypertf.t5.layer import Layer
from hypertf.t5.products import project, project_on_rows
from hypertf.t5.sites import PLAIN, Sites
from hypertf.t5.weights import add_weight, fan_in, kept_weight
from hypertf.types import Tensor


class Kernel(Layer):
    """One two-dimensional kernel, named `<layer>/kernel`."""

    def __init__(self, dims: dict[str, int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dims = dims

        self.__dict__["table"] = None  # the kernel's transpose, past Keras's tracking

    def add_weights(self) -> None:
        self.kernel = add_weight(self, "kernel", self.dims, fan_in())

    def keep_transposed(self) -> keras.Variable:
        """Keeps the transpose, in a copy whose weights no longer change."""
        table = kept_weight(f"{self.path}/table", ops.transpose(self.kernel))
        self.__dict__["table"] = table
        return table

    def project(self, x: Tensor) -> Tensor:
        """Multiplies x [batch, length, in] by the kernel."""
        if self.table is not None:
            return project_on_rows(x, self.table)
        return project(x, self.kernel)


class FeedForward(Layer):
    """`wo(relu(wi x))`, or `wo(gelu(wi_0 x) * wi_1 x)`."""

    def __init__(
        self,
        config: T5Config,
        seed_generator: keras.random.SeedGenerator,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.gated = config.gated
        inward = {"d_model": config.d_model, "d_ff": config.d_ff}
        outward = {"d_ff": config.d_ff, "d_model": config.d_model}
        policy = {"dtype": self.dtype_policy}
        names = ("wi_0", "wi_1") if self.gated else ("wi",)
        self.wi = [Kernel(inward, name=name, **policy) for name in names]
        self.wo = Kernel(outward, name="wo", **policy)
        self.dropout = make_dropout(config, seed_generator, **policy)

    def call(
        self,
        x: Tensor,
        sites: Sites = PLAIN,
        observed: Any = None,
        training: bool = False,
    ) -> Tensor:
        """Applies the layer to x [batch, length, d_model]; the shape stays."""
        hidden = self.hidden(x, sites, observed)
        hidden = self.dropout(hidden, training=training)
        return self._product(self.wo, hidden, sites, observed)

    def hidden(self, x: Tensor, sites: Sites, observed: Any) -> Tensor:
        """Computes [batch, length, d_ff], after the activation."""
        inner = [self._product(wi, x, sites, observed) for wi in self.wi]
        if self.gated:
            return ops.gelu(inner[0], approximate=True) * inner[1]
        return ops.relu(inner[0])

    def _product(self, layer, x, sites, observed):
        if layer.name in sites.kernels:
            return sites.project(layer.name, x, layer.kernel, observed)
        return layer.project(x)
