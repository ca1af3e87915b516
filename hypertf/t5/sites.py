"""The places where a method may change T5, and the contract of a conditioner.

The blocks know no method. Each of them is given a `Sites`, whose base class below
does nothing and costs nothing; a method overrides what it uses:

| site | method |
|---|---|
| `keys_values` | extra keys and values in self-attention |
| `after_attention`, `after_ffn` | on a sublayer's output, before the residual |
| `beside_ffn` | added beside the feed-forward |
| `norm_scale` | the scale of the norm before a sublayer |
| `kernels`, `project` | the product with a kernel |
| `observe` | reads the stream inside the block, for `project` |

Extra tokens before a stack's input belong to the stack: `StackSites.tokens`.
"""

import dataclasses

import keras

from hypertf.t5.products import project


class Sites:
    """What is done inside one block. This base class leaves T5 as it is."""

    # Kernels whose product goes through `project`: any of q k v o wi wi_0 wi_1 wo, and
    # of cross-attention cross_q cross_k cross_v cross_o, which have nothing observed.
    kernels = frozenset()

    def keys_values(self):
        """Keys and values [batch, heads, extra, d_kv] put before the real ones."""
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

    def beside_ffn(self, x, normed, training):
        """What to add to the stream beside the FFN, after its dropout.

        x [batch, length, d_model] is the stream, normed what the FFN reads of it.
        """
        return None

    def norm_scale(self, sublayer):
        """The scale [batch, 1, d_model] of the norm before `sublayer`, None for T5's.

        `sublayer` is `"self_attention"`, `"cross_attention"` or `"feed_forward"`.
        """
        return None


PLAIN = Sites()


@dataclasses.dataclass(frozen=True)
class StackSites:
    """What is done in one stack: extra input tokens, and a `Sites` per block.

    `tokens` [batch, extra, d_model] come before the embedded input and count as
    positions. `num_keys` is the static length of every block's `keys_values`; they
    sit at positions `-num_keys..-1`, so that no real distance changes. `norm_scale`
    [batch, 1, d_model] takes the place of the final norm's scale.
    """

    blocks: tuple
    tokens: object = None
    num_keys: int = 0
    norm_scale: object = None

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

    `num_tasks` is how many tasks it knows: ids are checked against it where their
    values are at hand. In a compiled function a wrong id is an error of the lookup on
    CPU, and reads some other task on TPU.
    """

    num_tasks = None
    # The stacks, "encoder" or "decoder", for which the task ids are not enough.
    reads_input = ()

    def encoder(self, task_ids, training=False, first_pass=None):
        """task_ids [batch] -> `StackSites` of the encoder.

        `first_pass(sites)` runs the encoder, as T5 has it unless other `StackSites`
        are given, for methods that condition the encoder on what it reads: its
        output [batch, length, d_model] and mask.
        """
        raise NotImplementedError

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        """`StackSites` of the decoder.

        encoder_output [batch, length, d_model]; encoder_mask [batch, length].
        """
        raise NotImplementedError

    def choose_trainable(self, model):
        """Freezes what the method does not train; called once the model is built."""

    def initialize_from(self, model):
        """Sets weights that start from T5's own; called when those were loaded."""
