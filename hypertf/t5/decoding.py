"""Generation one token at a time, on a cache of keys and values (`cache.py`).

`Steps` prepares all that does not change from step to step; `sample` below and
`beam.search` drive it. A batch of examples, each with some beams (or samples), is
handled as [batch, beams]: what belongs to an example is never copied per beam.
"""

import dataclasses
from typing import TYPE_CHECKING

import tensorflow as tf
from keras import ops

from hypertf.t5.cache import Caches, cache_for_target, write_at
from hypertf.t5.scoring import token_log_probs
from hypertf.t5.stacks import mask_bias
from hypertf.types import Batch, Tensor

if TYPE_CHECKING:
    from hypertf.t5.model import T5

BEAM_STYLES = ("t5", "t5-full", "huggingface", "huggingface-never")  # see beam.py
END = 1  # id of the end token; 0 is padding and starts the decoder
FORBIDDEN = -1e9  # log probability of what may not be chosen


@dataclasses.dataclass(frozen=True)
class Options:
    """How to choose tokens; checked once, and the key of the compiled function."""

    max_length: int
    beam_size: int = 1
    length_penalty: float = 0.6
    beam_style: str = "t5"
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    num_sequences: int = 1
    return_scores: bool = False
    min_length: int = 0

    def __post_init__(self) -> None:
        for name in ("max_length", "beam_size", "num_sequences"):
            self._require(name, _is_int(getattr(self, name), 1), "an integer >= 1")
        self._require("top_k", _is_int(self.top_k, 0), "an integer >= 0 (0: all)")
        self._require(
            "min_length",
            _is_int(self.min_length, 0) and self.min_length <= self.max_length,
            f"an integer from 0 to max_length={self.max_length}",
        )
        self._require("top_p", 0.0 < self.top_p <= 1.0, "0 < top_p <= 1")
        self._require("temperature", self.temperature >= 0.0, "a number >= 0")
        self._require("length_penalty", self.length_penalty >= 0.0, "a number >= 0")
        self._require(
            "beam_style",
            self.beam_style in BEAM_STYLES,
            f"one of {', '.join(BEAM_STYLES)}",
        )
        sampling = self.temperature > 0.0
        if not sampling and (self.top_k or self.top_p < 1.0):
            raise ValueError(
                f"generate: top_k={self.top_k}, top_p={self.top_p} choose among "
                "samples, but temperature=0 does not sample; set temperature > 0"
            )
        if sampling and self.beam_size > 1:
            raise ValueError(
                f"generate: beam_size={self.beam_size} with temperature="
                f"{self.temperature}; expected beams or sampling, not both"
            )
        if not sampling and self.num_sequences > self.beam_size:
            raise ValueError(
                f"generate: num_sequences={self.num_sequences}, expected at most "
                f"beam_size={self.beam_size} (or temperature > 0)"
            )

    def _require(self, name, holds, expected):
        if not holds:
            value = getattr(self, name)
            raise ValueError(f"generate: {name}={value!r}, expected {expected}")


def _is_int(value, least):
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


class Steps:
    """The decoder, ready to run token by token over `max_length` steps."""

    def __init__(self, model: "T5", inputs: Batch, max_length: int, beams: int) -> None:
        self.model = model
        memory, memory_mask = model.encode(inputs)
        self.sites = model.decoder_sites(inputs, memory, memory_mask)
        decoder = model.decoder
        self.memory_bias = mask_bias(memory_mask[:, None, :])
        # Places before the first real token: extra keys, then extra tokens.
        self.num_tokens = self.sites.num_tokens
        self.offset = self.sites.num_keys + self.num_tokens
        # [1, heads, tokens + steps, offset + steps]
        self.bias = decoder.bias(self.num_tokens + max_length, self.sites.num_keys)
        self.batch, self.beams = ops.shape(memory)[0], beams
        self.cache = cache_for_target(
            rows=(self.batch, model.config.num_heads, beams),
            offset=self.offset,
            steps=max_length,
            d_kv=model.config.d_kv,
        )
        self.caches, self.fixed = self._start(memory)

    def _start(self, memory):
        """Runs the extra tokens; empty caches, and what stays fixed, per block."""
        x, bias = self.sites.tokens, None
        if x is not None:
            x = ops.cast(x, self.model.compute_dtype)
            bias = self.bias[:, :, : self.num_tokens, : self.offset]
        caches, fixed = [], []
        for block, sites in self._blocks():
            x, keys, values, kept = block.start(
                x, bias, memory, self.memory_bias, sites
            )
            dtype = self.model.compute_dtype
            caches.append(tuple(self.cache.start(c, dtype) for c in (keys, values)))
            fixed.append(kept)
        return caches, fixed

    def _blocks(self):
        return zip(self.model.decoder.blocks, self.sites.blocks, strict=True)

    def reorder(self, caches: Caches, origin: Tensor) -> Caches:
        """Returns the caches of beams that continue the beams origin [batch, beams]."""
        return [tuple(self.cache.reorder(c, origin) for c in cache) for cache in caches]

    def __call__(
        self, tokens: Tensor, index: Tensor, caches: Caches
    ) -> tuple[Tensor, Caches]:
        """Runs tokens [batch, beams] at step `index`: logits [batch, beams, vocab]."""
        model = self.model
        x = model.shared(tokens)
        place = self.offset + index
        bias = self.cache.bias(self.bias, self.num_tokens + index, place)
        new_caches = []
        for (block, sites), (keys, values), fixed in zip(
            self._blocks(), caches, self.fixed, strict=True
        ):
            x, keys, values = block.step(
                x,
                self.cache,
                place,
                keys,
                values,
                bias,
                self.memory_bias,
                fixed,
                sites,
            )
            new_caches.append((keys, values))
        x = model.decoder.rms_norm(x, scale=self.sites.norm_scale)
        return model.logits(x), new_caches


