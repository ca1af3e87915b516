"""Scores of a run: those of what its model writes, example by example."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from experiments import evaluate as program
from experiments.configs import get_config
from experiments.evaluate import evaluate, steps_asked
from experiments.runs import components
from experiments.runs.eval_results import Results
from experiments.runs.prediction import Scorer
from experiments.train import train
from hypertf.training import RunFolder
from tests.conftest import ROOT
from tfds_tasks import Task

TASKS = ("nano/cause_effect", "nano/paraphrase", "nano/inference", "nano/coreference")
LABELS = {"nano/paraphrase": ("no", "yes"), "nano/inference": ("yes", "maybe", "no")}
SOME = 10  # examples of each task that are looked at one by one
CONFIG = get_config("nano_hyperprompt_global").replace(
    mixture=",".join(TASKS),
    steps=3,
    batch_size=8,
    schedule="constant",
    decay_start=0,
    final_learning_rate=0.0,
    steps_per_loop=1,
    checkpoint_every=1,
)


@pytest.fixture(scope="module")
def model_dir(shallow, data_dir, tmp_path_factory):
    """Checkpoints of steps 1 to 3; the last is made to write various things."""
    path = str(tmp_path_factory.mktemp("run"))
    assert train(CONFIG, path, data_dir=data_dir) == 3
    model = components.make_model(CONFIG, components.make_mixture(CONFIG))
    optimizer = components.make_optimizer(CONFIG)
    optimizer.build(model.trainable_variables)
    folder, rng = RunFolder(path), np.random.default_rng(0)
    folder.restore(model, optimizer)
    for weight in model.weights:
        weight.assign(weight + 0.1 * rng.normal(size=weight.shape))
    embedding = model.shared.embedding.numpy()
    pieces = components.make_vocabulary(CONFIG).size
    embedding[pieces:] = 0  # ids that stand for no piece
    model.shared.embedding.assign(embedding)
    folder.save(model, optimizer, 3)
    return path


@pytest.fixture(scope="module")
def scorer(model_dir, data_dir):
    made = Scorer(CONFIG, batch_size=48, data_dir=data_dir)
    made.load(model_dir, 3)
    return made


@pytest.fixture(scope="module")
def scored(scorer):
    return scorer.score()


def row(scorer, task, number):
    """One example as the model reads it."""
    text = scorer.examples[task][number]["inputs"]
    ids = [*scorer.vocabulary.pieces.encode(text)[: CONFIG.inputs_length - 1], 1]
    padded = np.pad(ids, (0, CONFIG.inputs_length - len(ids)))
    task_id = TASKS.index(task)
    return {"encoder_tokens": padded[None], "task_ids": np.array([task_id])}


def text_of(scorer, ids):
    ids = [int(i) for i in ids]
    return scorer.vocabulary.pieces.decode(ids[: ids.index(1)] if 1 in ids else ids)


@pytest.mark.slow
def test_predictions_are_what_the_model_writes(scorer, scored):
    _, predictions = scored
    written = set()
    for task in TASKS:
        assert len(predictions[task]) == len(scorer.examples[task]) == 312
        for number in [*range(SOME), 311]:
            (ids,) = scorer.model.generate(
                row(scorer, task, number), CONFIG.targets_length
            ).numpy()
            assert predictions[task][number] == text_of(scorer, ids), (task, number)
            written.add(predictions[task][number])
    assert len(written) > 5


@pytest.mark.slow
def test_a_task_may_be_written_in_a_way_of_its_own(scorer, scored, monkeypatch):
    task, other, *_ = scorer.mixture.tasks
    own = {"beam_size": 2, "min_length": 4, "max_length": 5}
    monkeypatch.setattr(scorer, "config", CONFIG.replace(decoding="task"))
    monkeypatch.setitem(vars(task), "decoding", own)
    monkeypatch.setattr(scorer, "mixture", scorer.mixture.only([task.name, other.name]))
    predictions = scorer.predict()
    assert set(predictions) == {task.name, other.name}
    for number in range(SOME):
        (ids,) = scorer.model.generate(row(scorer, task.name, number), **own).numpy()
        assert predictions[task.name][number][0] == text_of(scorer, ids)
    assert [text for text, _ in predictions[other.name]] == scored[1][other.name]


@pytest.mark.slow
def test_scores_are_those_of_the_predictions(scorer, scored):
    scores, predictions = scored
    assert set(scores) == set(TASKS)
    for task in scorer.mixture.tasks:
        examples = scorer.examples[task.name]
        assert scores[task.name] == task.score(examples, predictions[task.name])
        targets = [example["targets"] for example in examples]
        assert set(task.score(examples, targets).values()) == {100.0}


@pytest.fixture(scope="module")
def ranker(model_dir, data_dir):
    config = CONFIG.replace(decoding="rank")
    made = Scorer(
        config, tasks=TASKS[1:], batch_size=48, data_dir=data_dir, split="test"
    )
    made.load(model_dir, 3)
    return made


@pytest.mark.slow
def test_rank_takes_the_likeliest_label(ranker, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Task, "rows", None)  # the data was read already
        predictions = ranker.predict()
    assert list(ranker.examples) == list(TASKS[1:])  # the ids are still the run's
    places = set()
    for task, labels in LABELS.items():
        targets = np.zeros((len(labels), CONFIG.targets_length), "int32")
        for choice, label in zip(targets, labels, strict=True):
            ids = [*ranker.vocabulary.pieces.encode(label), 1]
            choice[: len(ids)] = ids
        for number in range(SOME):
            inputs = {**row(ranker, task, number), "targets": targets[None]}
            (scores,) = ranker.model.score(inputs).numpy()
            text, score = predictions[task][number]
            assert text == labels[scores.argmax()]
            assert score == pytest.approx(scores.max(), rel=1e-4)
            places.add(scores.argmax())
    assert len(places) > 1  # it is not always the first
    # A task without labels writes.
    (ids,) = ranker.model.generate(row(ranker, TASKS[3], 0), CONFIG.targets_length)
    assert predictions[TASKS[3]][0][0] == text_of(ranker, ids.numpy())


@pytest.mark.slow
def test_what_is_written(model_dir, data_dir, scored, capsys):
    scores, predictions = scored
    results = evaluate(
        model_dir, checkpoints="2,3", data_dir=data_dir, strategy="one_device"
    )
    assert results.scores.keys() == {2, 3}
    assert results.scores[3] == scores
    with open(f"{model_dir}/eval/validation.json") as file:
        steps = json.load(file)["steps"]
    assert steps.keys() == {"2", "3"}
    assert steps["3"]["scores"] == scores and steps["3"]["how"] == "greedy"
    for task in TASKS:
        name = task.replace("/", "_")
        with open(f"{model_dir}/eval/validation-3/{name}.jsonl") as file:
            lines = [json.loads(line) for line in file]
        assert [line["text"] for line in lines] == predictions[task]
        assert [line["example"] for line in lines] == list(range(312))
    assert events(f"{model_dir}/eval") == {
        ("validation/average", 2),
        ("validation/average", 3),
        *(
            (f"validation/{task}/{metric}", step)
            for step in (2, 3)
            for task, metrics in scores.items()
            for metric in metrics
        ),
    }
    printed = capsys.readouterr().out
    best = results.best_step()
    assert f"best single checkpoint: step {best}" in printed
    assert all(task in printed for task in TASKS)
    assert Results(model_dir).scores == results.scores  # as read again


def events(folder):
    """Names and steps of the TensorBoard scalars in a folder."""
    seen = set()
    for name in os.listdir(folder):
        if "tfevents" in name:
            path = os.path.join(folder, name)
            for event in tf.compat.v1.train.summary_iterator(path):
                seen |= {(value.tag, event.step) for value in event.summary.value}
    return seen


def test_training_has_tensorboard_scalars(model_dir):
    names = {name for name, _ in events(f"{model_dir}/train")}
    assert {"loss", "examples_per_second", "learning_rate"} <= names
    assert any(name.startswith("loss/nano/") for name in names)


def asked(model_dir, checkpoints, last=3, done=()):
    return list(steps_asked(model_dir, checkpoints, last, set(done), poll=0))


@pytest.mark.parametrize(
    ("checkpoints", "steps"),
    [
        ("latest", [3]),
        ("all", [1, 2, 3]),
        ("2", [2]),
        ("3, 1", [1, 3]),
        (2, [2]),
        ([3, 1], [1, 3]),
    ],
)
def test_which_checkpoints(model_dir, checkpoints, steps):
    assert asked(model_dir, checkpoints) == steps


@pytest.mark.parametrize("checkpoints", ["4", "newest", "1,7", "-1", "", 4, [1, 7], []])
def test_a_step_that_is_not_there(model_dir, checkpoints):
    with pytest.raises(ValueError, match=r"expected latest, .* some of 1, 2, 3"):
        asked(model_dir, checkpoints)


def test_a_folder_without_checkpoints(tmp_path):
    with pytest.raises(ValueError, match="has no checkpoint"):
        asked(tmp_path, "latest")


def test_follow_waits_for_the_last_step(tmp_path, monkeypatch):
    def touch(*steps):
        for step in steps:
            (tmp_path / f"model.ckpt-{step}.index").touch()

    later = iter([(20,), (), (30, 40), (50,)])
    slept = []
    monkeypatch.setattr(
        program.time, "sleep", lambda s: (slept.append(s), touch(*next(later)))
    )
    touch(10)
    assert asked(tmp_path, "follow", last=50) == [10, 20, 30, 40, 50]
    assert len(slept) == 4
    # Started again, it does not score twice.
    assert asked(tmp_path, "follow", last=50, done=[10, 20, 50]) == [30, 40]
    assert next(later, None) is None


def test_a_score_that_is_undefined_counts_as_0(data_dir, monkeypatch, caplog):
    task = "nano/similarity"
    scorer = Scorer(CONFIG.replace(mixture=task), data_dir=data_dir)
    equal = [("3.2", -1.0)] * len(scorer.examples[task])
    monkeypatch.setattr(scorer, "predict", lambda: {task: equal})
    scores, _ = scorer.score()
    assert scores == {task: {"pearson_corrcoef": 0.0}}
    assert f"{task}: ['pearson_corrcoef'] is undefined" in caplog.text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"split": "dev"}, "split='dev': not a split of"),
        ({"tasks": ["nano/inferense"]}, "nano/inference"),
    ],
)
def test_bad_options(data_dir, changes, words):
    with pytest.raises(ValueError, match=words):
        Scorer(CONFIG, data_dir=data_dir, **changes)


def test_the_program_without_a_run(tmp_path):
    command = [sys.executable, "-m", "experiments.evaluate", f"--model_dir={tmp_path}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode != 0
    assert "expected a model_dir of experiments.train" in result.stderr
    assert "Traceback" not in result.stderr
