"""Averages and the table over checkpoints are those of T5's evaluation."""

import itertools
import json
import math

import numpy as np
import pytest

from tests.conftest import shared_path
from tfds_tasks.scores import averages

GOLDEN = json.loads(shared_path("goldens/t5_metrics/averages.json").read_text())


def our_cell(tag):
    """ "super_glue_cb_v102/accuracy" to ("super_glue/cb", "accuracy")."""
    task, metric = tag.split("/")
    task = task.partition("_v")[0]
    for benchmark in ("super_glue", "glue"):
        if task.startswith(f"{benchmark}_"):
            return f"{benchmark}/{task.removeprefix(f'{benchmark}_')}", metric
    return task, metric


def results(without=lambda tag, step: False):
    """The golden's scores as (step, scores), a pair for each of them."""
    pairs = []
    for tag, events in GOLDEN["scores"].items():
        task, metric = our_cell(tag)
        for step, value in events:
            if not without(tag, step):
                pairs.append((step, {task: {metric: value}}))
    return pairs


def assert_equal(table, golden):
    assert list(table.headings) == golden["columns"]
    assert list(table.steps) == golden["steps"]
    expected = np.array(golden["table"], float)  # reads "nan" too
    np.testing.assert_allclose(table.values, expected, rtol=1e-12)
    best = table.best_per_group()
    assert list(best) == golden["columns"]
    values, steps = zip(*best.values(), strict=True)
    np.testing.assert_allclose(values, np.array(golden["group_max"], float), rtol=1e-12)
    assert list(steps) == golden["group_max_step"]


def test_table_is_t5s():
    assert_equal(averages.table(results()), GOLDEN["result"])


def test_order_of_results_does_not_matter():
    assert_equal(averages.table(results()[::-1]), GOLDEN["result"])


def test_missing_scores_leave_no_average():
    golden = GOLDEN["rte_missing_at_steps_3000_4000"]
    rte = next(t for t, (column, _) in GOLDEN["groups"].items() if column == "GLUE RTE")
    column = golden["columns"].index("GLUE RTE")
    gone = {
        step
        for step, row in zip(golden["steps"], golden["table"], strict=True)
        if row[column] == "nan"
    }
    assert gone
    table = averages.table(results(lambda tag, step: tag == rte and step in gone))
    assert_equal(table, golden)


def test_missing_metric_leaves_no_average_column():
    golden = GOLDEN["without_multirc_f1_columns"]
    (missing,) = {
        tag
        for tag, (column, _) in GOLDEN["groups"].items()
        if column not in golden  # MultiRC (F1)
    }
    table = averages.table(results(lambda tag, step: tag == missing))
    assert list(table.headings) == golden
    # What is left of that task has no best checkpoint either.
    group = GOLDEN["groups"][missing][1]
    left = [c for c, g in GOLDEN["groups"].values() if g == group and c in golden]
    assert left
    for heading in left:
        value, step = table.best_per_group()[heading]
        assert math.isnan(value) and step is None


def test_columns_and_groups_are_t5s():
    columns = {(c.task, c.metric): [c.heading, c.group] for c in averages.columns()}
    for tag, expected in GOLDEN["groups"].items():
        assert columns[our_cell(tag)] == expected


def test_both_benchmarks_have_eight_tasks():
    for benchmark in averages.AVERAGES:
        assert len({c.group for c in averages.columns(benchmark)}) == 8


def perfect(benchmark):
    scores = {}
    for c in averages.columns(benchmark):
        scores.setdefault(c.task, {})[c.metric] = 100.0
    return scores


@pytest.mark.parametrize("benchmark", averages.AVERAGES)
def test_each_task_weighs_an_eighth(benchmark):
    scores = perfect(benchmark)
    assert averages.benchmark_averages(scores) == {benchmark: 100.0}
    groups = [c.group for c in averages.columns(benchmark)]
    for c in averages.columns(benchmark):
        less = {**scores, c.task: {**scores[c.task], c.metric: 0.0}}
        expected = 100 - 100 / 8 / groups.count(c.group)
        assert averages.benchmark_averages(less)[benchmark] == pytest.approx(expected)
        nan = {**scores, c.task: {**scores[c.task], c.metric: math.nan}}
        assert math.isnan(averages.benchmark_averages(nan)[benchmark])
        rest = {task: s for task, s in scores.items() if task != c.task}
        assert averages.benchmark_averages(rest) == {}