def sample(
    model: "T5", inputs: Batch, options: Options, seed: Tensor
) -> tuple[Tensor, Tensor]:
    """Decodes greedily, or samples when the temperature is above 0.

    Returns ids [batch, num_sequences, max_length], 0 after the end token, and the
    log probability of each row if the options ask for it (0 otherwise).
    """
    steps = Steps(model, inputs, options.max_length, options.num_sequences)
    rows = (steps.batch, steps.beams)

    def unfinished(index, tokens, done, ids, scores, caches):
        return ops.logical_not(ops.all(done))

    def body(index, tokens, done, ids, scores, caches):
        logits, caches = steps(tokens, index, caches)
        tokens = choose(without_end(logits, index, options), options, seed, index)
        if options.return_scores:  # a pass over the vocabulary that most calls spare
            scores = scores + ops.where(done, 0.0, token_log_probs(logits, tokens))
        tokens = ops.where(done, 0, tokens)
        ids = write_at(ids, index, tokens)
        done = ops.logical_or(done, tokens == END)
        return index + 1, tokens, done, ids, scores, caches

    state = (
        ops.convert_to_tensor(0, "int32"),
        ops.zeros(rows, "int32"),
        ops.zeros(rows, "bool"),
        ops.zeros((*rows, options.max_length), "int32"),
        ops.zeros(rows, "float32"),
        steps.caches,
    )
    state = steps.cache.loop(unfinished, body, state, options.max_length)
    return state[3], state[4]


def without_end(logits: Tensor, index: Tensor, options: Options) -> Tensor:
    """Lowers the end token of [batch, beams, vocab] while `min_length` is ahead."""
    if options.min_length <= 1:
        return logits
    is_end = ops.arange(logits.shape[-1]) == END
    too_early = ops.logical_and(is_end, index + 1 < options.min_length)
    return ops.where(too_early, ops.cast(FORBIDDEN, logits.dtype), logits)


def choose(logits: Tensor, options: Options, seed: Tensor, index: Tensor) -> Tensor:
    """Chooses each row's next token: logits [batch, beams, vocab] -> [batch, beams]."""
    if options.temperature == 0.0:
        return ops.argmax(logits, axis=-1)
    logits = keep_likely(logits / options.temperature, options.top_k, options.top_p)
    # The draw of a row depends on its place only, not on how many rows follow.
    seeds = ops.stack([seed, ops.cast(index, seed.dtype)])
    uniform = tf.random.stateless_uniform(
        ops.shape(logits), seeds, minval=1e-20, maxval=1.0, alg="philox"
    )
    gumbel = -ops.log(-ops.log(uniform))
    return ops.argmax(logits + gumbel, axis=-1)


def keep_likely(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Lowers to -inf all but the `top_k` likeliest, and all beyond mass `top_p`."""
    vocab_size = logits.shape[-1]
    if top_k and top_k < vocab_size:
        least = ops.top_k(logits, top_k, sorted=True)[0][..., -1:]
        logits = ops.where(logits < least, float("-inf"), logits)
    if top_p < 1.0:
        ordered = ops.flip(ops.sort(logits, axis=-1), axis=-1)
        probabilities = ops.softmax(ordered, axis=-1)
        before = ops.cumsum(probabilities, axis=-1) - probabilities
        # The token that crosses the mass is kept, so at least one always is.
        least = ops.min(ops.where(before < top_p, ordered, float("inf")), axis=-1)
        logits = ops.where(logits < least[..., None], float("-inf"), logits)
    return logits
