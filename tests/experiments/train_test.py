"""`experiments.train` killed, asked to end, started again, and asked for nonsense."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from absl import app, flags

from experiments import train as program
from experiments.configs import get_config
from experiments.runs import components, config_file, training_run
from experiments.runs import flags as run_flags
from experiments.train import train
from hypertf.training import RunFolder, checkpoint_steps, read_log
from tests.conftest import ROOT

TASKS = "nano/acceptability,nano/paraphrase"
STEPS = 30
CONFIG = get_config("nano_hyperprompt_global").replace(
    mixture=TASKS,
    dropout=0.1,
    steps=STEPS,
    batch_size=8,
    schedule="constant",
    decay_start=0,
    final_learning_rate=0.0,
    steps_per_loop=1,
    checkpoint_every=5,
    keep=0,
)


@pytest.fixture(scope="module")
def never_stopped(rewritten_graphs, data_dir, tmp_path_factory):
    """The folder of a run in this process, which looks at other steps than the rest."""
    path = str(tmp_path_factory.mktemp("run"))
    config = CONFIG.replace(steps_per_loop=7, checkpoint_every=15)
    assert train(config, path, data_dir=data_dir) == STEPS
    return path


def command(model_dir, data_dir, config=CONFIG, *more):
    """The program with a flag for every field that differs from nano's."""
    named = get_config("nano")
    given = [
        f"--{field.name}={getattr(config, field.name)}"
        for field in dataclasses.fields(config)
        if getattr(config, field.name) != getattr(named, field.name)
    ]
    given += [f"--model_dir={model_dir}", f"--data_dir={data_dir}"]
    start = [sys.executable, "-m", "experiments.train", "--config=nano"]
    return [*start, *given, *more]


def wait_until(done, process):
    until = time.monotonic() + 200
    while not done():
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            pytest.fail(f"ended too early:\n{process.communicate()[0]}")
        time.sleep(0.01)


def tensors(model_dir, step):
    reader = tf.train.load_checkpoint(RunFolder(model_dir, writes=False).prefix(step))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


def assert_same(model_dir, other, step=STEPS):
    got, expected = tensors(model_dir, step), tensors(other, step)
    assert got.keys() == expected.keys()
    assert any("_slot_" in name for name in got)
    assert any(name.startswith("conditioner/") for name in got)
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)


@pytest.mark.slow
def test_a_killed_run_ends_as_one_never_killed(
    never_stopped, data_dir, tmp_path, capsys
):
    """The one test with a real process: its flags, its quiet start, its sudden end."""
    environment = {k: v for k, v in os.environ.items() if "TF_CPP" not in k}
    process = subprocess.Popen(
        command(tmp_path, data_dir),
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: checkpoint_steps(tmp_path), process)
    os.kill(process.pid, signal.SIGKILL)
    printed, log = process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert log == ""  # nothing of TensorFlow's, nor of SentencePiece's
    first, second, *_ = printed.splitlines()
    file = tmp_path / "config.json"
    assert first.startswith("training t5-nano with hyperprompt-global on nano/acc")
    assert second == f"writing to {tmp_path}; all settings are in {file}"
    assert len(printed.splitlines()) < 8
    reached = checkpoint_steps(tmp_path)[-1]
    assert 0 < reached < STEPS
    assert config_file.read(tmp_path) == CONFIG
    assert train(CONFIG, tmp_path, data_dir=data_dir) == STEPS
    printed = capsys.readouterr().out
    assert f"going on from {tmp_path}/model.ckpt-{reached}" in printed
    assert f"step {STEPS} of {STEPS}" in printed
    assert_same(tmp_path, never_stopped)
    assert [r["step"] for r in read_log(tmp_path)] == list(range(1, STEPS + 1))


@pytest.mark.slow
def test_a_run_asked_to_end_saves_and_goes_on(
    never_stopped, data_dir, tmp_path, monkeypatch, capsys
):
    config = CONFIG.replace(checkpoint_every=1000)
    log = RunFolder.append_log

    def ask_at_step_4(folder, record):
        log(folder, record)
        if record["step"] == 4:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(RunFolder, "append_log", ask_at_step_4)
    assert train(config, tmp_path, data_dir=data_dir) == 4
    assert checkpoint_steps(tmp_path) == [4]
    assert read_log(tmp_path)[-1]["step"] == 4  # nothing done was lost
    assert f"step 4 of {STEPS}" in capsys.readouterr().out
    monkeypatch.undo()
    assert train(config, tmp_path, data_dir=data_dir) == STEPS
    assert_same(tmp_path, never_stopped)