def test_other_tasks_do_not_count():
    scores = {
        **perfect("glue"),
        "glue/wnli": {"accuracy": 0.0},
        "dpr": {"accuracy": 0.0},
    }
    assert averages.benchmark_averages(scores) == {"glue": 100.0}


def test_average_of_any_tasks():
    scores = {"mrqa/hotpot_qa": {"em": 40.0, "f1": 60.0}, "xsum": {"rouge1": 30.0}}
    assert averages.average(scores) == pytest.approx(40)


@pytest.mark.parametrize("mean", [averages.average, averages.selection_score])
def test_tasks_without_a_metric_are_left_out(mean):
    scores = {"glue/ax": {}, "glue/rte": {"accuracy": 60.0}, "super_glue/axb": {}}
    assert mean(scores) == 60
    assert math.isnan(mean({**scores, "glue/cola": {"matthews_corrcoef": math.nan}}))
    for nothing in ({}, {"glue/ax": {}}):
        with pytest.raises(ValueError, match="expected a task with at least one"):
            mean(nothing)


def test_all_of_both_benchmarks_is_the_mean_over_their_sixteen_groups():
    values = itertools.count(10)
    scores = {}
    for c in (*averages.columns("glue"), *averages.columns("super_glue")):
        scores.setdefault(c.task, {})[c.metric] = float(next(values))
    expected = np.mean(list(averages.benchmark_averages(scores).values()))
    assert averages.selection_score(scores) == pytest.approx(expected)
    whole = {**scores, "glue/mnli": {"accuracy": 0.0}, "glue/ax": {}}
    assert averages.selection_score(whole) == pytest.approx(expected)
    assert averages.average(whole) != pytest.approx(expected)


def test_mnli_counts_once_whichever_of_it_is_scored():
    mnli = {
        "glue/mnli": {"accuracy": 90.0},
        "glue/mnli_matched": {"accuracy": 70.0},
        "glue/mnli_mismatched": {"accuracy": 50.0},
    }
    other = {"glue/rte": {"accuracy": 40.0}, "dpr": {"accuracy": 10.0}}

    def mnlis_share(*names):
        scores = {**{name: mnli[name] for name in names}, **other}
        return 3 * averages.selection_score(scores) - 50

    assert mnlis_share(*mnli) == pytest.approx(60)
    assert mnlis_share("glue/mnli_matched", "glue/mnli") == pytest.approx(70)
    assert mnlis_share("glue/mnli") == pytest.approx(90)


def test_other_tasks_count_one_each_in_the_selection():
    scores = {"mrqa/hotpot_qa": {"em": 40.0, "f1": 60.0}, "my/own": {"rouge1": 30.0}}
    assert averages.selection_score(scores) == pytest.approx(40)


def test_an_unknown_benchmark_gets_the_nearest():
    with pytest.raises(ValueError, match="unknown benchmark 'xglue'; nearest: glue"):
        averages.columns("xglue")


def test_tasks_without_a_place_come_last():
    scores = {"nano/copy": {"accuracy": 1.0}, "squad": {"em": 2.0, "f1": 3.0}}
    table = averages.table({7: scores})
    assert table.headings == ("SQuAD (EM)", "SQuAD (F1)", "nano/copy/accuracy")
    assert table.row(7) == dict(zip(table.headings, (2.0, 3.0, 1.0), strict=True))
    assert table.best_per_group()["nano/copy/accuracy"] == (1.0, 7)


@pytest.mark.parametrize("nothing", [{}, [], {100: {}}])
def test_nothing_to_tabulate(nothing):
    with pytest.raises(ValueError, match="0 scores"):
        averages.table(nothing)
