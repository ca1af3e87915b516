"""Multi-head attention of T5: no biases, no scaling of the logits.

Kernels are two-dimensional, [d_model, heads * d_kv], as in Mesh TensorFlow. Logits
and softmax are float32 whatever the compute type. The layer holds the kernels and
the parts of attention; the block puts them together, at once or step by step.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.t5 import lean_attention, target
from hypertf.t5.config import T5Config
from hypertf.t5.dropout import make_dropout
from hypertf.t5.layer import Layer
from hypertf.t5.lean_attention import Bias
from hypertf.t5.products import project, project_from_heads, project_to_heads
from hypertf.t5.sites import PLAIN, Sites
from hypertf.t5.weights import add_weight, kept_weight, normal
from hypertf.types import Array, Tensor

MASKED = -1e9


class Attention(Layer):
    """Self- or cross-attention; `relative_bias` makes it hold the stack's table.

    `prefix` comes before the names by which sites know the kernels.
    """

    def __init__(
        self,
        config: T5Config,
        seed_generator: keras.random.SeedGenerator,
        relative_bias: bool = False,
        prefix: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.prefix = prefix
        self.has_relative_bias = relative_bias
        self.__dict__["kept"] = {}  # joined kernels, past Keras's tracking
        # Of weights, one draw per key for all queries: the same as of whole values,
        # which are smaller.
        self.dropout = make_dropout(
            config, seed_generator, shared_axis=-1, dtype=self.dtype_policy
        )

    def add_weights(self) -> None:
        c = self.config
        inward = {"d_model": c.d_model, "heads": c.d_heads}
        outward = {"heads": c.d_heads, "d_model": c.d_model}
        std = c.d_model**-0.5
        # The 1 / sqrt(d_kv) that other attentions apply is in q's initial scale.
        self.q = add_weight(self, "q", inward, normal(std * c.d_kv**-0.5))
        self.k = add_weight(self, "k", inward, normal(std))
        self.v = add_weight(self, "v", inward, normal(std))
        self.o = add_weight(self, "o", outward, normal(c.d_heads**-0.5))
        if self.has_relative_bias:
            self.relative_attention_bias = add_weight(
                self,
                "relative_attention_bias",
                {"heads": c.num_heads, "buckets": c.num_buckets},
                keras.initializers.GlorotUniform(),
            )

    def split_heads(self, x: Tensor) -> Tensor:
        """Turns [batch, length, heads * d_kv] into [batch, heads, length, d_kv]."""
        x = ops.reshape(
            x, (-1, ops.shape(x)[1], self.config.num_heads, self.config.d_kv)
        )
        return ops.transpose(x, (0, 2, 1, 3))

    def output(self, x: Tensor, sites: Sites = PLAIN, observed: Any = None) -> Tensor:
        """Turns [batch, heads, length, d_kv] into [batch, length, d_model]."""
        if self._is_lean() and self.prefix + "o" not in sites.kernels:
            return project_from_heads(x, self.o)
        x = ops.transpose(x, (0, 2, 1, 3))
        x = ops.reshape(x, (-1, ops.shape(x)[1], self.config.d_heads))
        return self._project("o", x, sites, observed)

    def joined(self, names: str) -> Tensor:
        """Joins kernels, "qkv" or "kv", side by side.

        One product is faster where joining is for many steps; for one it costs more
        than it saves.
        """
        if names in self.kept:
            return self.kept[names]
        return ops.concatenate([getattr(self, name) for name in names], axis=1)

    def keep_joined(self, names: str) -> keras.Variable:
        """Joins kernels once and for all, in a copy whose weights no longer change."""
        self.kept[names] = kept_weight(f"{self.path}/{names}", self.joined(names))
        return self.kept[names]

    def queries_keys_values(
        self,
        x: Tensor,
        sites: Sites = PLAIN,
        observed: Any = None,
        kernel: Array | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Makes queries, keys and values of x, each [batch, heads, length, d_kv].

        `kernel` is all three `joined`, where one product serves many steps.
        """
        if sites.kernels & {"q", "k", "v"}:
            return tuple(
                self.split_heads(sites.project(name, x, getattr(self, name), observed))
                for name in ("q", "k", "v")
            )
        kernel = self.kept.get("qkv") if kernel is None else kernel
        if kernel is None:
            return tuple(self._heads(name, x) for name in ("q", "k", "v"))
        qkv = project(x, kernel)
        c = self.config
        qkv = ops.reshape(qkv, (-1, ops.shape(x)[1], 3, c.num_heads, c.d_kv))
        return ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3)

    def queries(self, x: Tensor, sites: Sites = PLAIN, observed: Any = None) -> Tensor:
        """Makes queries [batch, heads, length, d_kv] of x [batch, length, d_model]."""
        if self.prefix + "q" not in sites.kernels:
            return self._heads("q", x)
        return self.split_heads(self._project("q", x, sites, observed))

    def _heads(self, name, x):
        kernel = getattr(self, name)
        if self._is_lean():
            return project_to_heads(x, kernel, self.config.num_heads)
        return self.split_heads(project(x, kernel))

    def _is_lean(self):
        """Whether products go straight into heads, without a transpose of their own."""
        asked = target.current()
        return asked.device == "TPU" or asked.mesh

    def _project(self, name, x, sites, observed):
        kernel, name = getattr(self, name), self.prefix + name
        if name in sites.kernels:
            return sites.project(name, x, kernel, observed)
        return project(x, kernel)

    def keys_values(
        self, memory: Tensor, sites: Sites = PLAIN, observed: Any = None
    ) -> tuple[Tensor, Tensor]:
        """Makes keys and values of the encoder's output, for cross-attention."""
        if sites.kernels & {self.prefix + "k", self.prefix + "v"}:
            return tuple(
                self.split_heads(self._project(name, memory, sites, observed))
                for name in ("k", "v")
            )
        if "kv" not in self.kept:
            return tuple(self._heads(name, memory) for name in ("k", "v"))
        kv = project(memory, self.kept["kv"])
        c = self.config
        kv = ops.reshape(kv, (-1, ops.shape(memory)[1], 2, c.num_heads, c.d_kv))
        return ops.unstack(ops.transpose(kv, (2, 0, 3, 1, 4)), 2)

    def attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Tensor | Bias,
        training: bool = False,
    ) -> Tensor:
        """Takes means of the values, by how well queries match keys.

        All are [..., length, d_kv]; bias [..., query, key] is float32.
        """
        if isinstance(bias, Bias):
            if self.config.shared_dropout or not training:
                values = self.dropout(values, training=training)
                return lean_attention.attend(queries, keys, values, bias)
            bias = sum(part for part in bias if part is not None)
        logits = tf.matmul(
            ops.cast(queries, "float32"), ops.cast(keys, "float32"), transpose_b=True
        )
        weights = tf.nn.softmax(logits + bias)
        weights = ops.cast(weights, values.dtype)
        if not self.config.shared_dropout:
            return ops.matmul(self.dropout(weights, training=training), values)
        return ops.matmul(weights, self.dropout(values, training=training))