def copy_of(folder, tmp_path):
    return str(shutil.copytree(folder, tmp_path / "copy"))


def contents(folder):
    return {
        name: os.stat(os.path.join(folder, name)).st_mtime_ns
        for name in os.listdir(folder)
        if name != ".lock"
    }


def test_another_configuration_in_an_old_folder(never_stopped, data_dir):
    before = contents(never_stopped)
    other = CONFIG.replace(learning_rate=0.25, conditioner="none")
    with pytest.raises(ValueError, match="holds a run with another") as error:
        train(other, never_stopped, data_dir=data_dir)
    assert "learning_rate: 0.015 then, 0.25 now" in str(error.value)
    assert "conditioner: 'hyperprompt-global' then, 'none' now" in str(error.value)
    assert "steps_per_loop" not in str(error.value)  # which is free to change
    assert contents(never_stopped) == before


def test_what_may_change_in_an_old_folder(never_stopped, data_dir, tmp_path, capsys):
    folder = copy_of(never_stopped, tmp_path)
    config = CONFIG.replace(steps=STEPS + 3, keep=2, checkpoint_every=2)
    assert train(config, folder, data_dir=data_dir) == STEPS + 3
    assert f"going on from {folder}/model.ckpt-{STEPS}" in capsys.readouterr().out
    assert checkpoint_steps(folder) == [STEPS + 2, STEPS + 3]
    assert config_file.read(folder) == config


def test_steps_are_not_free_where_the_rate_depends_on_them(tmp_path):
    linear = CONFIG.replace(schedule="linear")
    folder = RunFolder(tmp_path)
    config_file.claim(folder, linear)
    with pytest.raises(ValueError, match=f"steps: {STEPS} then, {STEPS + 1} now"):
        config_file.claim(folder, linear.replace(steps=STEPS + 1))


def test_a_finished_run_is_left_alone(never_stopped, data_dir, tmp_path):
    folder = copy_of(never_stopped, tmp_path)
    before = tensors(folder, STEPS)
    assert train(CONFIG, folder, data_dir=data_dir) == STEPS
    assert tensors(folder, STEPS).keys() == before.keys()
    assert checkpoint_steps(folder) == [15, STEPS]


def test_a_folder_in_use_is_refused(data_dir, tmp_path):
    folder = RunFolder(tmp_path)
    folder.lock()
    with pytest.raises(RuntimeError, match=f"in use by process {os.getpid()}"):
        train(CONFIG, tmp_path, data_dir=data_dir)
    folder.unlock()
    assert os.listdir(tmp_path) == [".lock"]


def parsed(*arguments):
    """The config that `experiments.train` makes of flags."""
    return run_flags.config_of(read_flags(*arguments))


def read_flags(*arguments):
    values = flags.FlagValues()
    program._define(values)
    values(["train", *arguments])
    return values


def test_flags_become_the_config(data_dir, tmp_path):
    arguments = [
        argument
        for argument in command(tmp_path, data_dir)[3:]
        if not argument.startswith(("--model_dir", "--data_dir"))
    ]
    assert parsed(*arguments) == CONFIG


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("bottleneck=4", {"bottleneck": 4}),
        ("a=1,b=word,c=(1, 2)", {"a": 1, "b": "word", "c": (1, 2)}),
        ("a=[1,2],b={'x': 1},c=None", {"a": [1, 2], "b": {"x": 1}, "c": None}),
        ("hyperprompt-global.reduction=8", {"hyperprompt-global.reduction": 8}),
        ("", {}),
    ],
)
def test_options_of_a_conditioner(text, options):
    assert run_flags.parse_options(text) == options
    given = f"--conditioner_options={text}"
    config = parsed("--conditioner=hyperprompt-global", given)
    assert config.conditioner_options == options


def test_epochs_decide_the_steps(data_dir):
    config = parsed("--model=t5-nano", f"--mixture={TASKS}", "--epochs=1.5")
    mixture = components.make_mixture(config)
    tasks = mixture.tasks
    rows = sum(len(list(task.examples("train", data_dir))) for task in tasks)
    steps = components.with_steps(config, mixture, data_dir).steps
    assert (steps - 1) * config.batch_size < 1.5 * rows <= steps * config.batch_size


