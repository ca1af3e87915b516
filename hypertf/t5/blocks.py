"""One block of a stack: self-attention, cross-attention in the decoder, FFN.

Each sublayer is norm, layer, dropout, residual. The sites of `sites.py` sit where
the papers' methods need them.
"""

from typing import Any

import keras
from keras import ops

from hypertf.t5 import target
from hypertf.t5.attention import Attention
from hypertf.t5.cache import FullCache
from hypertf.t5.config import T5Config
from hypertf.t5.dropout import make_dropout
from hypertf.t5.feed_forward import FeedForward
from hypertf.t5.layer import Layer
from hypertf.t5.norm import RMSNorm
from hypertf.t5.sites import PLAIN, Sites
from hypertf.types import Tensor


class Sublayer(Layer):
    """A layer with the norm before it and the dropout after it."""

    def __init__(
        self,
        layer: Attention | FeedForward,
        config: T5Config,
        seed_generator: keras.random.SeedGenerator,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        policy = {"dtype": self.dtype_policy}
        self.rms_norm = RMSNorm(config.d_model, name="rms_norm", **policy)
        self.layer = layer
        self.dropout = make_dropout(config, seed_generator, **policy)


class Block(Layer):
    """A block of the encoder, or of the decoder when `decoder` is set.

    The first block of a stack holds the stack's relative bias.
    """

    def __init__(
        self,
        config: T5Config,
        seed_generator: keras.random.SeedGenerator,
        decoder: bool = False,
        first: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        policy = {"dtype": self.dtype_policy}

        def sublayer(index: int, cls: type, name: str, **options: Any) -> Sublayer:
            layer = cls(config, seed_generator, name=name, **options, **policy)
            number = f"layer_{index:03d}"
            return Sublayer(layer, config, seed_generator, name=number, **policy)

        self.self_attention = sublayer(
            0, Attention, "SelfAttention", relative_bias=first
        )
        self.cross_attention = None
        if decoder:
            self.cross_attention = sublayer(
                1, Attention, "EncDecAttention", prefix="cross_"
            )
        last = 2 if decoder else 1
        self.feed_forward = sublayer(last, FeedForward, "DenseReluDense")

    def call(
        self,
        x: Tensor,
        bias: Tensor,
        token_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_bias: Tensor | None = None,
        sites: Sites = PLAIN,
        training: bool = False,
    ) -> Tensor:
        """Runs the block on x [batch, length, d_model]; the shape stays.

        bias [batch or 1, heads, query, key] holds mask and relative position;
        token_mask [batch, length, 1] is 0 at padding; memory is the encoder's output.
        """
        x, _, _ = self._self_attention(x, bias, token_mask, sites, training)
        observed = sites.observe(x, "attention")
        if self.cross_attention is not None:
            layer = self.cross_attention.layer
            keys_values = layer.keys_values(memory, sites, observed)
            x = self._cross_attention(
                x, keys_values, memory_bias, token_mask, sites, observed, training
            )
        return self._feed_forward(x, token_mask, sites, observed, training)

    def _self_attention(
        self,
        x: Tensor,
        bias: Tensor,
        token_mask: Tensor | None,
        sites: Sites,
        training: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The stream after self-attention, and the keys and values it used."""
        sub = self.self_attention
        observed = sites.observe(x, "input")
        y = sub.rms_norm(x, token_mask, sites.norm_scale("self_attention"))
        queries, keys, values = sub.layer.queries_keys_values(y, sites, observed)
        extra = sites.keys_values()
        if extra is not None:
            keys, values = _prepend(extra, keys, values)
        y = sub.layer.attend(queries, keys, values, bias, training)
        y = sub.layer.output(y, sites, observed)
        y = sites.after_attention(y, training)
        return x + sub.dropout(y, training=training), keys, values

    def _cross_attention(
        self,
        x: Tensor,
        keys_values: tuple[Tensor, Tensor],
        bias: Tensor,
        token_mask: Tensor | None,
        sites: Sites,
        observed: Any,
        training: bool,
    ) -> Tensor:
        sub = self.cross_attention
        y = sub.rms_norm(x, token_mask, sites.norm_scale("cross_attention"))
        queries = sub.layer.queries(y, sites, observed)
        y = sub.layer.attend(queries, *keys_values, bias, training)
        y = sub.layer.output(y, sites, observed)
        return x + sub.dropout(y, training=training)

    def _feed_forward(
        self,
        x: Tensor,
        token_mask: Tensor | None,
        sites: Sites,
        observed: Any,
        training: bool,
    ) -> Tensor:
        sub = self.feed_forward
        normed = sub.rms_norm(x, token_mask, sites.norm_scale("feed_forward"))
        y = sub.layer(normed, sites=sites, observed=observed, training=training)
        y = sub.dropout(sites.after_ffn(y, training), training=training)
        beside = sites.beside_ffn(x, normed, training)
        return x + y if beside is None else x + y + beside

    def start(
        self,
        x: Tensor | None,
        bias: Tensor,
        memory: Tensor,
        memory_bias: Tensor,
        sites: Sites,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, dict[str, Any]]:
        """Runs the stack's extra tokens x, if any, before the first decoding step.

        Returns x, the keys and values so far [batch, heads, extra, d_kv] (None if
        there are none), and what stays fixed over all steps.
        """
        keys = values = observed = observed_input = None
        cross = self.cross_attention.layer
        if x is not None:
            observed_input = sites.observe(x, "input")
            x, keys, values = self._self_attention(x, bias, None, sites, False)
            observed = sites.observe(x, "attention")
        memory_keys_values = cross.keys_values(memory, sites, observed)
        if x is not None:
            x = self._cross_attention(
                x, memory_keys_values, memory_bias, None, sites, observed, False
            )
            x = self._feed_forward(x, None, sites, observed, False)
        elif (extra := sites.keys_values()) is not None:
            keys, values = (ops.cast(e, self.compute_dtype) for e in extra)
        qkv = None
        if not target.current().mesh:  # where kernels stay apart
            qkv = self.self_attention.layer.joined("qkv")
            qkv = ops.cast(qkv, self.compute_dtype)
        fixed = {
            "qkv": qkv,
            "memory": memory_keys_values,
            "observed_input": observed_input,
            "observed": observed,
        }
        return x, keys, values, fixed

    def step(
        self,
        x: Tensor,
        cache: FullCache,
        place: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Tensor,
        memory_bias: Tensor,
        fixed: dict[str, Any],
        sites: Sites,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One decoding step of all beams: x [batch, beams, d_model].

        Beams take the place of the length: everything but self-attention treats
        positions alike, so what the sites hold per example serves all its beams.
        `cache` says what keys, values and bias look like, and writes at `place`.
        """
        sub = self.self_attention
        observed = fixed["observed_input"]
        queries, key, value = sub.layer.queries_keys_values(
            sub.rms_norm(x, scale=sites.norm_scale("self_attention")),
            sites,
            observed,
            fixed["qkv"],
        )
        keys = cache.write(keys, cache.row(key), place)
        values = cache.write(values, cache.row(value), place)
        y = sub.layer.attend(cache.row(queries), keys, values, bias)
        y = sub.layer.output(cache.heads(y), sites, observed)
        x = x + sites.after_attention(y, False)
        observed = fixed["observed"]
        x = self._cross_attention(
            x, fixed["memory"], memory_bias, None, sites, observed, False
        )
        x = self._feed_forward(x, None, sites, observed, False)
        return x, keys, values


def _prepend(
    extra: tuple[Tensor, Tensor], keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """Puts extra keys and values [batch, heads, extra, d_kv] before the real ones."""
    extra_keys, extra_values = (ops.cast(e, keys.dtype) for e in extra)
    return (
        ops.concatenate([extra_keys, keys], axis=2),
        ops.concatenate([extra_values, values], axis=2),
    )
