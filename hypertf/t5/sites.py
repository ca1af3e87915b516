"""The places where a method may change T5, and the contract of a conditioner.

The blocks know no method. Each of them is given a `Sites`, whose base class below
does nothing and costs nothing; a method overrides what it uses:

| site | method |
|---|---|
| `keys_values` | extra keys and values in self-attention |
| `after_attention`, `after_ffn` | on a sublayer's output, before the residual |
| `beside_ffn` | added to the feed-forward's output |
| `kernels`, `project` | the product with a kernel |
| `observe` | reads the stream inside the block, for `project` |

Extra tokens before a stack's input belong to the stack: `StackSites.tokens`.
"""

import dataclasses

import keras

from hypertf.t5.products import project


class Sites:
    """What is done inside one block. This base class leaves T5 as it is."""

    # Kernels whose product goes through `project`: any of q k v o wi wi_0 wi_1 wo.
    kernels = frozenset()

    def keys_values(self):
        """Keys and values [batch, extra, heads, d_kv] put before the real ones."""
        return None

    def observe(self, x, place):
        """Reads the stream x [batch, length, d_model] at a place of the block.

        `place` is `"input"` (before self-attention) or `"attention"` (after it, the
        residual added). What it returns, a nest of tensors with the batch in front,
        is handed to `project` for the kernels that follow. In cached decoding it is
        called once, on the stack's extra tokens, and kept.
        """
        return None

    def project(self, name, x, kernel, observed):
        """The product of x [batch, length, in] with the kernel `name`."""
        return project(x, kernel)

    def after_attention(self, y, training):
        return y

    def after_ffn(self, y, training):
        return y

    def beside_ffn(self, x, training):
        """From the block's un-normed FFN input x, what to add to its output."""
        return None


PLAIN = Sites()


@dataclasses.dataclass(frozen=True)
class StackSites:
    """What is done in one stack: extra input tokens, and a `Sites` per block.

    `tokens` [batch, extra, d_model] come before the embedded input and count as
    positions. `num_keys` is the static length of every block's `keys_values`; they
    sit at positions `-num_keys..-1`, so that no real distance changes.
    """

    blocks: tuple
    tokens: object = None
    num_keys: int = 0

    @classmethod
    def plain(cls, num_layers):
        return cls(blocks=(PLAIN,) * num_layers)

    @property
    def num_tokens(self):
        return 0 if self.tokens is None else self.tokens.shape[1]


class Conditioner(keras.layers.Layer):
    """Turns task ids into what each block needs at its sites.

    Pure: tensors in, tensors out, nothing kept on layers during a call. What
    `decoder` returns is made once and then used at every decoding step.
    """

    def encoder(self, task_ids, training=False):
        """task_ids [batch] -> `StackSites` of the encoder."""
        raise NotImplementedError

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        """`StackSites` of the decoder.

        encoder_output [batch, length, d_model]; encoder_mask [batch, length].
        """
        raise NotImplementedError
