"""Beam search as T5's own code does it, or as Hugging Face does.

Both grow `beam_size` live beams to twice as many candidates a step. They differ:

| | `"t5"` | `"huggingface"` |
|---|---|---|
| score | log p / ((5 + n) / 6)^penalty | log p / n^penalty |
| candidates | the 2 likeliest of each beam | the likeliest of all beams |
| finished | any candidate with the end token | only those among the best half |
| at the last step | live beams count only if none has finished | all count |
| a row is done when | no live beam can beat its finished ones | and all are filled |

Mesh TensorFlow looks at 2 continuations of each beam only, to spare TPUs a sort of
the vocabulary; T5's published outputs were made so. `"t5-full"` is `"t5"` without
that shortcut. Hugging Face judges what a live beam can still reach by its present
length; `"huggingface-never"` by the longest, as its `early_stopping="never"`.
"""

import dataclasses
from typing import TYPE_CHECKING

import tensorflow as tf
from keras import ops

from hypertf.t5.cache import write_at
from hypertf.t5.decoding import END, Options, Steps, without_end
from hypertf.types import Batch, Tensor

if TYPE_CHECKING:
    from hypertf.t5.model import T5

WORST = -1e7

Beams = tuple[Tensor, Tensor]  # ids [batch, beams, length], values [batch, beams]
Candidates = tuple[Tensor, Tensor, Tensor]  # ids, log probabilities, new tokens


@dataclasses.dataclass(frozen=True)
class Rules:
    """What the styles disagree upon; lengths count the end token."""

    style: str
    penalty: float
    beam_size: int
    max_length: int

    @property
    def t5(self) -> bool:
        """Whether the style is one of T5's own."""
        return self.style.startswith("t5")

    @property
    def candidates_per_beam(self) -> int:
        """How many continuations of each beam are looked at."""
        return 2 if self.style == "t5" else 2 * self.beam_size

    def normalise(self, log_probs: Tensor, length: int | Tensor) -> Tensor:
        """Divides log probabilities by the penalty for their length."""
        length = ops.cast(length, "float32")
        base = (5.0 + length) / 6.0 if self.t5 else length
        return log_probs / ops.power(base, self.penalty)

    def finishing(self, tokens: Tensor, length: int | Tensor) -> Tensor:
        """Marks the candidates [batch, 2 * beams], best first, that are finished."""
        ends = tokens == END
        if self.t5:
            return ends
        at_limit = ops.equal(length, self.max_length)
        best_half = ops.arange(2 * self.beam_size) < self.beam_size
        return ops.logical_and(ops.logical_or(ends, at_limit), best_half)

    def done(
        self, live_log_probs: Tensor, finished_scores: Tensor, length: int | Tensor
    ) -> Tensor:
        """Marks the rows [batch] whose finished beams no live one can still beat."""
        reach = length if self.style == "huggingface" else self.max_length
        best = self.normalise(live_log_probs[:, 0], reach)
        filled = finished_scores > WORST / 2
        if self.t5:
            worst = ops.min(ops.where(filled, finished_scores, 0.0), axis=1)
            return ops.logical_and(ops.any(filled, axis=1), worst > best)
        worst = ops.min(finished_scores, axis=1)
        return ops.logical_and(ops.all(filled, axis=1), worst >= best)


def search(model: "T5", inputs: Batch, options: Options) -> Beams:
    """Returns ids [batch, beam_size, max_length], best first, and their scores."""
    beams, length = options.beam_size, options.max_length
    rules = Rules(options.beam_style, options.length_penalty, beams, length)
    steps = Steps(model, inputs, length, beams)

    def unfinished(index, done, *_):
        return ops.logical_not(ops.all(done))

    def body(index, done, tokens, live, finished, caches):
        logits, caches = steps(tokens, index, caches)
        log_probs = without_end(ops.log_softmax(logits, axis=-1), index, options)
        candidates, origin = grow(log_probs, live, index, rules)
        new_finished = keep_finished(finished, candidates, index, rules)
        # A row that is done stays as it is, whatever its batch mates still do.
        finished = tuple(
            tf.where(tf.reshape(done, [-1] + [1] * (new.shape.rank - 1)), old, new)
            for old, new in zip(finished, new_finished, strict=True)
        )
        live, origin = keep_live(candidates, origin, beams)
        caches = steps.reorder(caches, origin)
        tokens = ops.take(live[0], index, axis=2)
        done = ops.logical_or(done, rules.done(live[1], finished[1], index + 1))
        return index + 1, done, tokens, live, finished, caches

    state = start(steps, length)
    state = steps.cache.loop(unfinished, body, state, length)
    return results(live=state[3], finished=state[4], rules=rules)


