"""`hypertf.load_run`: a run and its export are asked alike, and answer alike."""

import json
import os
import random

import keras
import numpy as np
import pytest

import hypertf
from experiments import predict as predict_program
from experiments.runs.eval_results import Results
from experiments.runs.row_text import RowText
from hypertf.export.answerer import Answerer
from hypertf.runs import open_run
from tests.experiments.own_run import ROWS, make_own_run
from tests.experiments.small_run import CONFIG, TEXTS, export_quickly, make_run

FREE = ("nano/coreference", "nano/similarity")  # answered by free text
SIGNATURES = ("serving_default", "classify")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def run(model_dir):
    return hypertf.load_run(model_dir)


@pytest.fixture(scope="module")
def exported(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("x") / "all"
    return export_quickly(model_dir, path, signatures=SIGNATURES)


@pytest.fixture(scope="module")
def saved(exported):
    return hypertf.load_run(os.path.dirname(exported))


@pytest.fixture(scope="module")
def beams(tmp_path_factory):
    """A run of one task, in fewer bits, with beams, not baked; and its export."""
    path = tmp_path_factory.mktemp("beams")
    config = CONFIG.replace(precision="mixed_bfloat16", mixture="nano/inference")
    model_dir, options = make_run(path / "run", config), {"beam_size": 2, "bake": False}
    exported = export_quickly(
        model_dir, path / "x", signatures=SIGNATURES[:1], **options
    )
    keras.config.set_dtype_policy("float32")  # as it is for what a user makes
    return hypertf.load_run(model_dir, **options), hypertf.load_run(exported)


def assert_same_answers(one, other):
    """Of all texts as all tasks, in one batch that mixes them."""
    assert one.tasks == other.tasks
    texts = [text for _ in one.tasks for text in TEXTS]
    tasks = [task for task in one.tasks for _ in TEXTS]
    mine, theirs = one.predict(texts, tasks), other.predict(texts, tasks)
    assert [a.text for a in mine] == [a.text for a in theirs]
    assert len({a.text for a in mine}) > 1  # there is something to compare
    assert [a.trimmed for a in mine] == [len(text) > 100 for text in texts]
    scores = [[a.score for a in answers] for answers in (mine, theirs)]
    np.testing.assert_allclose(*scores, rtol=1e-5)


def assert_same_shares(one, other):
    tasks = [task for task in one.tasks if task not in FREE for _ in TEXTS]
    texts = list(TEXTS) * (len(tasks) // len(TEXTS))
    found = zip(one.classify(texts, tasks), other.classify(texts, tasks), strict=True)
    for task, (mine, theirs) in zip(tasks, found, strict=True):
        assert mine.label == theirs.label
        assert list(mine.probabilities) == one.labels(task) == other.labels(task)
        shares = [list(each.probabilities.values()) for each in (mine, theirs)]
        np.testing.assert_allclose(*shares, rtol=1e-4)
        assert sum(shares[0]) == pytest.approx(1, abs=1e-5)


def test_a_run_answers_as_its_export_does(run, saved):
    assert_same_answers(run, saved)
    assert_same_shares(run, saved)


def test_both_answer_files(run, saved, tmp_path, monkeypatch):
    texts = [text for text in TEXTS if text]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"inputs": t}) + "\n" for t in texts))
    outputs = []
    for model in (run, saved):
        monkeypatch.setattr(predict_program, "open_run", lambda *_, m=model, **__: m)
        path = tmp_path / f"{type(model).__name__}.jsonl"
        predict_program.predict("", task="nano/inference", input=source, output=path)
        outputs.append([json.loads(line) for line in path.read_text().splitlines()])
    answers = run.answer(texts, "nano/inference")
    for mine, theirs, text, answer in zip(*outputs, texts, answers, strict=True):
        assert list(mine) == [
            "inputs",
            "answer",
            "score",
            "p(yes)",
            "p(maybe)",
            "p(no)",
        ]
        assert (mine["inputs"], mine["answer"]) == (text, answer)
        numbers = {k: pytest.approx(v, rel=1e-4) for k, v in list(mine.items())[2:]}
        assert theirs == {**mine, **numbers}


def test_baking_does_not_matter(model_dir, run):
    assert_same_shares(hypertf.load_run(model_dir, bake=False), run)


def test_with_beams_and_in_fewer_bits_too(beams):
    run, saved = beams
    assert_same_answers(run, saved)
    assert run.answer(TEXTS) == run.answer(TEXTS, "nano/inference")  # its one task
    assert (run.card["beam_size"], open_run(run.folder).card["beam_size"]) == (2, 1)


def test_it_leaves_the_process_as_it_was(beams):
    random.seed(5)
    np.random.seed(5)
    drawn = random.random(), np.random.rand()
    random.seed(5)
    np.random.seed(5)
    other = open_run(beams[0].folder, bake=False)
    other.load()
    assert (random.random(), np.random.rand()) == drawn
    assert keras.config.dtype_policy().name == "float32"


def test_it_outlives_other_runs_and_a_seed(run):
    before = run.classify(TEXTS, "nano/yes_no")
    keras.utils.set_random_seed(1)  # throws away what TensorFlow has compiled
    assert run.classify(TEXTS, "nano/yes_no") == before


def test_batches_do_not_matter(run):
    together = run.predict(TEXTS, "nano/inference")
    in_turn = run.predict(TEXTS, "nano/inference", batch_size=2)
    assert [a.text for a in together] == [a.text for a in in_turn]
    scores = [[a.score for a in answers] for answers in (together, in_turn)]
    np.testing.assert_allclose(*scores, rtol=1e-4)
    assert run.answer(np.array(TEXTS), "nano/inference") == [a.text for a in together]
    assert run.answer([], "nano/inference") == run.answer([]) == []


