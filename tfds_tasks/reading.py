"""Questions to a text: SQuAD, TriviaQA and ReCoRD as T5 writes them."""

from collections.abc import Callable

import tensorflow as tf

from tfds_tasks.formats import Row, Tensors, indices, keyed, several
from tfds_tasks.style import Style


def padded(text: tf.Tensor) -> tf.Tensor:
    """Puts spaces around every mark of punctuation, and never two in a row.

    >>> padded(tf.constant("(opened in 1932)  cost $5.")).numpy()
    b' ( opened in 1932 ) cost $ 5 . '
    """
    return single_spaced(tf.strings.regex_replace(text, "([[:punct:]])", r" \1 "))


def single_spaced(text: tf.Tensor) -> tf.Tensor:
    """Replaces every run of white space by one space."""
    return tf.strings.regex_replace(text, r"\s+", " ")


def squad(row: Row, style: Style) -> Tensors:
    """Asks a question to its context; the target is the first of all `answers`."""
    return _squad(row, lambda q, c: ["question:", q, "context:", c])


def squad_context_free(row: Row, style: Style) -> Tensors:
    """Asks the question alone, to be answered from memory."""
    words = "squad trivia question:" if style.prefix else "question:"
    return _squad(row, lambda question, context: [words, question])


@several
def squad_span(row: Row, style: Style) -> Tensors:
    """Asks where in the context the answer stands: `start: 3 end: 5`.

    Places count words, a space or mark of punctuation being an empty one. A row whose
    answer does not stand in the context is left out; T5 does not look at the very end
    of the context.
    """
    example = squad(row, style)
    answer, context = _split(example["targets"]), _split(example["context"])
    length = tf.size(answer)
    starts = tf.range(tf.maximum(tf.size(context) - length, 0))
    windows = tf.gather(context, starts[:, None] + tf.range(length)[None])
    place = starts[tf.reduce_all(windows == answer[None], 1)][:1]  # [1], or [0]
    start, end = tf.as_string(place), tf.as_string(place + length - 1)
    example["targets"] = tf.strings.join(["start:", start, "end:", end], " ")
    return {
        key: value if key == "targets" else _repeated(value, tf.size(place))
        for key, value in example.items()
    }


@several
def trivia_qa(row: Row, style: Style) -> Tensors:
    """Makes one example of every text and every alias of the answer that is in it."""
    inputs, aliases, stands = _trivia_qa(row)
    pairs = tf.where(stands)  # [examples, 2]: text, alias
    return {
        "inputs": tf.gather(inputs, pairs[:, 0]),
        "targets": tf.gather(aliases, pairs[:, 1]),
    }


@several
def trivia_qa_evaluation(row: Row, style: Style) -> Tensors:
    """Makes one example of every text in which an alias stands, with all `answers`.

    The target is the first alias that stands there. Training has the others too, which
    here would only ask the same again.
    """
    inputs, aliases, stands = _trivia_qa(row)
    answered = tf.reduce_any(stands, 1)  # [texts]
    first = tf.argmax(tf.cast(tf.boolean_mask(stands, answered), tf.int32), 1)
    inputs = tf.boolean_mask(inputs, answered)
    return {
        "inputs": inputs,
        "targets": tf.gather(aliases, first),
        "answers": _repeated(row["answer"]["normalized_aliases"], tf.size(inputs)),
    }


@several
def record(row: Row, style: Style) -> Tensors:
    """Makes one example of each answer, with all `answers`; of `<unk>` without any."""
    passage = tf.strings.regex_replace(
        row["passage"], "([.?!\"'])\n@highlight\n", r"\1 "
    )
    passage = tf.strings.regex_replace(passage, "\n@highlight\n", ". ")
    texts = {
        "query": row["query"],
        "entities": tf.strings.reduce_join(row["entities"], separator=", "),
        "passage": passage,
    }
    answers = row["answers"]
    count = tf.maximum(tf.size(answers), 1)
    example = {
        "inputs": keyed("record", texts, row, style),
        "answers": answers,
        **indices(row),
    }
    # A row of "<unk>" after the answers is cut off again where there are any.
    targets = tf.concat([answers, ["<unk>"]], 0)[:count]
    example = {key: _repeated(value, count) for key, value in example.items()}
    return {**example, "targets": targets}


def _squad(row: Row, inputs: Callable) -> Tensors:
    question, context = padded(row["question"]), padded(row["context"])
    answers = padded(row["answers"]["text"])
    return {
        "inputs": single_spaced(tf.strings.join(inputs(question, context), " ")),
        "targets": answers[0],
        "id": row["id"],
        "context": context,
        "question": question,
        "answers": answers,
    }


def _trivia_qa(row: Row) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Inputs [texts], aliases [aliases], and which stands where [texts, aliases]."""
    contexts = padded(_contexts(row))
    aliases = padded(row["answer"]["normalized_aliases"])
    question = padded(row["question"])
    low = tf.strings.lower(contexts)

    def stands_in(alias: tf.Tensor) -> tf.Tensor:
        # Aliases are read as patterns; normalized ones have no punctuation.
        pattern = tf.strings.join([".*", tf.strings.lower(alias), ".*"])
        return tf.strings.regex_full_match(low, pattern)

    stands = tf.transpose(tf.map_fn(stands_in, aliases, tf.bool))
    inputs = tf.strings.join(["question:", question, "context:", contexts], " ")
    return single_spaced(inputs), aliases, stands


def _split(text: tf.Tensor) -> tf.Tensor:
    return tf.strings.split(tf.strings.regex_replace(text, r"\W", " "), " ")


def _repeated(value: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """The same value `count` times, along a new first dimension."""
    return tf.repeat(value[None], count, axis=0)


def _contexts(row: Row) -> tf.Tensor:
    """All texts of a row of TriviaQA: encyclopedia first, then the web."""
    texts = []
    if "entity_pages" in row:
        texts.append(row["entity_pages"]["wiki_context"])
    if "search_results" in row:
        texts.append(row["search_results"]["search_context"])
    return tf.concat(texts, 0)
