"""What each signature computes, against plain sums with the model; and its errors."""

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.testing.case import log_likelihood
from tests.export.helpers import (
    NAMES,
    TASKS,
    TEXTS,
    VOCABULARY,
    Task,
    batch,
    save,
    shares_of_labels,
    small_model,
    tokens,
)

LENGTH = 24
TASK = [NAMES[i] for i in (2, 0, 1, 2, 0)]
LABELLED = [NAMES[i] for i in (2, 0, 0, 2, 0)]  # of 3 labels and of 2


@pytest.fixture(scope="module")
def model():
    # Its tokens before the text are no part of what `encode` averages.
    return small_model("prompt-tuning", {"length": 3})


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("signatures") / "model"
    save(model, path)
    return path


@pytest.fixture(scope="module")
def served(path):
    return hypertf.export.load(path)


@pytest.fixture(scope="module")
def one_task(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("one_task")
    options = {
        "task": NAMES[2],
        "signatures": ("serving_default", "classify", "tokens"),
    }
    return hypertf.export.load(save(model, path, **options))


def names_of(signature):
    return set(signature.structured_input_signature[1])


def test_names_and_shapes(served):
    assert set(served.signatures) == set(hypertf.export.SIGNATURES)
    for name, signature in served.signatures.items():
        first = "tokens" if name == "tokens" else "text"
        assert names_of(signature) == {first, "task"}
        for spec in signature.structured_input_signature[1].values():
            assert spec.shape[0] is None
        for output in signature.structured_outputs.values():
            assert output.shape[0] is None
    assert served.tasks == NAMES


def test_classify_is_the_softmax_of_scores(model, served):
    outputs = served.run("classify", text=TEXTS, task=LABELLED)
    shares = shares_of_labels(model, TEXTS, LABELLED)
    for row, name in enumerate(LABELLED):
        labels = TASKS[NAMES.index(name)].choices
        padding = [b""] * (3 - len(labels))
        expected = [*(label.encode() for label in labels), *padding]
        assert outputs["labels"][row].tolist() == expected
        got = outputs["probabilities"][row]
        np.testing.assert_allclose(got[: len(labels)], shares[row], rtol=1e-3)
        assert not got[len(labels) :].any()
        assert outputs["label"][row].decode() == labels[shares[row].argmax()]


def test_loaded_classify_names_its_labels(served):
    two, three = served.classify(["yes", "yes"], [NAMES[0], NAMES[2]])
    assert list(two.probabilities) == list(TASKS[0].choices)
    assert list(three.probabilities) == list(TASKS[2].choices)
    for found in (two, three):
        assert sum(found.probabilities.values()) == pytest.approx(1.0, abs=1e-5)
        assert found.label == max(found.probabilities, key=found.probabilities.get)


def test_encode_is_the_mean_of_the_texts_own_tokens(model, served):
    vectors = served.run("encode", text=TEXTS, task=TASK)["vector"]
    inputs = {k: tf.constant(v) for k, v in batch(model, TEXTS, TASK).items()}
    memory, mask = model.encode(inputs)
    ids = inputs["encoder_tokens"].numpy()
    assert memory.shape[1] == mask.shape[1] == 3 + ids.shape[1]
    for vector, row, states in zip(vectors, ids, memory.numpy()[:, 3:], strict=True):
        expected = states[: np.count_nonzero(row)].mean(axis=0)
        np.testing.assert_allclose(vector, expected, rtol=1e-3, atol=1e-5)


def test_score_is_the_log_likelihood(model, served):
    inputs = batch(model, TEXTS, TASK)
    outputs = served.run("tokens", tokens=inputs["encoder_tokens"], task=TASK)
    expected = log_likelihood(model, inputs, outputs["output_tokens"])
    np.testing.assert_allclose(outputs["score"], expected, rtol=1e-4)
    written = served.run("serving_default", text=TEXTS, task=TASK)
    np.testing.assert_allclose(written["score"], expected, rtol=1e-4)
    texts = VOCABULARY.texts(outputs["output_tokens"])
    assert [text.decode() for text in written["output_text"]] == texts


def test_a_long_text_is_trimmed_and_that_is_said(served):
    long = " ".join(["yes, the old dog sees a red cat."] * 9)
    pieces = VOCABULARY.pieces.encode(long)
    cut = VOCABULARY.pieces.decode(pieces[: LENGTH - 1])
    assert VOCABULARY.pieces.encode(cut) == pieces[: LENGTH - 1]
    for signature in ("serving_default", "classify", "encode"):
        outputs = served.run(signature, text=[long, cut, "yes"], task=[NAMES[0]] * 3)
        assert outputs.pop("trimmed").tolist() == [True, False, False]
        for value in outputs.values():
            np.testing.assert_array_equal(value[0], value[1])


@pytest.mark.parametrize("signature", ["serving_default", "classify", "encode"])
def test_answers_do_not_depend_on_batch_mates(served, signature):
    together = served.run(signature, text=TEXTS, task=LABELLED)
    for row, (text, task) in enumerate(zip(TEXTS, LABELLED, strict=True)):
        alone = served.run(signature, text=[text], task=[task])
        assert set(alone) == set(together)
        for name, value in alone.items():
            if value.dtype == np.float32:
                np.testing.assert_allclose(
                    value[0], together[name][row], rtol=1e-4, atol=1e-5
                )
            else:
                np.testing.assert_array_equal(value[0], together[name][row])


def test_tokens_that_are_trimmed_end_as_text_does(served):
    text = " ".join(TEXTS * 3)
    ids = np.array([[*VOCABULARY.pieces.encode(text), 1]], "int32")
    assert ids.shape[1] > 24
    written = served.run("tokens", tokens=ids, task=TASK[:1])["output_tokens"]
    answered = served.run("serving_default", text=[text], task=TASK[:1])
    assert answered["trimmed"].tolist() == [True]
    assert VOCABULARY.texts(written) == [answered["output_text"][0].decode()]


def test_tokens_after_the_end_are_not_read(served):
    """A server that pads a batch puts anything there."""
    ids = tokens(TEXTS[:1])
    padded = np.concatenate([ids, np.full([1, 4], 261, "int32")], axis=1)
    once, again = (served.run("tokens", tokens=t, task=TASK[:1]) for t in (ids, padded))
    assert once["output_tokens"].tolist() == again["output_tokens"].tolist()
    np.testing.assert_allclose(once["score"], again["score"], rtol=1e-5)


@pytest.mark.slow
def test_one_task(served, one_task):
    for name, signature in one_task.signatures.items():
        assert names_of(signature) == {"tokens" if name == "tokens" else "text"}
        given = {"text": TEXTS, "tokens": tokens(TEXTS)}
        expected = served.run(name, **given, task=[NAMES[2]] * len(TEXTS))
        outputs = one_task.run(name, **given)
        assert set(outputs) == set(expected)
        for key, value in outputs.items():
            if value.dtype == np.float32:
                np.testing.assert_allclose(value, expected[key], rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(value, expected[key])
    assert one_task.answer(["yes"]) == served.answer(["yes"], NAMES[2])


def test_without_a_vocabulary_there_are_only_tokens(model, served, tmp_path):
    loaded = hypertf.export.load(save(model, tmp_path, vocabulary=None))
    assert set(loaded.signatures) == {"tokens"}
    assert loaded.card["signatures"] == ["tokens"]
    given = {"tokens": tokens(TEXTS), "task": TASK}
    for name, value in served.run("tokens", **given).items():
        np.testing.assert_array_equal(loaded.run("tokens", **given)[name], value)


def test_without_labels_there_is_no_classify(model, tmp_path):
    tasks = [Task(name) for name in NAMES]
    options = {"tasks": tasks, "signatures": ("encode", "classify")}
    loaded = hypertf.export.load(save(model, tmp_path, **options))
    assert set(loaded.signatures) == {"encode"}
    assert loaded.card["signatures"] == ["encode"]


def test_nothing_but_classify_without_labels(model, tmp_path):
    with pytest.raises(ValueError, match="labels"):
        save(model, tmp_path / "new", task=NAMES[1], signatures=("classify",))


def test_an_unknown_task_is_an_error_that_names_the_known(served):
    for signature in served.signatures:
        given = {"text": ["yes", "no"], "tokens": tokens(["yes", "no"])}
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            served.run(signature, **given, task=[NAMES[0], "a/tow"])
        assert "unknown task a/tow" in str(error.value)
        assert all(name in str(error.value) for name in NAMES)


def test_classify_of_a_task_without_labels(served):
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        served.run("classify", text=["yes", "no"], task=[NAMES[0], NAMES[1]])
    assert "task b/free has no labels; expected one of a/two, c" in str(error.value)


@pytest.mark.parametrize("tasks", [[], NAMES[:1], NAMES])
def test_a_task_for_each_text(served, tasks):
    message = f"{len(tasks)} tasks for 2 texts"
    for signature in served.signatures:
        given = {"text": ["yes", "no"], "tokens": tokens(["yes", "no"])}
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            served.run(signature, **given, task=tasks)


def test_any_bytes_are_answered(served):
    million = b"the old dog " * 90_000
    texts = [b"\xff\xfe\x80", million, b"\xc3", b"\x00", "\u2581\U0001f600".encode()]
    for signature in ("serving_default", "classify", "encode"):
        outputs = served.run(signature, text=texts, task=[NAMES[0]] * len(texts))
        assert outputs["trimmed"].tolist() == [False, True, False, False, False]
        for value in outputs.values():
            assert len(value) == len(texts)
            assert value.dtype != np.float32 or np.isfinite(value).all()


def test_no_text_is_no_answer(served):
    for signature in served.signatures:
        given = {"text": [], "tokens": np.zeros([0, 5], "int32")}
        for value in served.run(signature, **given, task=[]).values():
            assert len(value) == 0


def test_tasks_have_their_own_ids(model, served, tmp_path):
    options = {"tasks": TASKS[::-1], "task_ids": [2, 1, 0], "signatures": ("tokens",)}
    loaded = hypertf.export.load(save(model, tmp_path, **options))
    given = {"tokens": tokens(TEXTS), "task": TASK}
    np.testing.assert_array_equal(
        loaded.run("tokens", **given)["output_tokens"],
        served.run("tokens", **given)["output_tokens"],
    )
