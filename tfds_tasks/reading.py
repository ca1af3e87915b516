"""Questions to a text: SQuAD, TriviaQA and ReCoRD as T5 writes them."""

import tensorflow as tf

from tfds_tasks.formats import indices, keyed, several


def padded(text):
    """Spaces around every mark of punctuation, and never two in a row.

    >>> padded(tf.constant("(opened in 1932)  cost $5.")).numpy()
    b' ( opened in 1932 ) cost $ 5 . '
    """
    return single_spaced(tf.strings.regex_replace(text, "([[:punct:]])", r" \1 "))


def single_spaced(text):
    return tf.strings.regex_replace(text, r"\s+", " ")


def squad(row, style):
    """The question and its context; the target is the first of all `answers`."""
    return _squad(row, lambda q, c: ["question:", q, "context:", c])


def squad_context_free(row, style):
    """The question alone, to be answered from memory."""
    words = "squad trivia question:" if style.prefix else "question:"
    return _squad(row, lambda question, context: [words, question])


@several
def squad_span(row, style):
    """As `squad`, but the target is the place of the answer, `start: 3 end: 5`.

    Places count words, a space or mark of punctuation being an empty one. A row whose
    answer is not found is left out; T5 does not look at the very end of the context.
    """
    example = squad(row, style)
    answer, context = _split(example["targets"]), _split(example["context"])
    length = tf.size(answer)
    starts = tf.range(tf.maximum(tf.size(context) - length, 0))
    windows = tf.gather(context, starts[:, None] + tf.range(length)[None])
    found = starts[tf.reduce_all(windows == answer[None], 1)][:1]  # [1], or [0]
    start, end = tf.as_string(found), tf.as_string(found + length - 1)
    example["targets"] = tf.strings.join(["start:", start, "end:", end], " ")
    return {
        key: value if key == "targets" else _repeated(value, tf.size(found))
        for key, value in example.items()
    }


@several
def trivia_qa(row, style):
    """One example for every text and every alias of the answer that stands in it."""
    contexts = padded(_contexts(row))  # [texts]
    aliases = padded(row["answer"]["normalized_aliases"])  # [aliases]
    question = padded(row["question"])
    low = tf.strings.lower(contexts)

    def stands_in(alias):
        # Aliases are read as patterns; normalized ones have no punctuation.
        pattern = tf.strings.join([".*", tf.strings.lower(alias), ".*"])
        return tf.strings.regex_full_match(low, pattern)

    found = tf.map_fn(stands_in, aliases, tf.bool)  # [aliases, texts]
    pairs = tf.where(tf.transpose(found))  # [examples, 2]: text, alias
    inputs = tf.strings.join(["question:", question, "context:", contexts], " ")
    return {
        "inputs": tf.gather(single_spaced(inputs), pairs[:, 0]),
        "targets": tf.gather(aliases, pairs[:, 1]),
    }


@several
def record(row, style):
    """One example per answer, each with all `answers`; `<unk>` where none is known."""
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


def _squad(row, inputs):
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


def _split(text):
    return tf.strings.split(tf.strings.regex_replace(text, r"\W", " "), " ")


def _repeated(value, count):
    """The same value `count` times, along a new first dimension."""
    return tf.repeat(value[None], count, axis=0)


def _contexts(row):
    """All texts of a row of TriviaQA: encyclopedia first, then the web."""
    texts = []
    if "entity_pages" in row:
        texts.append(row["entity_pages"]["wiki_context"])
    if "search_results" in row:
        texts.append(row["search_results"]["search_context"])
    return tf.concat(texts, 0)
