"""Rows become the text that T5 and the papers' public code make of them."""

import functools
import json
from collections import defaultdict

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tests.conftest import shared_path
from tfds_tasks.registry import get_task

GOLDEN = shared_path("goldens/t5_text")
LINES = (GOLDEN / "text.jsonl").read_text().splitlines()
CLASSES = json.loads((GOLDEN / "label_classes.json").read_text())
ROUNDING = json.loads((GOLDEN / "stsb_rounding.json").read_text())


def _cases():
    """{(task, split): golden lines}."""
    cases = defaultdict(list)
    for line in map(json.loads, LINES):
        cases[line["task"], line["split"]].append(line)
    return dict(cases)


CASES = _cases()


@functools.cache
def specification(name):
    """The types that TFDS gives the rows of a builder; None where none is named."""
    if name is None:
        return None
    return tfds.builder(name, data_dir="/nowhere").info.features.get_tensor_spec()


def of_row(row, spec):
    """The part of a specification that a row has; text where there is none."""
    if isinstance(row, dict):
        return {k: of_row(v, None if spec is None else spec[k]) for k, v in row.items()}
    return tf.TensorSpec([], tf.string) if spec is None else spec


def typed(value, spec):
    if isinstance(value, dict):
        return {key: typed(v, spec[key]) for key, v in value.items()}
    return tf.constant(value, spec.dtype, shape=[0] if value == [] else None)


def in_graph(task, split, rows, name):
    """What tf.data makes of rows whose lengths it does not know, as those of TFDS."""
    spec = of_row(rows[0], specification(name))
    typed_rows = [(i, typed(row, spec)) for i, row in enumerate(rows)]
    signature = (tf.TensorSpec([], tf.int64), spec)
    data = tf.data.Dataset.from_generator(
        lambda: iter(typed_rows), output_signature=signature
    )
    return list(task.format_rows(data, split).as_numpy_iterator())


def plain(value):
    """numpy values as Python values."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value.decode() if isinstance(value, bytes) else value


def text(name, row, split="train", **style):
    """The one example of a row, as (inputs, targets)."""
    (example,) = get_task(name, **style).to_text(row, split)
    return example["inputs"], example["targets"]


@pytest.mark.parametrize(("name", "split"), CASES)
def test_every_key_of_every_golden_row_is_the_same(name, split):
    for line in CASES[name, split]:
        assert get_task(name).to_text(line["input_row"], split) == line["outputs"]


@pytest.mark.parametrize(("name", "split"), CASES)
def test_tf_data_makes_the_same_of_golden_rows(name, split):
    lines = CASES[name, split]
    rows = [line["input_row"] for line in lines]
    got = in_graph(get_task(name), split, rows, lines[0]["tfds"])
    expected = [
        {**example, "index": i}
        for i, line in enumerate(lines)
        for example in line["outputs"]
    ]
    assert [{k: plain(v) for k, v in e.items()} for e in got] == expected


def test_similarity_rounds_every_label_as_t5_does():
    task = get_task("glue/stsb")
    rows = tf.data.Dataset.from_tensor_slices(
        {"label": tf.constant(ROUNDING["label_float32"], tf.float32)}
    ).map(lambda row: {**row, "sentence1": "a", "sentence2": "b", "idx": 0})
    got = [plain(e["targets"]) for e in task.format_rows(rows.enumerate(), "train")]
    assert got == ROUNDING["targets"]


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_those_of_tfds(name):
    expected = None if CLASSES[name] is None else tuple(CLASSES[name])
    assert get_task(name).classes == expected


@pytest.mark.parametrize(("name", "split"), CASES)
def test_digits_without_prefix_drop_the_name_and_the_words(name, split):
    task = get_task(name, labels="digits", prefix=False)
    for line in CASES[name, split]:
        for got, golden in zip(
            task.to_text(line["input_row"], split), line["outputs"], strict=True
        ):
            assert golden["inputs"].endswith(got["inputs"])
            dropped = golden["inputs"].removesuffix(got["inputs"])
            assert dropped.strip() in PREFIXES
            words = CLASSES.get(task.name)
            if words and golden["targets"] in words:
                assert got["targets"] == str(words.index(golden["targets"]))
            else:
                assert got["targets"] == golden["targets"]


PREFIXES = {
    *"cola sst2 mrpc qqp stsb mnli qnli rte wnli".split(),  # noqa: SIM905
    *"boolq cb copa multirc record wic".split(),  # noqa: SIM905
    "",  # SQuAD and TriviaQA start with "question:"
    "summarize:",
    "squad trivia",
    "translate English to French:",
    "translate English to German:",
    "translate English to Romanian:",
    "wsc:",
}


def test_both_sentences_of_wsc_whose_index_is_wrong_are_marked():
    """T5 marks "him" here, though word 22 of the public row is 'him,"'."""
    row = {
        "text": "The boy continued to whip the pony , and eventually the pony threw "
        'him over. John laughed out quite loud. "Good for him," he said. ',
        "span1_index": 6,
        "span1_text": "pony",
        "span2_index": 22,
        "span2_text": "him",
        "label": 1,
        "idx": 137,
    }
    assert text("super_glue/wsc", row) == (
        "wsc: The boy continued to whip the pony , and eventually the pony threw him "
        'over. John laughed out quite loud. "Good for *him* ," he said.',
        "pony",
    )


WNLI = {
    # The referent starts the second sentence.
    ("The fish ate the worm. It was tasty.", "The worm was tasty."): (
        "wsc: The fish ate the worm. *It* was tasty.",
        "The worm",
    ),
    # It ends it, and so does the pronoun: its mark stands apart.
    ("Sam called Tom, and Ann saw him.", "Ann saw Tom."): (
        "wsc: Sam called Tom, and Ann saw *him* .",
        "Tom",
    ),
    # Of two pronouns, the one whose neighbours agree; no possessive is written.
    ("He said the vase fell off its shelf near his cup.", "near the man's cup"): (
        "wsc: He said the vase fell off its shelf near *his* cup.",
        "the man",
    ),
}


@pytest.mark.parametrize("sentences", WNLI)
def test_wnli_finds_the_pronoun_and_its_referent(sentences):
    row = dict(zip(("sentence1", "sentence2"), sentences, strict=True))
    row = {**row, "label": 1, "idx": 0}
    assert text("glue/wnli_simple", row, "validation") == WNLI[sentences]


def test_a_span_counts_empty_words_and_the_end_of_the_context_is_not_searched():
    """As T5's loop does, which stops one place before the last."""
    row = {
        "id": "x",
        "title": "t",
        "question": "Where?",
        "context": "It is in Rome, near Rome",
        "answers": {"text": ["near Rome"], "answer_start": [15]},
    }
    task = get_task("squad/span")
    assert task.to_text(row) == []
    row["answers"]["text"] = ["Rome"]
    assert task.to_text(row)[0]["targets"] == "start: 3 end: 3"


