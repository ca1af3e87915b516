"""Long contexts are cut as Hyperdecoders cuts them (its section 3.1.2)."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from experiments.runs import components
from experiments.runs.chunks import by_chunks
from experiments.runs.config import Config
from tests.conftest import shared_path
from tfds_tasks import Task, get_mixture, get_task, get_vocabulary
from tfds_tasks.chunks import chunk, to_chunks

VOCABULARY = get_vocabulary(str(shared_path("data/vocab/spiece.model")))
QUESTION = "Which internationalization came first?"
PREFIX = f"question: {QUESTION} context:"
# Words of one and of several pieces, marks, and letters of one to four bytes.
CONTEXT = " ".join(
    f"In {1000 + i} the “chârte” of unfathomably-{i} was read— 東京 🙂 it's so."
    for i in range(40)
)
KEYS = {"inputs", "targets", "id", "answers", "chunk", "index"}
NOTHING = (tf.zeros([0], tf.string), tf.zeros([0], tf.int32), tf.zeros([0], tf.int32))


def pieces(text):
    return VOCABULARY.tokenizer.tokenize(text).numpy().tolist()


def decoded(ids):
    return VOCABULARY.tokenizer.detokenize(ids).numpy().decode()


def places(*texts):
    """Text, first and last character of every place where a text stands."""
    where = []
    for text in texts:
        start = CONTEXT.find(text)
        while start >= 0:
            where.append((text, start, start + len(text) - 1))
            start = CONTEXT.find(text, start + 1)
    return where


def cut(context=CONTEXT, where=(), length=64, overlap=16, prefix=PREFIX):
    answers = NOTHING
    if where:
        answers = [tf.constant(column) for column in zip(*where, strict=True)]
    texts = chunk(prefix, context, answers, VOCABULARY.tokenizer, length, overlap)
    return [[t.decode() for t in column.numpy()] for column in texts]


def naive_windows(tokens, room, overlap):
    """The loop of the public code: a full chunk, then back by the overlap."""
    windows, start = [], 0
    while True:
        windows.append(tokens[start : start + room])
        if start + room >= len(tokens):
            return windows
        start += room - overlap


def bodies(inputs, prefix=PREFIX):
    assert all(text.startswith(prefix + " ") for text in inputs)
    return [text[len(prefix) + 1 :] for text in inputs]


@pytest.mark.parametrize(("length", "overlap"), [(64, 16), (512, 128), (100, 0)])
def test_chunks_are_the_windows_of_the_public_code(length, overlap):
    room = length - len(pieces(PREFIX)) - 1
    windows = naive_windows(pieces(CONTEXT), room, overlap)
    got = bodies(cut(length=length, overlap=overlap)[0])
    assert len(got) == len(windows) > 1
    for body, window in zip(got, windows, strict=True):
        while window[-1:] == pieces("東")[:1]:  # the piece of a space, before any word
            window = window[:-1]
        # The same text; and the same pieces, but where it starts inside a word.
        assert decoded(pieces(body)) == decoded(window)
        half = len(window) // 2
        assert pieces(body)[-half:] == window[-half:]


def spans(inputs):
    """First character and end of each chunk in the context."""
    end, where = 0, []
    for body in bodies(inputs):
        start = CONTEXT.find(body, max(0, end - len(body)))
        end = start + len(body)
        where.append((start, end))
    return where


def test_chunks_are_slices_that_cover_the_context():
    where = spans(cut()[0])
    assert (where[0][0], where[-1][1]) == (0, len(CONTEXT))
    for (_, end), (start, _) in itertools.pairwise(where):
        assert 0 <= start <= end


def test_inputs_fit_but_for_a_word_cut_at_the_start():
    lengths = [len(pieces(text)) + 1 for text in cut()[0]]
    assert max(lengths[:-1]) <= 64 + 1
    assert sum(n <= 64 for n in lengths) > len(lengths) / 2
    assert min(lengths[:-1]) >= 64 - 1  # and no room is left


@pytest.mark.parametrize("more", [0, 1])
def test_a_context_that_just_fits_is_one_chunk(more):
    words = "the " * (64 - len(pieces(PREFIX)) - 1 + more)
    assert len(cut(words)[0]) == 1 + more


def test_targets_are_the_answers_that_stand_whole_in_the_chunk():
    where = places("1007", "1020 the “chârte”", "東京 🙂")[:5]
    inputs, targets = cut(where=where)
    expected = [
        next((t for t, a, b in where if start <= a and b < end), "")
        for start, end in spans(inputs)
    ]
    assert targets == expected
    assert {"", "1007", "1020 the “chârte”", "東京 🙂"} == set(targets)


def test_a_chunk_reaches_from_its_first_to_its_last_character():
    """Each character is an answer, named by its place: the first that fits is taken."""
    letters = [(str(i), i, i) for i, c in enumerate(CONTEXT) if not c.isspace()]
    inputs, first = cut(where=letters)
    _, last = cut(where=letters[::-1])
    assert [(int(a), int(b) + 1) for a, b in zip(first, last, strict=True)] == [
        (start, end) for start, end in spans(inputs)
    ]


def test_an_answer_elsewhere_in_the_context_does_not_count():
    """Places count, not letters: the same words may stand there by chance."""
    text, start, end = places("the “chârte”")[-1]
    targets = cut(where=[(text, start, end)])[1]
    assert set(targets[:-2]) == {""}
    assert targets[-1] == text


def test_odd_rows_make_chunks_too():
    assert cut("") == [[PREFIX + " "], [""]]
    long = "question: " + "why " * 70 + "context:"
    inputs, _ = cut("so it was", prefix=long)  # no room for the context
    assert [body for body in bodies(inputs, long)] == ["so", "it", "was"]
    barely = "question: " + "why " * 45 + "context:"  # less room than the overlap
    assert len(cut("the " * 60, prefix=barely)[0]) < 8


ROW = {
    "subset": "SQuAD",
    "qid": "q1",
    "question": QUESTION,
    "context": CONTEXT,
    "answers": ["1007", "chârte"],
    "detected_answers": {
        "text": ["1007", "chârte"],
        "char_spans": {
            "start": [[p[1]] for p in (places("1007") + places("chârte"))[:2]]
        },
    },
}
ROW["detected_answers"]["char_spans"]["end"] = [
    [start + len(text) - 1]
    for text, (start,) in zip(
        ROW["answers"], ROW["detected_answers"]["char_spans"]["start"], strict=True
    )
]


def test_without_a_vocabulary_a_row_is_one_example_of_t5s_template_for_squad():
    (example,) = get_task("mrqa/hotpot_qa").to_text(ROW)
    assert example["inputs"] == f"question: {QUESTION} context: {CONTEXT}"
    assert example["targets"] == "1007"
    assert example["id"] == "q1"
    assert example["answers"] == ["1007", "chârte"]


def ragged_rows():
    """Rows with the types of TFDS: places are ragged, one answer has two."""
    spec = tfds.builder("mrqa/squad:1.0.0", data_dir="/nowhere").info.features
    spec = spec.get_tensor_spec()
    starts = [[p[1] for p in places("1007")], [p[1] for p in places("chârte")[:2]]]
    ends = [[s + 3 for s in starts[0]], [s + 5 for s in starts[1]]]
    row = {key: tf.constant(ROW[key]) for key in ROW if key != "detected_answers"}
    spans = {
        "start": tf.ragged.constant(starts, row_splits_dtype=tf.int64),
        "end": tf.ragged.constant(ends, row_splits_dtype=tf.int64),
    }
    row["detected_answers"] = {
        "text": tf.constant(ROW["answers"]),
        "char_spans": spans,
        "token_spans": spans,
    }
    tokens = {"tokens": tf.constant(["x"]), "offsets": tf.constant([0])}
    row["context_tokens"] = row["question_tokens"] = tokens
    data = tf.data.Dataset.from_tensors((tf.constant(5, tf.int64), row))
    assert tf.nest.map_structure(lambda s: s.dtype, data.element_spec[1]) == (
        tf.nest.map_structure(lambda s: s.dtype, spec)
    )
    return data


def test_tf_data_cuts_rows_of_tfds():
    task = get_task("mrqa/squad")
    assert task.chunks is to_chunks
    data = task.format_rows(ragged_rows(), "train").flat_map(
        lambda e: tf.data.Dataset.from_tensor_slices(
            to_chunks(e, VOCABULARY.tokenizer, 64, 16)
        )
    )
    got = list(data.as_numpy_iterator())
    where = [*places("1007"), *places("chârte")[:2]]
    inputs, targets = cut(where=where)
    assert [e["inputs"].decode() for e in got] == inputs
    assert [e["targets"].decode() for e in got] == targets
    assert targets[0] == "chârte" and "1007" in targets
    assert [int(e["chunk"]) for e in got] == list(range(len(inputs)))
    for example in got:
        assert set(example) == KEYS
        assert (example["id"], int(example["index"])) == (b"q1", 5)
        assert [a.decode() for a in example["answers"]] == ROW["answers"]


def test_chunks_that_were_read_make_the_batches_that_the_data_makes(monkeypatch):
    monkeypatch.setattr(Task, "rows", lambda task, split, data_dir: ragged_rows())
    mixture = get_mixture("mrqa/squad")
    shape = {"vocabulary": VOCABULARY, "inputs_length": 64}
    read = mixture.examples("validation", **shape)
    made = mixture.batches_of(read, **shape, batch_size=4)
    expected = mixture.dataset("validation", **shape, batch_size=4, check_lengths=False)
    pairs = list(zip(made, expected, strict=True))
    assert len(pairs) > 1
    for ours, theirs in pairs:
        tf.nest.map_structure(np.testing.assert_array_equal, ours, theirs)


def test_a_run_may_draw_tasks_by_their_chunks(monkeypatch):
    monkeypatch.setattr(Task, "rows", lambda task, split, data_dir: ragged_rows())
    monkeypatch.setattr(Task, "num_rows", lambda task, split, data_dir: 1)
    config = Config(mixture="mrqa/squad,glue/rte", rates="chunks", inputs_length=64)
    mixture = components.make_mixture(config)
    squad = mixture.only(["mrqa/squad"])
    counted = by_chunks(config, mixture, VOCABULARY, None)
    examples = squad.examples("train", vocabulary=VOCABULARY, inputs_length=64)
    assert counted.task_rates()["mrqa/squad"] == len(examples["mrqa/squad"]) > 1
    assert counted.task_rates()["glue/rte"] == mixture.task_rates()["glue/rte"]
    plain = config.replace(rates="proportional")
    assert by_chunks(plain, mixture, VOCABULARY, None) is mixture
