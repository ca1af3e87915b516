"""Whom a pronoun means, as T5 asks it: the pronoun is marked, the referent written.

    wsc: Bob asked Tom if *he* can lend some money.   ->   Tom

Three data sets become this one task: WSC, definite pronoun resolution and WNLI.
"""

import tensorflow as tf

from tfds_tasks.formats import Row, Tensors, indices, several
from tfds_tasks.style import Style

PREFIX = "wsc:"
PRONOUNS = ("he", "she", "they", "it", "her", "his", "their", "them", "him")
ARTICLES = ("a", "an", "the")
PUNCTUATION = "[.,?!]"

# Two sentences of WSC whose index points beside the pronoun: what stands around it.
BESIDE = {
    "The boy continued to whip the pony , and eventually the pony threw him over. "
    'John laughed out quite loud. "Good for him," he said. ': (
        "The boy continued to whip the pony , and eventually the pony threw him over. "
        'John laughed out quite loud. "Good for',
        '," he said.',
    ),
    "When they had eventually calmed down a bit , and had gotten home, Mr. Farley put "
    "the magic pebble in an iron safe . Some day they might want to use it , but "
    "really for now, what more could they wish for?": (
        "When they had eventually calmed down a bit , and had gotten home, Mr. Farley "
        "put the magic pebble in an iron safe . Some day they might want to use",
        ", but really for now, what more could they wish for?",
    ),
}


def wsc(row: Row, style: Style) -> Tensors:
    """Asks for the referent that a row proposes; `label` tells whether it is right."""
    return {
        "inputs": _inputs(_wsc_sentence(row), style),
        "targets": row["span1_text"],
        "label": row["label"],
        **indices(row),
    }


@several
def wsc_true(row: Row, style: Style) -> Tensors:
    """Keeps, to train on, only rows whose referent is the right one."""
    kept = tf.reshape(tf.equal(row["label"], 1), [1])
    example = wsc(row, style)
    return {key: tf.boolean_mask(value[None], kept) for key, value in example.items()}


def dpr(row: Row, style: Style) -> Tensors:
    """Asks whom the pronoun means in the first place where it is a word of its own."""
    sentence = tf.strings.regex_replace(
        row["sentence"],
        tf.strings.join([" (", row["pronoun"], r")( |\.|,)"]),
        r" *\1*\2",
        replace_global=False,
    )
    return {
        "inputs": _inputs(sentence, style),
        "targets": tf.gather(row["candidates"], row["label"]),
    }


def wnli(row: Row, style: Style) -> Tensors:
    """Asks for the referent that the second sentence puts in the pronoun's place.

    The pronoun is the one whose neighbours agree best with the second sentence; the
    referent is what stands between these neighbours there.
    """
    premise, hypothesis = row["sentence1"], row["sentence2"]
    words, others = _words(premise), _words(hypothesis)
    place, before, after = _best_pronoun(words, others)
    referent = _after_last_article(_between(words, place, before, after, others))
    return {
        "inputs": _inputs(_marked(premise, place), style),
        "targets": _as_written(referent, hypothesis),
        "premise": premise,
        "hypothesis": hypothesis,
        "label": row["label"],
        **indices(row),
    }


def _inputs(sentence: tf.Tensor, style: Style) -> tf.Tensor:
    return tf.strings.join([PREFIX, sentence], " ") if style.prefix else sentence


def _wsc_sentence(row: Row) -> tf.Tensor:
    """The text with its pronoun marked; words are counted by single spaces."""
    words = tf.strings.split(row["text"], " ")
    index = tf.cast(row["span2_index"], tf.int32)
    pronoun = tf.strings.join(["*", row["span2_text"], "*"])
    sentence = _join(tf.concat([words[:index], [pronoun], words[index + 1 :]], 0))
    for text, (before, after) in BESIDE.items():
        marked = tf.strings.join([before, pronoun, after], " ")
        sentence = tf.where(tf.equal(row["text"], text), marked, sentence)
    return sentence


def _join(words: tf.Tensor) -> tf.Tensor:
    return tf.strings.reduce_join(words, separator=" ")


def _words(sentence: tf.Tensor) -> tf.Tensor:
    """Words in lower case, without the mark that ends them: [words]."""
    words = tf.strings.split(tf.strings.lower(tf.strings.strip(sentence)), " ")
    words = tf.strings.regex_replace(words, f"{PUNCTUATION}$", "")
    return tf.boolean_mask(words, tf.strings.length(words) > 0)


