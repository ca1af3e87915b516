"""A run's folder when things go wrong: damage, full disks, a second process."""

import errno
import json
import os
import subprocess
import sys
import uuid

import numpy as np
import pytest
import tensorflow as tf

from hypertf.checkpoints import mesh
from hypertf.optimizers import Adafactor
from hypertf.training import (
    Loop,
    NotANumber,
    RunFolder,
    TrainStep,
    checkpoint_steps,
    read_log,
)
from tests.conftest import ROOT
from tests.training.tiny import ROWS, TASKS, arrays, make_batches, make_model

NAMES = ("a", "b", "c")


def make(seed):
    """A model and an optimizer whose values tell the seed."""
    model = make_model("hyperprompt-global")
    optimizer = Adafactor(0.1)
    optimizer.build(model.trainable_variables)
    rng = np.random.default_rng(seed)
    for variable in saved(model, optimizer):
        variable.assign(rng.normal(size=variable.shape))
    return model, optimizer


def saved(model, optimizer):
    slots = [optimizer.slots(v) for v in model.trainable_variables]
    return [*model.weights, *(slot for some in slots for slot in some.values())]


def assert_holds(model, optimizer, seed):
    rng = np.random.default_rng(seed)
    for variable, value in zip(
        saved(model, optimizer), arrays(saved(model, optimizer)), strict=True
    ):
        expected = rng.normal(size=variable.shape).astype("float32")
        np.testing.assert_array_equal(value, expected, err_msg=variable.path)


def write(folder, steps):
    """A checkpoint of each step, whose values are those of the seed `step`."""
    for step in steps:
        folder.save(*make(step), step)


def data_file(folder, step):
    return folder.prefix(step) + ".data-00000-of-00001"


def truncate(folder, step):
    path = data_file(folder, step)
    os.truncate(path, os.path.getsize(path) // 2)


def flip(folder, step):
    with open(data_file(folder, step), "r+b") as file:
        file.seek(os.path.getsize(file.name) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0xFF]))


def lose_data(folder, step):
    os.remove(data_file(folder, step))


def empty_index(folder, step):
    os.truncate(folder.prefix(step) + ".index", 0)