def test_which_checkpoint(tmp_path):
    path = make_run(tmp_path, CONFIG.replace(conditioner="none"), steps=(1, 2, 10))
    assert open_run(path).step == open_run(path, checkpoint="latest").step == 10
    for step, value in ((1, 1.0), (2, 3.0), (10, 2.0)):
        Results(path).add(step, {"nano/yes_no": {"accuracy": value}}, "greedy", 1.0)
    best, asked = open_run(path), open_run(path, checkpoint="10")
    assert (best.step, asked.step) == (2, 10)
    assert best.fingerprint != asked.fingerprint
    assert best.fingerprint == open_run(path, checkpoint=2).fingerprint
    with pytest.raises(ValueError, match="checkpoint=7, expected best, latest or"):
        open_run(path, checkpoint=7)


def test_what_it_is_called(model_dir, run, exported):
    assert repr(run).startswith(f"Run({model_dir!r}, step=1, tasks=['nano/accept")
    saved = repr(open_run(exported))
    source = f"source='{model_dir}, step 1', tasks=['nano/accept"
    assert saved.startswith(f"Loaded({exported!r}, {source}")


@pytest.mark.parametrize("kind", ["run", "export"])
def test_bad_questions(run, exported, kind):
    model = run if kind == "run" else open_run(exported)
    for texts, task, message in (
        ("yes", "nano/yes_no", "texts='yes', expected a list of texts"),
        (["yes", 3], "nano/yes_no", r"texts\[1\]=3, expected a str"),
        (["\ud800"], "nano/yes_no", r"texts\[0\]=.* expected Unicode"),
        (["yes"], "yes_no", "unknown task 'yes_no'; did you mean 'nano/yes_no'.*Known"),
        (["yes"], None, "task=None, expected one of nano/acceptability, "),
        (["yes"], ["nano/yes_no"] * 2, "2 tasks for 1 texts, expected as many"),
    ):
        with pytest.raises(ValueError, match=message):
            model.answer(texts, task)
        with pytest.raises(ValueError, match=message):
            model.classify(texts, task)
    with pytest.raises(ValueError, match="similarity' has no labels; expected one of"):
        model.classify(["yes"], "nano/similarity")
    with pytest.raises(ValueError, match="batch_size=0, expected an integer >= 1"):
        model.answer(["yes"], "nano/yes_no", batch_size=0)


def test_bad_folders(model_dir, exported, tmp_path):
    with pytest.raises(FileNotFoundError, match="absent: no such folder; expected a "):
        hypertf.load_run(tmp_path / "absent")
    with pytest.raises(
        FileNotFoundError, match=f"{tmp_path}: neither a run nor an exp"
    ):
        hypertf.load_run(tmp_path)
    above = os.path.dirname(model_dir)
    with pytest.raises(FileNotFoundError, match=f"but .*{model_dir}.* is a run; expec"):
        hypertf.load_run(above)
    with pytest.raises(ValueError, match="beam_size=0, expected an integer >= 1"):
        hypertf.load_run(model_dir, beam_size=0)
    for option in ({"checkpoint": 1}, {"beam_size": 2}, {"bake": False}):
        (name,) = option
        with pytest.raises(ValueError, match=f"^{name}=.* is an export, which has its"):
            hypertf.load_run(exported, **option)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"d_model": 8}')  # of others
    with pytest.raises(ValueError, match=r"other: .*d_model; expected a model_dir of"):
        hypertf.load_run(tmp_path / "other")
    empty = make_run(tmp_path / "empty", steps=())
    with pytest.raises(ValueError, match="empty has no checkpoint"):
        hypertf.load_run(empty)


def test_how_rows_read(tmp_path):
    row, model = ROWS[0], open_run(make_own_run(tmp_path))
    topic, echo = RowText(model, "topic"), RowText(model, "echo")
    assert topic.text(row) == f"dog 0: {row['body']}"
    assert topic.text({**row, "inputs": "as it is"}) == "as it is"
    assert (topic.target(row), echo.target(row)) == ("sports", "dog 0")
    assert topic.target({**row, "queue": " "}) is None
    assert topic.target({"subject": "a", "body": "b"}) is None
    assert topic.target({"inputs": "a", "targets": "world"}) == "world"
    assert echo.typed("hello") == "hello" == topic.typed("hello")
    assert topic.typed('{"subject": "a", "body": 3}') == "a: 3"


def test_how_rows_read_to_an_export():
    tasks = [{"name": "topic", "labels": None, "template": "{subject}: {body}"}]
    export = Answerer("x", {"tasks": [*tasks, {"name": "plain", "labels": None}]}, "")
    topic, plain = RowText(export, "topic"), RowText(export, "plain")
    assert topic.text({"subject": "a", "body": "b", "text": "c"}) == "a: b"
    assert topic.text({"inputs": "c"}) == "c" == plain.text({"inputs": "c", "text": ""})
    assert plain.text({"text": "a", "body": "b"}) == "a"
    with pytest.raises(ValueError, match="columns body, expected 'inputs' or 'text'"):
        plain.text({"body": "a"})
    with pytest.raises(ValueError, match="topic: unknown column 'subject'"):
        topic.text({"body": "a"})
    assert topic.target({"queue": "S"}) is None