def start(steps: Steps, length: int) -> tuple:
    """Makes the state of the loop before its first step."""
    rows = (steps.batch, steps.beams)
    ids = ops.zeros((*rows, length), "int32")
    # All beams begin alike: only the first may grow at the first step.
    first = ops.where(ops.arange(steps.beams) == 0, 0.0, WORST)
    live = (ids, ops.broadcast_to(first, rows))
    finished = (ids, ops.full(rows, WORST))
    index = ops.convert_to_tensor(0, "int32")
    done = ops.zeros((steps.batch,), "bool")
    return index, done, ops.zeros(rows, "int32"), live, finished, steps.caches


def grow(
    next_log_probs: Tensor, live: Beams, index: Tensor, rules: Rules
) -> tuple[Candidates, Tensor]:
    """Takes the 2 * beams likeliest continuations, and the beams they come from.

    The first are (ids, log probabilities, new tokens), the second [batch, 2 * beams].
    """
    ids, log_probs = live
    log_probs = next_log_probs + log_probs[:, :, None]
    per_beam = min(rules.candidates_per_beam, log_probs.shape[-1])
    log_probs, tokens = ops.top_k(log_probs, per_beam, sorted=True)
    flat = (-1, rules.beam_size * per_beam)
    log_probs, best = ops.top_k(
        ops.reshape(log_probs, flat), 2 * rules.beam_size, sorted=True
    )
    origin = best // per_beam  # [batch, 2 * beams]
    tokens = tf.gather(ops.reshape(tokens, flat), best, batch_dims=1)
    ids = tf.gather(ids, origin, batch_dims=1)
    ids = write_at(ids, index, tokens)
    return (ids, log_probs, tokens), origin


def keep_finished(
    finished: Beams,
    candidates: Candidates,
    index: Tensor,
    rules: Rules,
) -> Beams:
    """Keeps the best `beams` of those finished before and those finishing now."""
    ids, log_probs, tokens = candidates
    scores = rules.normalise(log_probs, index + 1)
    scores = ops.where(rules.finishing(tokens, index + 1), scores, WORST)
    all_ids = ops.concatenate([finished[0], ids], axis=1)
    all_scores = ops.concatenate([finished[1], scores], axis=1)
    scores, best = ops.top_k(all_scores, rules.beam_size, sorted=True)
    return tf.gather(all_ids, best, batch_dims=1), scores


def keep_live(
    candidates: Candidates, origin: Tensor, beams: int
) -> tuple[Beams, Tensor]:
    """Keeps the best `beams` that have not ended, with the beams they came from."""
    ids, log_probs, tokens = candidates
    open_log_probs = ops.where(tokens == END, WORST, log_probs)
    log_probs, best = ops.top_k(open_log_probs, beams, sorted=True)
    ids = tf.gather(ids, best, batch_dims=1)
    return (ids, log_probs), tf.gather(origin, best, batch_dims=1)


def results(live: Beams, finished: Beams, rules: Rules) -> Beams:
    """Returns the finished beams; of rows in which none has finished, the live ones."""
    none = ops.all(finished[1] <= WORST / 2, axis=1)
    live_scores = rules.normalise(live[1], rules.max_length)
    ids = ops.where(none[:, None, None], live[0], finished[0])
    scores = ops.where(none[:, None], live_scores, finished[1])
    return ids, scores
