"""The encoder and the decoder: blocks between an embedding and a final norm."""

import functools
from typing import Any

import keras
import numpy as np
from keras import ops

from hypertf.t5 import target
from hypertf.t5.attention import MASKED
from hypertf.t5.blocks import Block
from hypertf.t5.config import T5Config
from hypertf.t5.dropout import make_dropout
from hypertf.t5.feed_forward import Kernel
from hypertf.t5.layer import Layer
from hypertf.t5.layer_loop import Weights, run_blocks
from hypertf.t5.lean_attention import Bias
from hypertf.t5.norm import RMSNorm
from hypertf.t5.relative_bias import relative_bias
from hypertf.t5.remat import rematerialized
from hypertf.t5.sites import Sites, StackSites
from hypertf.types import Array, Tensor


class Stack(Layer):
    """Dropout, blocks, norm, dropout. `decoder` makes it causal and cross-attending."""

    def __init__(
        self,
        config: T5Config,
        seed_generator: keras.random.SeedGenerator,
        decoder: bool = False,
        rematerialize: bool = False,
        loop_layers: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.decoder = decoder
        self.loop_layers = loop_layers
        self.rematerialize = rematerialize
        self.seed_generator = seed_generator
        policy = {"dtype": self.dtype_policy}
        layers = config.num_decoder_layers if decoder else config.num_encoder_layers
        self.blocks = [
            Block(
                config,
                seed_generator,
                decoder=decoder,
                first=i == 0,
                name=f"block_{i:03d}",
                **policy,
            )
            for i in range(layers)
        ]
        self.rms_norm = RMSNorm(config.d_model, name="rms_norm", **policy)
        self.dropout = make_dropout(config, seed_generator, **policy)
        self.logits = None
        if decoder and not config.tie_embeddings:
            dims = {"d_model": config.d_model, "vocab": config.vocab_size}
            self.logits = Kernel(dims, name="logits", **policy)

    def add_weights(self) -> None:
        # The largest first: later weights take the memory its initializer has freed.
        if self.logits is not None:
            self.logits.build()

    def call(
        self,
        x: Tensor,
        sites: StackSites,
        token_mask: Tensor | None = None,
        visible: Tensor | None = None,
        positions: Array | None = None,
        memory: Tensor | None = None,
        memory_bias: Tensor | None = None,
        keys_visible: Tensor | None = None,
        training: bool = False,
    ) -> Tensor:
        """Embedded x [batch, length, d_model] -> the stack's output.

        token_mask [batch, length] is True at real tokens. visible [batch or 1, query,
        key] and positions [batch or 1, length] are for rows that hold more than one
        text; they count the extra tokens of `sites`, which come before the real ones
        in the output too. keys_visible [batch, query, extra key] says who sees the
        extra keys, all by default. The output is 0 at padding.
        """
        x, token_mask = self.with_tokens(x, token_mask, sites)
        if visible is None and token_mask is not None:
            visible = token_mask[:, None, :]
        keys = {"key_copies": sites.key_copies, "keys_visible": keys_visible}
        bias = self.bias_parts(
            ops.shape(x)[1], sites.num_keys, visible, positions, **keys
        )
        if training and target.current().device == "TPU":
            memory_bias = Bias(None, memory_bias)
        else:
            bias = _added_up(bias)
        if token_mask is not None:
            token_mask = ops.cast(token_mask, "float32")[:, :, None]
        x = self.dropout(x, training=training)
        x = self._run_blocks(
            x,
            sites.blocks,
            bias=bias,
            token_mask=token_mask,
            memory=memory,
            memory_bias=memory_bias,
            training=training,
        )
        x = self.rms_norm(x, token_mask, sites.norm_scale)
        return self.dropout(x, training=training)

    def _run_blocks(self, x, sites, training, **inputs):
        def run(block: Block, x: Tensor, sites: Sites, weights: Weights) -> Tensor:
            if self.rematerialize and training:
                block = functools.partial(
                    rematerialized, block, self.seed_generator, weights
                )
            return block(x, sites=sites, training=training, **inputs)

        if self.loop_layers:
            return run_blocks(run, self.blocks, sites, self.seed_generator, x)
        for block, block_sites in zip(self.blocks, sites, strict=True):
            x = run(block, x, block_sites, ())
        return x

    def with_tokens(
        self, x: Tensor, token_mask: Tensor | None, sites: StackSites
    ) -> tuple[Tensor, Tensor | None]:
        """Puts the extra tokens of `sites` before x and widens the mask."""
        if sites.tokens is None:
            return x, token_mask
        tokens = ops.cast(sites.tokens, x.dtype)
        if token_mask is not None:
            real = ops.ones(ops.shape(tokens)[:2], dtype="bool")
            token_mask = ops.concatenate([real, token_mask], axis=1)
        return ops.concatenate([tokens, x], axis=1), token_mask

    def bias(
        self,
        length: int | Tensor,
        num_keys: int = 0,
        visible: Array | None = None,
        positions: Array | None = None,
    ) -> Tensor:
        """Relative position and mask of self-attention, made once for all blocks.

        [batch or 1, heads, length, num_keys + length], float32. The extra keys sit
        at positions -num_keys..-1 and every query sees them. The decoder sees no
        later place in the row, whatever the positions say.
        """
        return _added_up(self.bias_parts(length, num_keys, visible, positions))

    def bias_parts(
        self,
        length: int | Tensor,
        num_keys: int = 0,
        visible: Array | None = None,
        positions: Array | None = None,
        key_copies: int = 1,
        keys_visible: Array | None = None,
    ) -> Bias:
        """The parts of `bias`: relative position with what is causal, and the mask.

        `key_copies` of each extra key lie side by side, at one position; keys_visible
        is as in `call`.
        """
        at_keys = np.repeat(np.arange(-num_keys, 0, dtype="int32"), key_copies)
        num_keys *= key_copies
        places = _places(-num_keys, length)
        at_query, at_key = places[:, num_keys:], places
        if positions is not None:
            at_query, at_key = positions, _before(at_keys[None], positions)
        bias = relative_bias(
            self.blocks[0].self_attention.layer.relative_attention_bias,
            at_query,
            at_key,
            bidirectional=not self.decoder,
            max_distance=self.config.max_distance,
        )
        if self.decoder:
            causal = places[:, None, :] <= places[:, num_keys:, None]
            bias = bias + mask_bias(causal)
        mask = None
        if visible is not None:
            if keys_visible is not None:
                visible = ops.concatenate([keys_visible, visible], axis=2)
                num_keys = 0
            mask = _always_visible(mask_bias(visible), num_keys)
        return Bias(bias, mask)


def _added_up(bias: Bias) -> Tensor:
    return bias.relative if bias.mask is None else bias.relative + bias.mask


def _places(first: int, end: int | Tensor) -> Array:
    """Places from `first` up to `end`, [1, places].

    A constant where both are known; for a TPU what follows from it would be too large.
    """
    if isinstance(end, int) and target.current().device != "TPU":
        return np.arange(first, end, dtype="int32")[None]
    return ops.arange(first, end, dtype="int32")[None]


def mask_bias(visible: Array) -> Array:
    """What to add to attention's logits: 0 where visible, elsewhere far below 0.

    visible [batch or 1, query, key]; one dimension is added for the heads: [batch or
    1, 1, query, key].
    """
    if isinstance(visible, np.ndarray):
        return np.where(visible, 0.0, MASKED).astype("float32")[:, None]
    return ops.expand_dims(ops.where(visible, 0.0, MASKED), 1)


def _always_visible(bias: Array, num_keys: int) -> Array:
    if not num_keys:
        return bias
    return ops.pad(bias, ((0, 0), (0, 0), (0, 0), (num_keys, 0)))


def _before(extra: np.ndarray, positions: Array) -> Array:
    """Positions of the extra keys [1, num_keys], then those of the tokens."""
    if isinstance(positions, np.ndarray):
        return np.concatenate([extra, positions], axis=1)
    rows = ops.shape(positions)[0]
    extra = ops.broadcast_to(ops.cast(extra, positions.dtype), (rows, extra.shape[1]))
    return ops.concatenate([extra, positions], axis=1)