def test_rates_of_their_own():
    config = parsed("--learning_rate=0.001", "--learning_rates=skill_logits=0.01")
    assert config.learning_rates == {"skill_logits": 0.01}
    for optimizer in ("adafactor", "adamw"):
        made = components.make_optimizer(config.replace(optimizer=optimizer))
        assert made.rate_factors.factors == {"skill_logits": pytest.approx(10)}


def test_options_of_a_named_config():
    named = get_config("hyperprompt_base_global").conditioner_options
    config = parsed("--config=hyperprompt_base_global", "--conditioner_options=a=1")
    assert config.conditioner_options == {**named, "a": 1}
    config = parsed("--config=hyperprompt_base_global", "--conditioner=hypergrid")
    assert config.conditioner_options == {}  # another method's are not its own


BAD = [
    (["--config=nanno"], "unknown config 'nanno'; did you mean 'nano'"),
    (["--conditioner=hyperpromt-global"], "unknown conditioner 'hyperpromt-global'"),
    (
        ["--conditioner=hyperformer++", "--conditioner_options=botleneck=4"],
        "unknown option 'botleneck'; did you mean 'bottleneck'",
    ),
    (["--conditioner_options=bottleneck"], "'bottleneck', expected name=value"),
    (
        ["--conditioner=hypergrid", "--conditioner_options=d_r=7"],
        "d_r=7",
    ),
    (["--batch_size=8", "--microbatches=3"], "microbatches=3, expected a divisor of"),
    (["--steps=0"], "steps=0, expected an integer >= 1"),
    (["--mixture=glue/rte"], "python -m tfds_tasks.prepare --source=glue/rte"),
    (["--mixture=nano/acceptabilty"], "nano/acceptability"),
    (["--init=/nowhere/model"], "no checkpoint at /nowhere/model"),
    (["--model=t5-nanno"], "t5-nano"),
    (["--vocabulary=/nowhere"], "/nowhere"),
    (["--learning_rates=skil=0.01"], "'skil' matches none of"),
    (["--learning_rates=skil"], "learning_rates='skil': 'skil', expected name=value"),
    (["--learning_rates=skil=-1"], "expected a number >= 0 for 'skil'"),
    (["--epochs=0"], "epochs=0.0, expected a number > 0"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=[" ".join(a) for a, _ in BAD])
def test_bad_flags_are_named_and_leave_no_trace(arguments, words, data_dir, tmp_path):
    """Errors of these kinds are printed in a line; see `runs.program`."""
    model_dir = tmp_path / "run"
    small = ["--config=nano", f"--mixture={TASKS}"]
    with pytest.raises((ValueError, OSError, RuntimeError)) as error:
        train(parsed(*small, *arguments), model_dir, data_dir=data_dir)
    assert words in str(error.value)
    assert not model_dir.exists()


def test_a_line_says_how_long_it_takes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training_run, "SECONDS_BETWEEN_LINES", 0)
    follow = training_run.Followers(RunFolder(tmp_path), steps=100)
    speed = dict.fromkeys(training_run.OF_SPEED, 8.0)
    record = {"step": 20, "loss": 1.5, "learning_rate": 0.1, "task_loss": {}, **speed}
    follow({**record, "seconds_per_step": 2.0})
    follow({**record, "seconds_per_step": 2.0, "step": 100})  # says itself that it ends
    printed = capsys.readouterr().out
    assert printed == "step 20 of 100, loss 1.500, about 3 minutes left\n"


def test_no_folder():
    with pytest.raises(app.UsageError, match="--model_dir is not set"):
        program._call(read_flags("--config=nano"))


def test_the_names_of_configurations_are_listed(capsys):
    program._call(read_flags("--config=list"))
    assert "hypergrid_base_l2\n" in capsys.readouterr().out


def test_settings_in_full_if_asked(capsys):
    full = config_file.shown(CONFIG).splitlines()
    assert "* dropout              0.1" in full and "  splits               t5" in full
    fields = dataclasses.fields(CONFIG)
    assert len(full) == sum(field.metadata["flag"] for field in fields)
    brief = config_file.shown_briefly(CONFIG)
    assert "dropout=0.1" in brief and "splits" not in brief and "keep" not in brief
    assert len(brief.splitlines()) <= 2