def truncate_index(folder, step):
    path = folder.prefix(step) + ".index"
    os.truncate(path, os.path.getsize(path) // 2)


DAMAGES = [truncate, flip, lose_data, empty_index, truncate_index]


def damage_id(damage):
    return damage.__name__


def test_the_newest_is_restored(tmp_path):
    folder = RunFolder(tmp_path)
    model, optimizer = make(99)
    assert folder.restore(model, optimizer) == 0
    assert_holds(model, optimizer, 99)
    write(folder, [2, 10, 9])
    assert folder.steps() == checkpoint_steps(tmp_path) == [2, 9, 10]
    assert folder.restore(model, optimizer) == 10
    assert_holds(model, optimizer, 10)
    assert int(optimizer.iterations) == 10


@pytest.mark.parametrize("damage", DAMAGES, ids=damage_id)
def test_a_damaged_one_is_reported_and_the_one_before_taken(tmp_path, damage, caplog):
    folder = RunFolder(tmp_path)
    write(folder, [1, 2])
    damage(folder, 2)
    model, optimizer = make(99)
    assert folder.restore(model, optimizer) == 1
    assert_holds(model, optimizer, 1)
    assert int(optimizer.iterations) == 1
    assert f"{folder.prefix(2)} is damaged" in caplog.text
    write(folder, [2])  # the run comes there again
    assert folder.restore(model, optimizer) == 2
    assert_holds(model, optimizer, 2)


def test_all_damaged_is_an_error(tmp_path):
    folder = RunFolder(tmp_path)
    write(folder, [1, 2])
    flip(folder, 1)
    truncate(folder, 2)
    with pytest.raises(ValueError, match=r"no checkpoint of .* can be read") as error:
        folder.restore(*make(99))
    assert folder.prefix(1) in str(error.value)
    assert folder.prefix(2) in str(error.value)


@pytest.mark.parametrize(
    ("keep", "left"), [(0, [1, 2, 3, 4]), (1, [4]), (3, [2, 3, 4])]
)
def test_the_newest_are_kept(tmp_path, keep, left):
    folder = RunFolder(tmp_path, keep=keep)
    write(folder, [1, 2, 3, 4])
    assert folder.steps() == left
    names = {name.split(".")[1] for name in os.listdir(tmp_path) if "ckpt" in name}
    assert names == {f"ckpt-{step}" for step in left}


def test_only_the_chief_writes(tmp_path):
    folder = RunFolder(tmp_path / "new", writes=False)
    write(folder, [1])
    folder.append_log({"step": 1})
    assert not (tmp_path / "new").exists()


def test_a_remote_folder():
    path = f"ram://{uuid.uuid4()}/run"
    folder = RunFolder(path, keep=2)
    assert folder.is_remote and checkpoint_steps(path + "/absent") == []
    folder.lock()  # there is none, which is said
    write(folder, [1, 2, 3])
    assert folder.steps() == checkpoint_steps(path) == [2, 3]
    model, optimizer = make(99)
    assert folder.restore(model, optimizer) == 3
    assert_holds(model, optimizer, 3)
    write(folder, [3])  # once more, over the old one
    assert folder.restore(model, optimizer) == 3
    for step in (1, 2):
        folder.append_log({"step": step})
    assert [record["step"] for record in read_log(path)] == [1, 2]
    folder.unlock()


def test_where_things_lie(tmp_path):
    folder = RunFolder(tmp_path / "new", writes=False)
    paths = {
        "config.json": folder.config_file,
        "train.jsonl": folder.log_file,
        "train": folder.training_summaries,
        "eval": folder.score_summaries,
        "eval/test.json": folder.scores_file("test"),
        "eval/test-7/glue_cola.jsonl": folder.predictions_file("test", 7, "glue/cola"),
        "report": folder.report_folder,
        "model.ckpt-7": folder.prefix(7),
    }
    assert paths == {name: f"{tmp_path}/new/{name}" for name in paths}
    assert not (tmp_path / "new").exists()


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    path = folder.scores_file("test")
    folder.write_text(path, "old")  # makes the folder
    with pytest.raises(TypeError):
        folder.write_text(path, 5)
    with open(path) as file:
        assert file.read() == "old"
    folder.write_text(path, "new")
    assert os.listdir(os.path.dirname(path)) == ["test.json"]


def test_a_second_process_is_refused(tmp_path):
    folder = RunFolder(tmp_path)
    folder.lock()
    code = f"""
from hypertf.training import RunFolder
try:
    RunFolder({str(tmp_path)!r}).lock()
except RuntimeError as error:
    print(error)
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    expected = f"model_dir {tmp_path} is in use by process {os.getpid()}"
    assert expected in result.stdout, result.stderr
    with pytest.raises(RuntimeError, match=expected):  # nor a second time in this one
        RunFolder(tmp_path).lock()
    folder.unlock()
    other = RunFolder(tmp_path)
    other.lock()
    other.unlock()
    other.unlock()  # does nothing


def test_a_log_that_was_cut_short(tmp_path):
    folder = RunFolder(tmp_path)
    assert read_log(tmp_path) == []
    for step, loss in ((25, 3.0), (50, 2.0)):
        folder.append_log({"step": step, "loss": loss})
    with open(tmp_path / "train.jsonl", "a") as file:
        file.write('{"step": 75, "lo')
    assert [record["step"] for record in read_log(tmp_path)] == [25, 50]
    folder = RunFolder(tmp_path)  # started again from step 25
    for step, loss in ((50, 1.5), (75, 1.0)):
        folder.append_log({"step": step, "loss": loss})
    records = [(record["step"], record["loss"]) for record in read_log(tmp_path)]
    assert records == [(25, 3.0), (50, 1.5), (75, 1.0)]


BATCHES = make_batches(4)


@pytest.fixture(scope="module")
def train_step():
    return TrainStep(make_model("hyperprompt-global"), Adafactor(0.01), TASKS)


def make_loop(train_step, path, steps=8, keep=0, **options):
    def dataset(start, host, num_hosts):
        data = tf.data.Dataset.from_tensor_slices(BATCHES)
        return data.repeat().skip(start % 4)

    options = {
        "steps_per_loop": 1,
        "checkpoint_every": 2,
        "task_names": NAMES,
    } | options
    return Loop(
        train_step, dataset, RunFolder(path, keep), steps, batch_size=ROWS, **options
    )


class FullDisk:
    """In place of the writer: no room for a checkpoint of these steps."""

    def __init__(self, monkeypatch, *steps):
        self.write, self.steps = mesh.write, steps
        monkeypatch.setattr(mesh, "write", self)

    def __call__(self, tensors, prefix):
        if int(prefix.rpartition("-")[2]) in self.steps:
            with open(prefix + "-part-00000.data-00000-of-00001", "wb") as file:
                file.write(b"0" * 1000)
            raise OSError(errno.ENOSPC, "No space left on device", prefix)
        self.write(tensors, prefix)


def checkpoint_files(path):
    return {name for name in os.listdir(path) if name != "train.jsonl"}


def files_of(*steps):
    return {"checkpoint"} | {
        f"model.ckpt-{step}.{end}"
        for step in steps
        for end in ("index", "data-00000-of-00001")
    }


def test_a_full_disk_is_survived(train_step, tmp_path, monkeypatch, caplog):
    FullDisk(monkeypatch, 4, 5)
    files_at = {}

    def look(record):
        files_at[record["step"]] = checkpoint_files(tmp_path)

    assert make_loop(train_step, tmp_path, on_log=look).run() == 8
    assert files_at[5] == files_of(2)  # nothing half written
    assert "the checkpoint of step 4 was not written" in caplog.text
    assert "the checkpoint of step 5 was not written" in caplog.text
    # Tried again at every look until there was room.
    assert checkpoint_files(tmp_path) == files_of(2, 6, 8)
    for step in (2, 6, 8):
        assert (
            tf.train.load_checkpoint(f"{tmp_path}/model.ckpt-{step}").get_tensor(
                "global_step"
            )
            == step
        )
    assert [record["step"] for record in read_log(tmp_path)] == list(range(1, 9))


def test_a_last_step_that_cannot_be_saved_is_an_error(
    train_step, tmp_path, monkeypatch
):
    FullDisk(monkeypatch, 4)
    with pytest.raises(OSError, match="No space left") as error:
        make_loop(train_step, tmp_path, steps=4).run()
    assert "step 4 was not saved" in " ".join(error.value.__notes__)
    assert checkpoint_files(tmp_path) == files_of(2)
    model, optimizer = make(99)
    assert RunFolder(tmp_path).restore(model, optimizer) == 2


def test_looks_and_checkpoints_are_at_multiples(train_step, tmp_path):
    loop = make_loop(
        train_step, tmp_path, steps=11, steps_per_loop=4, checkpoint_every=6
    )
    assert loop.run(start=3) == 11
    assert [record["step"] for record in read_log(tmp_path)] == [4, 6, 8, 11]
    assert checkpoint_steps(tmp_path) == [6, 11]
    assert loop.run(start=11) == 11  # there is nothing left to do


def test_the_records(train_step, tmp_path):
    make_loop(train_step, tmp_path, steps=4, steps_per_loop=2, checkpoint_every=4).run()
    tasks = BATCHES["task_ids"][:2][BATCHES["targets"][:2].any(axis=2)]
    with open(tmp_path / "train.jsonl") as file:
        first, second = map(json.loads, file)
    assert (first["step"], second["step"]) == (2, 4)
    counts = {name: int((tasks == i).sum()) for i, name in enumerate(NAMES)}
    assert first["task_examples"] == counts
    assert first["learning_rate"] == pytest.approx(0.01)
    assert set(first["task_loss"]) == {name for name, n in counts.items() if n}
    assert first["examples_per_second"] * first["seconds_per_step"] == pytest.approx(
        ROWS
    )


def test_profiling_changes_no_number(tmp_path):
    losses = []
    for profile in (False, True):
        step = TrainStep(make_model(), Adafactor(0.01), TASKS)
        path = tmp_path / str(profile)
        loop = make_loop(step, path, steps=4, steps_per_loop=2, profile=profile)
        loop.run()
        losses.append([r["task_loss"][name] for r in read_log(path) for name in NAMES])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert 0 < loop.share_waited < 1
    assert read_log(path)[-1]["share_waited"] == loop.share_waited


@pytest.fixture(scope="module")
def plain_step():
    return TrainStep(make_model(), Adafactor(0.01), TASKS)


def spoil(step, value):
    """Puts one value into a weight; returns what puts the old ones back."""
    kernel = step.model.encoder.blocks[0].feed_forward.layer.wo.kernel
    old, new = kernel.numpy(), kernel.numpy()
    new[0, 0] = value
    kernel.assign(new)
    return lambda: kernel.assign(old)


def test_a_loss_that_is_not_a_number_stops_and_is_not_saved(plain_step, tmp_path):
    loop = make_loop(plain_step, tmp_path, steps_per_loop=3, checkpoint_every=3)
    state = [*plain_step.model.weights, *plain_step.optimizer.variables]
    before = arrays(state)
    take = loop._take

    def take_and_spoil(iterator, step, *args):
        if step == 3:
            spoil(plain_step, np.inf)
        return take(iterator, step, *args)

    loop._take = take_and_spoil
    with pytest.raises(NotANumber, match="the loss of step 3 is not a number") as error:
        loop.run()
    for variable, value in zip(state, before, strict=True):
        variable.assign(value)
    tasks = BATCHES["task_ids"][3][BATCHES["targets"][3].any(axis=1)]
    for i, name in enumerate(NAMES):
        count = int((tasks == i).sum())
        assert (f"{name} {count}" in str(error.value)) == (count > 0)
    assert f"the last good checkpoint is {tmp_path}/model.ckpt-3" in str(error.value)
    assert checkpoint_steps(tmp_path) == [3]


def test_weights_that_are_not_numbers_are_not_saved(plain_step, tmp_path):
    """The loss before the update that broke them was a number."""
    loop = make_loop(plain_step, tmp_path, steps_per_loop=2)
    put_back = []
    loop.on_log = lambda record: (
        record["step"] == 4 and put_back.append(spoil(plain_step, np.nan))
    )
    with pytest.raises(NotANumber, match="wo/kernel is not a number after step 4"):
        loop.run()
    put_back[0]()
    assert checkpoint_steps(tmp_path) == [2]