TRIVIA = {
    "question": "Who?",
    "answer": {"normalized_aliases": ["ann lee", "lee"]},
    "entity_pages": {"wiki_context": ["Nobody.", "Ann Lee sang"]},
    "search_results": {"search_context": ["by LEE"]},
}


def test_trivia_qa_pairs_every_text_with_every_alias_in_it():
    got = get_task("trivia_qa").to_text(TRIVIA)
    pairs = [(e["inputs"].removeprefix("question: Who ? "), e["targets"]) for e in got]
    assert pairs == [
        ("context: Ann Lee sang", "ann lee"),
        ("context: Ann Lee sang", "lee"),
        ("context: by LEE", "lee"),
    ]


def test_trivia_qa_is_scored_once_for_each_text_by_all_aliases():
    task = get_task("trivia_qa")
    examples = task.to_text(TRIVIA, "validation")
    assert [(e["inputs"], e["targets"]) for e in examples] == [
        ("question: Who ? context: Ann Lee sang", "ann lee"),
        ("question: Who ? context: by LEE", "lee"),
    ]
    # "the Lee" is an alias; of "Bob Lee", 1 of 2 words is in each alias's best match.
    assert task.score(examples, ["Ann-Lee!", "the Lee"]) == {"em": 100.0, "f1": 100.0}
    wrong = task.score(examples, ["Bob Lee", "Rome"])
    assert wrong == {"em": 0.0, "f1": pytest.approx(100 / 3)}
    rows = [{**TRIVIA, "answer": {"normalized_aliases": ["rome"]}}, TRIVIA]
    assert len(in_graph(task, "validation", rows, "trivia_qa/rc")) == 2


PAIR = {"sentence1": "He ran.", "sentence2": "He moved.", "label": 1}

# Task: row, text with words, and the digit. Transfer sets as in the public code of
# HyperFormer, the others as in that of Hyperdecoders.
INVENTED = {
    "scitail": (
        {"premise": "Ice melts.", "hypothesis": "Ice is cold.", "label": 1},
        ("scitail sentence1: Ice melts. sentence2: Ice is cold.", "neutral"),
        "1",
    ),
    "trec": (
        {"text": "Who sang ?", "label-coarse": 3, "label-fine": 3},
        ("trec sentence: Who sang ?", "HUM"),
        "3",
    ),
    "imdb": (
        {"text": "A fine film.", "label": 1},
        ("imdb A fine film.", "positive"),
        "1",
    ),
    "yelp_polarity": (
        {"text": "Cold soup.", "label": 0},
        ("yelp_polarity sentence: Cold soup.", "negative"),
        "0",
    ),
    "paws": (
        PAIR,
        ("paws sentence1: He ran. sentence2: He moved.", "paraphrase"),
        "1",
    ),
    "anli": (
        {"context": "It rained.", "hypothesis": "It was dry.", "label": 2, "uid": "u"},
        ("anli premise: It rained. hypothesis: It was dry.", "contradiction"),
        "2",
    ),
    "art": (
        {
            "observation_1": "Ann left.",
            "observation_2": "She came back wet.",
            "hypothesis_1": "It rained.",
            "hypothesis_2": "It was dry.",
            "label": 1,
        },
        (
            "art observation 1: Ann left. observation 2: She came back wet. "
            "hypothesis 1: It rained. hypothesis 2: It was dry.",
            "1",
        ),
        "1",
    ),
}


@pytest.mark.parametrize("name", INVENTED)
def test_tasks_of_the_other_papers_read_as_in_their_public_code(name):
    row, (inputs, word), digit = INVENTED[name]
    assert text(name, row) == (inputs, word)
    assert text(name, row, labels="digits") == (inputs, digit)
    bare = inputs.removeprefix(f"{name} ")
    assert text(name, row, labels="digits", prefix=False) == (bare, digit)


@pytest.mark.parametrize(
    ("name", "article", "summary"),
    [("xsum", "document", "summary"), ("wiki_lingua", "source", "target")],
)
def test_summaries_have_one_template(name, article, summary):
    row = {article: "It rained. It stopped.", summary: "Rain."}
    assert text(name, row) == ("summarize: It rained. It stopped.", "Rain.")
    assert text(name, row, prefix=False) == ("It rained. It stopped.", "Rain.")