def _best_pronoun(
    words: tf.Tensor, others: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The place of the pronoun, and how many words before and after it agree."""
    is_pronoun = tf.reduce_any(words[:, None] == tf.constant(PRONOUNS)[None], 1)
    places = tf.cast(tf.where(is_pronoun)[:, 0], tf.int32)
    with tf.control_dependencies(
        [tf.debugging.assert_positive(tf.size(places), "WNLI: no pronoun in sentence1")]
    ):
        places = tf.identity(places)

    def agreement(place: tf.Tensor) -> tf.Tensor:
        before = _agreeing(words[:place][::-1], others[::-1])
        after = _agreeing(words[place + 1 :], others)
        return tf.stack([place, before, after])

    agreeing = tf.map_fn(agreement, places)  # [pronouns, 3]
    best = tf.argmax(agreeing[:, 1] + agreeing[:, 2])  # the first of equals
    return agreeing[best, 0], agreeing[best, 1], agreeing[best, 2]


def _agreeing(words: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """How many words, from the first on, stand together in the other sentence."""
    ends = tf.cumsum(tf.strings.length(words) + 1) - 1
    sentence = tf.fill(tf.shape(ends), _join(words))
    starts = tf.strings.substr(sentence, tf.zeros_like(ends), ends)  # [words]
    inside = tf.map_fn(lambda start: _contains(_join(others), start), starts, tf.bool)
    return tf.reduce_sum(tf.math.cumprod(tf.cast(inside, tf.int32)))


def _contains(text: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    return tf.strings.regex_full_match(
        text, tf.strings.join(["(?s).*", _escaped(part), ".*"])
    )


def _escaped(text: tf.Tensor) -> tf.Tensor:
    """Text as a pattern that matches just it."""
    return tf.strings.regex_replace(text, r"([\\.+*?()|\[\]{}^$])", r"\\\1")


def _between(
    words: tf.Tensor,
    place: tf.Tensor,
    before: tf.Tensor,
    after: tf.Tensor,
    others: tf.Tensor,
) -> tf.Tensor:
    """What the other sentence has in the pronoun's place, "" if nothing agrees."""
    left = words[place - before : place]
    right = words[place + 1 : place + 1 + after]
    sentence = _join(others)
    referent = tf.constant("")
    for parts in (
        [left, ["(.+)"], right],
        [["^(.+)"], right],  # the referent starts the sentence
        [left, ["(.+)$"]],  # or ends it
    ):
        more = _search(sentence, _join(tf.concat(parts, 0)))
        referent = tf.where(tf.equal(referent, ""), more, referent)
    return tf.where(before + after > 0, referent, "")


def _search(text: tf.Tensor, pattern: tf.Tensor) -> tf.Tensor:
    """Group 1 of the leftmost match, "" if there is none."""
    whole = tf.strings.join(["^.*?(?:", pattern, ").*$"])
    group = tf.strings.regex_replace(text, whole, r"\1")
    return tf.where(tf.strings.regex_full_match(text, whole), group, "")


def _after_last_article(referent: tf.Tensor) -> tf.Tensor:
    """Drops what comes before the last article; each counts where it first stands."""
    words = tf.strings.split(referent, " ")
    is_article = words[None] == tf.constant(ARTICLES)[:, None]  # [articles, words]
    first = tf.argmax(tf.cast(is_article, tf.int32), 1)  # 0 where there is none
    return _join(words[tf.reduce_max(first) :])


def _as_written(referent: tf.Tensor, sentence: tf.Tensor) -> tf.Tensor:
    """The referent as the sentence writes it, without end mark or possessive s."""
    words = tf.strings.split(_escaped(referent), " ")
    pattern = _join(tf.strings.join([words, f"{PUNCTUATION}?"]))
    written = _search(sentence, tf.strings.join(["(?i:(", pattern, "))"]))
    written = tf.strings.regex_replace(written, f"{PUNCTUATION}$", "")
    return tf.strings.regex_replace(written, "'s?$", "")


def _marked(sentence: tf.Tensor, place: tf.Tensor) -> tf.Tensor:
    """Stars around the word at a place; a mark that ends it stands apart."""
    words = tf.strings.split(sentence, " ")
    word = tf.strings.regex_replace(
        words[place], f"^(.*?)({PUNCTUATION}?)$", r"*\1* \2"
    )
    word = tf.strings.regex_replace(word, r"\* $", "*")
    return _join(tf.concat([words[:place], [word], words[place + 1 :]], 0))
