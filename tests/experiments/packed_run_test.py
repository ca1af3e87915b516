"""A run on packed rows: it counts examples, and goes on where it was stopped."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from experiments.configs import get_config
from experiments.runs import components, training_run
from experiments.runs.config import Config
from experiments.train import train
from hypertf.training import Loop, RunFolder, checkpoint_steps, read_log

STEPS = 6
CONFIG = get_config("nano_hyperprompt_global").replace(
    mixture="nano/acceptability,nano/paraphrase",
    packing="task",
    packing_pool=24,
    inputs_length=64,
    targets_length=16,
    dropout=0.1,
    steps=STEPS,
    batch_size=4,
    schedule="constant",
    decay_start=0,
    final_learning_rate=0.0,
    steps_per_loop=1,
    checkpoint_every=4,
    keep=0,
)

pytestmark = pytest.mark.usefixtures("shallow")


@pytest.fixture(scope="module")
def stopped(data_dir, tmp_path_factory, shallow):
    """A run that is killed after step 5, when 4 is saved, and started again."""
    path = str(tmp_path_factory.mktemp("run"))
    show, starts = Loop._show, []

    def killed(loop, bar, step, *rest):
        show(loop, bar, step, *rest)
        if step == 5:
            raise KeyboardInterrupt

    def made(*args):
        make = make_dataset(*args)
        return lambda start, **rest: starts.append(start) or make(start, **rest)

    make_dataset = components.make_dataset
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(components, "make_dataset", made)
        patch.setattr(Loop, "_show", killed)
        with pytest.raises(KeyboardInterrupt):
            train(CONFIG, path, data_dir=data_dir)
        patch.setattr(Loop, "_show", show)
        assert checkpoint_steps(path) == [4]
        assert train(CONFIG, path, data_dir=data_dir) == STEPS
    first, again = starts
    assert first == 0 and len(again) == 2
    assert again[0] > 0  # a later pool: nothing before it is read again
    return path


def test_a_killed_run_ends_as_one_never_killed(stopped, data_dir, tmp_path):
    other = str(tmp_path / "never")
    train(CONFIG.replace(steps_per_loop=3), other, data_dir=data_dir)
    readers = [
        tf.train.load_checkpoint(RunFolder(path, writes=False).prefix(STEPS))
        for path in (stopped, other)
    ]
    names = readers[0].get_variable_to_shape_map()
    assert any("_slot_" in name for name in names)
    for name in names:
        got, expected = (reader.get_tensor(name) for reader in readers)
        np.testing.assert_array_equal(got, expected, err_msg=name)


def test_the_log_counts_examples(stopped):
    records = read_log(stopped)
    assert [r["step"] for r in records][-2:] == [5, 6]
    for record in records:
        examples = sum(record["task_examples"].values())
        assert examples == record["examples_per_step"] > 2 * CONFIG.batch_size
        assert len(record["task_loss"]) == 2


def test_a_checkpoint_without_a_place_is_refused(stopped, data_dir, tmp_path):
    folder = RunFolder(stopped, writes=False)
    with open(folder.position_file(4)) as file:
        assert tuple(json.load(file)) == folder.position(4)
    mixture = components.make_mixture(CONFIG)
    vocabulary = components.make_vocabulary(CONFIG)
    make = components.make_dataset(CONFIG, mixture, vocabulary, data_dir)
    with pytest.raises(ValueError, match=r"model.ckpt-4.position.json beside it"):
        make(4)
    assert os.path.exists(folder.position_file(STEPS))


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"packing": "row"}, "packing='row', expected one of off, task, mixed"),
        ({"packing": "off", "max_segments": 3}, "max_segments=3, expected none with"),
        ({"per_batch": True}, "per_batch=True, expected False with packing='task'"),
        ({"batch_unit": "bytes"}, "batch_unit='bytes', expected one of rows, exam"),
        ({"packing_pool": 0}, "packing_pool=0, expected an integer >= 1"),
    ],
)
def test_what_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        CONFIG.replace(**changes)


def test_packed_rows_on_a_mesh_are_refused(data_dir, tmp_path):
    with pytest.raises(ValueError, match="packing='task': expected 'off' on a mesh"):
        train(CONFIG, tmp_path, data_dir=data_dir, mesh_shape="batch:1")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("unit", ["examples", "tokens"])
def test_a_step_is_given_in_examples_or_tokens(unit, data_dir):
    mixture = components.make_mixture(CONFIG)
    vocabulary = components.make_vocabulary(CONFIG)
    fill = components.measure_fill(CONFIG, mixture, vocabulary, data_dir)
    in_a_row = {"examples": fill.examples, "tokens": fill.inputs}[unit] / fill.rows
    asked = CONFIG.replace(batch_unit=unit, batch_size=round(20 * in_a_row))
    config = components.with_rows(asked, fill, parts=2)
    assert config.rows == 20
    assert Config.from_json(config.to_json()) == config
    words = training_run.batch_in_words(config, fill)
    assert words.startswith(
        f"20 rows, about {20 * fill.examples_per_row:,.0f} examples"
    )
