"""Scores of a run: those of what its model writes, example by example."""

import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from experiments import build, evaluate, run, run_results, scoring
from experiments.configs import get_config
from hypertf.training import RunFolder
from tests.conftest import ROOT

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
def data_dir(tmp_path_factory):
    return str(tmp_path_factory.mktemp("tfds"))


@pytest.fixture(scope="module")
def model_dir(data_dir, tmp_path_factory):
    """Checkpoints of steps 1 to 3; the last is made to write various things."""
    path = str(tmp_path_factory.mktemp("run"))
    assert run.train(CONFIG, path, data_dir) == 3
    model = build.make_model(CONFIG, build.make_mixture(CONFIG))
    optimizer = build.make_optimizer(CONFIG)
    optimizer.build(model.trainable_variables)
    folder, rng = RunFolder(path), np.random.default_rng(0)
    folder.restore(model, optimizer)
    for weight in model.weights:
        weight.assign(weight + 0.1 * rng.normal(size=weight.shape))
    embedding = model.shared.embedding.numpy()
    embedding[build.make_vocabulary(CONFIG).size :] = 0  # ids that stand for no piece
    model.shared.embedding.assign(embedding)
    folder.save(model, optimizer, 3)
    return path


@pytest.fixture(scope="module")
def scorer(model_dir, data_dir):
    found = scoring.Scorer(CONFIG, batch_size=48, data_dir=data_dir)
    found.load(model_dir, 3)
    return found


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
    found = scoring.Scorer(
        config, tasks=TASKS[1:], batch_size=48, data_dir=data_dir, split="test"
    )
    found.load(model_dir, 3)
    return found


def test_rank_takes_the_likeliest_label(ranker):
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


def options(**changes):
    """The flags of `experiments.evaluate`."""
    values = {
        "checkpoints": "latest",
        "split": "validation",
        "tasks": [],
        "decoding": None,
        "beam_size": None,
        "batch_size": 64,
        "submission": None,
        "strategy": "one_device",
        "tpu": None,
        "data_dir": None,
        "poll": 0,
    }
    return types.SimpleNamespace(**{**values, **changes})


def test_what_is_written(model_dir, data_dir, scored, capsys):
    scores, predictions = scored
    given = options(checkpoints="2,3", data_dir=data_dir)
    found = evaluate.evaluate(model_dir, given)
    assert found.scores.keys() == {2, 3}
    assert found.scores[3] == scores
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
    best = found.best_step()
    assert f"best single checkpoint: step {best}" in printed
    assert all(task in printed for task in TASKS)
    assert run_results.Results(model_dir).scores == found.scores  # as read again


def events(folder):
    """Names and steps of the TensorBoard scalars in a folder."""
    found = set()
    for name in os.listdir(folder):
        if "tfevents" in name:
            path = os.path.join(folder, name)
            for event in tf.compat.v1.train.summary_iterator(path):
                found |= {(value.tag, event.step) for value in event.summary.value}
    return found


def test_training_has_tensorboard_scalars(model_dir):
    names = {name for name, _ in events(f"{model_dir}/train")}
    assert {"loss", "examples_per_second", "learning_rate"} <= names
    assert any(name.startswith("loss/nano/") for name in names)


def asked(model_dir, checkpoints, last=3, done=()):
    found = types.SimpleNamespace(scores={step: {} for step in done})
    given = options(checkpoints=checkpoints)
    return list(evaluate.steps_asked(model_dir, given, last, found))


@pytest.mark.parametrize(
    ("checkpoints", "steps"),
    [("latest", [3]), ("all", [1, 2, 3]), ("2", [2]), ("3, 1", [1, 3])],
)
def test_which_checkpoints(model_dir, checkpoints, steps):
    assert asked(model_dir, checkpoints) == steps


@pytest.mark.parametrize("checkpoints", ["4", "newest", "1,7", "-1", ""])
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
        evaluate.time, "sleep", lambda s: (slept.append(s), touch(*next(later)))
    )
    touch(10)
    assert asked(tmp_path, "follow", last=50) == [10, 20, 30, 40, 50]
    assert len(slept) == 4
    # Started again, it does not score twice.
    assert asked(tmp_path, "follow", last=50, done=[10, 20, 50]) == [30, 40]
    assert next(later, None) is None


def test_a_score_that_is_undefined_counts_as_0(data_dir, monkeypatch, caplog):
    task = "nano/similarity"
    found = scoring.Scorer(CONFIG.replace(mixture=task), data_dir=data_dir)
    equal = [("3.2", -1.0)] * len(found.examples[task])
    monkeypatch.setattr(found, "predict", lambda: {task: equal})
    scores, _ = found.score()
    assert scores == {task: {"pearson_corrcoef": 0.0}}
    assert f"{task}: ['pearson_corrcoef'] is undefined" in caplog.text


A, B = "nano/acceptability", "nano/paraphrase"
SCORES = {  # means over tasks: 55, 70, 67.5
    100: {A: {"accuracy": 60.0}, B: {"f1": 40.0, "accuracy": 60.0}},
    200: {A: {"accuracy": 80.0}, B: {"f1": 50.0, "accuracy": 70.0}},
    300: {A: {"accuracy": 70.0}, B: {"f1": 60.0, "accuracy": 70.0}},
}


def test_both_ways_to_pick_the_best(tmp_path):
    found = run_results.Results(str(tmp_path))
    for step, scores in SCORES.items():
        found.add(step, scores, "greedy", 1.0)
    assert found.averages() == {100: 55.0, 200: 70.0, 300: 67.5}
    assert found.best_step() == 200
    assert found.best_per_task() == {A: 200, B: 300}
    text = found.text()
    assert "best single checkpoint: step 200, average 70.00" in text
    assert "best checkpoint of each task: average 72.50" in text  # of 80 and 65


def test_of_equal_checkpoints_the_first_is_best(tmp_path):
    found = run_results.Results(str(tmp_path))
    for step in (10, 20):
        found.add(step, {A: {"accuracy": 50.0}}, "greedy", 1.0)
    assert found.best_step() == 10 and found.best_per_task() == {A: 10}


def test_scores_of_other_tasks_at_a_step_stay(tmp_path):
    run_results.Results(str(tmp_path)).add(5, {A: {"accuracy": 1.0}}, "greedy", 1.0)
    run_results.Results(str(tmp_path)).add(5, {B: {"f1": 2.0}}, "greedy", 1.0)
    both = {A: {"accuracy": 1.0}, B: {"f1": 2.0}}
    assert run_results.Results(str(tmp_path)).scores == {5: both}
    # Those found in another way are not mixed with them.
    run_results.Results(str(tmp_path)).add(5, {B: {"f1": 3.0}}, "rank", 1.0)
    assert run_results.Results(str(tmp_path)).scores == {5: {B: {"f1": 3.0}}}


def test_no_task_has_a_file_on_the_servers(scorer, scored, tmp_path):
    with pytest.raises(ValueError, match=r"none of nano/cause_effect, .* has a file"):
        run_results.write_submission(str(tmp_path / "out"), scorer, scored[1])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"split": "dev"}, "split='dev': not a split of"),
        ({"tasks": ["nano/inferense"]}, "nano/inference"),
    ],
)
def test_bad_options(data_dir, changes, words):
    with pytest.raises(ValueError, match=words):
        scoring.Scorer(CONFIG, data_dir=data_dir, **changes)


def test_the_program_without_a_run(tmp_path):
    command = [sys.executable, "-m", "experiments.evaluate", f"--model_dir={tmp_path}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode != 0
    assert "expected a model_dir of experiments.train" in result.stderr
    assert "Traceback" not in result.stderr
