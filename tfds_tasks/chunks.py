"""MRQA: a question to a context that may be too long to be read at once.

A context is cut into chunks, each of which makes an input of at most 512 tokens with
its question, and shares 128 tokens with the next (Hyperdecoders, section 3.1.2). The
target is the answer that stands in the chunk, or nothing. Scoring takes the likeliest
answer over all chunks of a question: `scores.best_over_chunks`.

The vocabulary decides what a token is, so a row first becomes one example with its
whole context (`mrqa`), which `to_chunks` cuts where a vocabulary is known.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from tfds_tasks.formats import Row, Tensors
from tfds_tasks.style import Style

LENGTH = 512
OVERLAP = 128


def mrqa(row: Row, style: Style) -> Tensors:
    """Writes a row in T5's template for SQuAD, with what `to_chunks` needs beside it.

    `places/...` are the answers that stand in the context, once for every place: their
    text, first and last character.
    """
    prefix = tf.strings.join(["question:", row["question"], "context:"], " ")
    return {
        "inputs": tf.strings.join([prefix, row["context"]], " "),
        "targets": tf.concat([row["answers"], [""]], 0)[0],
        "id": row["qid"],
        "answers": row["answers"],
        "prefix": prefix,
        "context": row["context"],
        **_places(row.get("detected_answers")),
    }


def to_chunks(
    example: Tensors,
    tokenizer: tf_text.SentencepieceTokenizer,
    length: int = LENGTH,
    overlap: int = OVERLAP,
) -> Tensors:
    """Cuts an example of `mrqa` into several, along a new first dimension.

    Returns:
        inputs, targets, chunk: [chunks]; chunk counts from 0.
        id, answers and, if there, index: as they were, for each chunk.
    """
    answers = tuple(example[f"places/{key}"] for key in ("text", "start", "end"))
    inputs, targets = chunk(
        example["prefix"], example["context"], answers, tokenizer, length, overlap
    )
    count = tf.size(inputs)
    same = {key: example[key] for key in ("id", "answers", "index") if key in example}
    return {
        "inputs": inputs,
        "targets": targets,
        "chunk": tf.range(count),
        **{key: tf.repeat(value[None], count, axis=0) for key, value in same.items()},
    }


def chunk(
    prefix: tf.Tensor,
    context: tf.Tensor,
    answers: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
    tokenizer: tf_text.SentencepieceTokenizer,
    length: int = LENGTH,
    overlap: int = OVERLAP,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Cuts a context into chunks, and returns the inputs and targets that they make.

    A chunk is a slice of the context. One that starts inside a word is a piece or so
    longer when it is tokenized again; what is then trimmed stands in the next chunk.

    Args:
        prefix: question and template, before every chunk.
        context: text.
        answers: text, first and last character of each place of an answer: [places].
        tokenizer: tensorflow_text's SentencepieceTokenizer.
        length: most tokens of an input; question, template and end token count.
        overlap: tokens that two neighbouring chunks share.

    Returns:
        Inputs and targets, both [chunks]. The target is the first answer that stands
        in the chunk as a whole, "" if none does.
    """
    room = tf.maximum(length - tf.size(tokenizer.tokenize(prefix)) - 1, 1)
    _, starts, ends = tokenizer.tokenize_with_offsets(context)  # bytes, [tokens]
    first, last = _windows(tf.size(starts), room, overlap)  # [chunks]
    begin, end = tf.gather(_or_zero(starts), first), tf.gather(_or_zero(ends), last)
    slices = tf.strings.substr(
        tf.fill(tf.shape(begin), context),
        tf.cast(begin, tf.int32),
        tf.cast(end - begin, tf.int32),
    )
    inputs = tf.strings.join([prefix, tf.strings.strip(slices)], " ")
    texts, answer_begin, answer_end = answers
    answer_begin, answer_end = _bytes(context, answer_begin, answer_end)
    inside = (begin[:, None] <= answer_begin) & (answer_end <= end[:, None])
    # A last, empty answer stands in every chunk: the first that does is the target.
    inside = tf.pad(inside, [[0, 0], [0, 1]], constant_values=True)
    which = tf.argmax(tf.cast(inside, tf.int32), 1)
    return inputs, tf.gather(tf.concat([texts, [""]], 0), which)


def _windows(
    tokens: tf.Tensor, room: tf.Tensor, overlap: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """First and last token of each chunk of `room` tokens: [chunks], at least one."""
    step = tf.where(room > overlap, room - overlap, room)
    more = tf.maximum(tokens - room, 0)
    first = tf.range(1 + (more + step - 1) // step) * step
    return first, tf.maximum(tf.minimum(first + room, tokens) - 1, 0)


def _or_zero(offsets: tf.Tensor) -> tf.Tensor:
    """[0] for a context without tokens."""
    return tf.concat([offsets, tf.zeros([1], offsets.dtype)], 0)


def _bytes(
    text: tf.Tensor, first: tf.Tensor, last: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Characters, the last included, as byte offsets, the last excluded."""
    _, starts = tf.strings.unicode_decode_with_offsets(text, "UTF-8")
    starts = tf.concat([starts, [tf.strings.length(text, "BYTE")]], 0)
    most = tf.size(starts) - 1
    first = tf.clip_by_value(tf.cast(first, tf.int32), 0, most)
    last = tf.clip_by_value(tf.cast(last, tf.int32) + 1, 0, most)
    return tf.gather(starts, first), tf.gather(starts, last)


def _places(detected: Row | None) -> Tensors:
    """The places of all answers, one after the other: [places]."""
    if detected is None:  # the row can be written as text, not cut
        return {}
    spans = detected["char_spans"]
    start, end = _ragged(spans["start"]), _ragged(spans["end"])
    return {
        "places/text": tf.repeat(detected["text"], start.row_lengths()),
        "places/start": start.flat_values,
        "places/end": end.flat_values,
    }


def _ragged(value: tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor:
    """Places by answer: TFDS gives them ragged, a row of Python values may be dense."""
    if isinstance(value, tf.RaggedTensor):
        return value
    if value.shape.rank == 1:  # a row without answers
        value = tf.zeros([0, 0], tf.int32)
    return tf.RaggedTensor.from_tensor(value)
