"""A run goes on with more tasks: rows of task tables are kept, copied or averaged."""

import re

import numpy as np
import pytest

from experiments.configs import get_config
from experiments.evaluate import evaluate
from experiments.runs import components, transfer
from experiments.train import train
from hypertf.conditioning.task_tables import fill_untrained, task_tables
from hypertf.training import RunFolder
from tests.experiments.small_run import make_run
from tfds_tasks import get_mixture

OLD, NEW = "nano/sentiment,nano/inference", "nano/acceptability"
CONFIG = get_config("nano").replace(
    schedule="constant",
    decay_start=0,
    final_learning_rate=0.0,
    conditioner="hyperformer++",
    conditioner_options={"reduction": 16},
    mixture=OLD,
    steps=2,
    batch_size=8,
    checkpoint_every=1,
    steps_per_loop=1,
)
# The new task before the old ones, so that every old row moves.
ENLARGED = CONFIG.replace(mixture=f"{NEW},{OLD}")
ONLY_NEW = {"reduction": 16, "trains": "task-vectors"}


def model_of(folder, step, config):
    model = components.make_model(config, components.make_mixture(config))
    transfer.hypertf.checkpoints.load(model, RunFolder(folder).prefix(step))
    return model


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of two tasks, and one that trains only the vector of a third."""
    folder = tmp_path_factory.mktemp("transfer")
    old = make_run(folder / "old", CONFIG)
    new = str(folder / "new")
    config = ENLARGED.replace(
        init=old,
        init_tasks={NEW: "nano/sentiment"},
        train_tasks=NEW,
        conditioner_options=ONLY_NEW,
    )
    train(config, new)
    return old, new, config


def outputs(model, ids):
    rng = np.random.default_rng(0)
    batch = {
        "encoder_tokens": rng.integers(1, 1000, [4, 9]),
        "decoder_tokens": rng.integers(1, 1000, [4, 5]),
        "task_ids": np.array(ids, "int32"),
    }
    return np.array(model(batch))


@pytest.mark.slow
def test_only_the_new_vector_trains(runs):
    old, new, config = runs
    before = model_of(old, 1, CONFIG)
    first, last = (model_of(new, step, config) for step in (1, 2))
    (table,) = task_tables(last)
    rows = {"old": task_tables(before)[table], "new": task_tables(last)[table]}
    rows = {name: np.array(value) for name, value in rows.items()}
    np.testing.assert_array_equal(rows["new"][1:], rows["old"])
    assert not np.array_equal(rows["new"][0], rows["old"][0])
    ids = [1, 2, 2, 1]
    np.testing.assert_array_equal(outputs(first, ids), outputs(last, ids))
    assert not np.array_equal(outputs(first, [0] * 4), outputs(last, [0] * 4))
    old_ids = [i - 1 for i in ids]
    np.testing.assert_allclose(outputs(last, ids), outputs(before, old_ids), atol=1e-5)


@pytest.mark.slow
def test_evaluate_scores_old_and_new_tasks(runs):
    scores = evaluate(runs[1], tasks=[NEW, "nano/sentiment"]).scores[2]
    assert set(scores) == {NEW, "nano/sentiment"}


@pytest.mark.slow
@pytest.mark.parametrize("source", ["mean", "nearest", None])
def test_says_where_each_row_starts(runs, source):
    old, _, _ = runs
    given = {} if source is None else {NEW: source}
    config = ENLARGED.replace(
        init=old, init_tasks=given, mixture=f"{NEW},nano/sentiment"
    )
    mixture = components.make_mixture(config)
    transfer.check(config, mixture)
    model = components.make_model(config, mixture)
    fresh = np.array(*task_tables(model).values())
    text = transfer.load(model, config, mixture, components.make_vocabulary(config))
    (own,), (theirs,) = (
        [np.array(t) for t in task_tables(m).values()]
        for m in (model, model_of(old, 1, CONFIG))
    )
    np.testing.assert_array_equal(own[1], theirs[0])
    assert "nano/sentiment: kept" in text and "nano/inference: left out" in text
    if source == "mean":
        np.testing.assert_allclose(own[0], theirs.mean(axis=0), rtol=1e-6)
        assert f"{NEW}: starts as the mean" in text
    elif source == "nearest":
        (row,) = [i for i in range(2) if np.array_equal(own[0], theirs[i])]
        assert f"{NEW}: starts as {OLD.split(',')[row]}, the lowest loss" in text
    else:
        np.testing.assert_array_equal(own[0], fresh[0])
        assert f"{NEW}: new, starts fresh" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"init_tasks": {NEW: "glue/rte"}}, f"{NEW}:glue/rte, expected nearest, mean"),
        (
            {"init_tasks": {"glue/rte": "mean"}},
            "'glue/rte', expected a task of mixture",
        ),
        ({"init": None, "init_tasks": {NEW: "mean"}}, "expected none without init"),
        ({"train_tasks": "nano/sentiment"}, f"{NEW} would be neither trained nor"),
        ({"conditioner": "none", "init_tasks": {NEW: "mean"}}, "conditioner='none'"),
    ],
)
def test_bad_input_is_said_before_any_work(runs, change, message):
    config = ENLARGED.replace(init=runs[0])
    if "conditioner" in change:
        config = config.replace(conditioner_options={})
    config = config.replace(**change)
    with pytest.raises(ValueError, match=re.escape(message)):
        transfer.check(config, components.make_mixture(config))


def test_decay_would_move_old_vectors():
    with pytest.raises(ValueError, match=r"weight_decay=0\.1, expected 0 with trains"):
        CONFIG.replace(conditioner_options=ONLY_NEW, weight_decay=0.1)


def test_untrained_tasks_get_the_mean():
    mixture = get_mixture("mrqa/squad,mrqa/news_qa,mrqa/drop")
    assert transfer.untrained(mixture) == ["mrqa/drop"]
    config = CONFIG.replace(mixture=f"{OLD},{NEW}")
    model = components.make_model(config, components.make_mixture(config))
    before = np.array(*task_tables(model).values())
    assert fill_untrained(model, []) == []
    assert len(fill_untrained(model, [1])) == 1
    after = np.array(*task_tables(model).values())
    np.testing.assert_allclose(after[1], before[[0, 2]].mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])


def test_every_task_of_en_mix_has_a_trained_vector():
    assert transfer.untrained(get_mixture("en_mix")) == []
