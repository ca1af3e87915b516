"""Scores of checkpoints as they are kept in a run's folder, and the best of them."""

import json

import pytest
import tensorflow as tf

from experiments.runs.eval_results import Results

A, B = "nano/acceptability", "nano/paraphrase"
SCORES = {  # means over tasks: 55, 70, 67.5
    100: {A: {"accuracy": 60.0}, B: {"f1": 40.0, "accuracy": 60.0}},
    200: {A: {"accuracy": 80.0}, B: {"f1": 50.0, "accuracy": 70.0}},
    300: {A: {"accuracy": 70.0}, B: {"f1": 60.0, "accuracy": 70.0}},
}


def test_both_ways_to_pick_the_best(tmp_path):
    results = Results(str(tmp_path))
    for step, scores in SCORES.items():
        results.add(step, scores, "greedy", 1.0)
    assert results.averages() == {100: 55.0, 200: 70.0, 300: 67.5}
    assert results.best_step() == 200
    assert results.best_per_task() == {A: 200, B: 300}
    text = results.text()
    assert "best single checkpoint: step 200, average 70.00" in text
    assert "best checkpoint of each task: average 72.50" in text  # of 80 and 65


def test_of_equal_checkpoints_the_first_is_best(tmp_path):
    results = Results(str(tmp_path))
    for step in (10, 20):
        results.add(step, {A: {"accuracy": 50.0}}, "greedy", 1.0)
    assert results.best_step() == 10 and results.best_per_task() == {A: 10}


def test_scores_of_other_tasks_at_a_step_stay(tmp_path):
    Results(str(tmp_path)).add(5, {A: {"accuracy": 1.0}}, "greedy", 1.0)
    Results(str(tmp_path)).add(5, {B: {"f1": 2.0}}, "greedy", 1.0)
    both = {A: {"accuracy": 1.0}, B: {"f1": 2.0}}
    assert Results(str(tmp_path)).scores == {5: both}
    # Those made in another way are not mixed with them.
    Results(str(tmp_path)).add(5, {B: {"f1": 3.0}}, "rank", 1.0)
    assert Results(str(tmp_path)).scores == {5: {B: {"f1": 3.0}}}


def test_tasks_without_a_score_stay_out(tmp_path):
    """Unscored tasks were written as {} by earlier versions."""
    (tmp_path / "eval").mkdir()
    old = {"scores": {A: {"accuracy": 50.0}, "glue/ax": {}}, "how": "greedy"}
    text = json.dumps({"split": "test", "steps": {"5": {**old, "seconds": 1.0}}})
    (tmp_path / "eval/test.json").write_text(text)
    results = Results(tmp_path, "test")
    assert results.scores == {5: {A: {"accuracy": 50.0}}}
    assert results.best_step() == 5 and results.averages() == {5: 50.0}
    assert "glue/ax" not in results.text()
    results.add(6, {}, "greedy", 1.0)  # nothing was scored: it is known all the same
    assert results.best_step() == 5 and set(results.records) == {5, 6}


def test_no_score_at_all(tmp_path):
    results = Results(tmp_path, "test")
    results.add(6, {}, "greedy", 1.0)
    assert results.text() == "no task has a score on test"
    with pytest.raises(ValueError, match=r"test\.json: 0 scores"):
        results.best_step()


def test_mnli_counts_once(tmp_path, monkeypatch):
    """By the mean over all names the first would be best: 71.25 to 70."""

    def scores(mnli, mismatched, rte):
        return {
            "glue/mnli": {"accuracy": mnli},
            "glue/mnli_matched": {"accuracy": mnli},
            "glue/mnli_mismatched": {"accuracy": mismatched},
            "glue/rte": {"accuracy": rte},
        }

    shown = {}  # by TensorBoard
    monkeypatch.setattr(
        tf.summary,
        "scalar",
        lambda name, value, step: shown.update({(name, step): value}),
    )
    results = Results(tmp_path)
    results.add(10, scores(80.0, 75.0, 50.0), "greedy", 1.0)
    results.add(20, scores(70.0, 70.0, 70.0), "greedy", 1.0)
    assert results.averages() == {10: 63.75, 20: 70.0}
    assert results.best_step() == 20
    assert [shown["validation/average", step] for step in (10, 20)] == [63.75, 70.0]
    # Of 77.5, the mean of MNLI's halves at 10, and RTE's 70.
    assert "best checkpoint of each task: average 73.75" in results.text()


def test_a_task_with_one_answer_is_named_as_not_learned(tmp_path):
    results = Results(tmp_path)
    answers = {A: ["yes", "yes", "yes"], B: ["yes", "no", "yes"]}
    scores = {A: {"accuracy": 66.0}, B: {"f1": 60.0}}
    results.add(5, scores, "greedy", 1.0, answers)
    words = f"not learned, one answer for all examples: {A} ('yes')"
    assert results.not_learned(5) == words and words in results.text()
    assert Results(tmp_path).not_learned(5) == words  # as read again
    # Another task at that step leaves it, the same task scored anew does not.
    results.add(5, {B: {"f1": 61.0}}, "greedy", 1.0, {B: ["no", "no"]})
    assert results.not_learned(5) == f"{words}, {B} ('no')"
    results.add(5, {A: {"accuracy": 67.0}}, "greedy", 1.0, {A: ["yes", "no"]})
    assert A not in results.not_learned(5)
    assert Results(tmp_path / "other").not_learned(5) is None
