"""Two processes that talk over the loopback train what one process trains."""

import json
import os
import re
import socket
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from experiments.configs import get_config
from experiments.runs import config_file
from experiments.train import train
from hypertf.training import RunFolder, checkpoint_steps, read_log
from tests.conftest import ROOT
from tests.helpers import relative_error, shallow_nano
from tfds_tasks import get_mixture

pytestmark = pytest.mark.slow

TASKS = "nano/acceptability,nano/paraphrase"
CONFIG = get_config("nano_hyperprompt_global").replace(
    mixture=TASKS,
    dropout=0.0,
    steps=4,
    batch_size=8,
    microbatches=2,
    clip_norm=1.0,
    learning_rate=0.001,
    schedule="constant",
    decay_start=0,
    final_learning_rate=0.0,
    steps_per_loop=2,
    checkpoint_every=2,
)
# Trains in one folder after the other, and says what it reached or what was wrong. Is
# taken away, as a machine is, at a step of its choice; 0 is never.
WORKER = """
import os, signal, sys
from experiments.configs import Config
from experiments.train import train
from hypertf.training import RunFolder
from tests.helpers import shallow_nano

def look(folder, record, log=RunFolder.append_log):
    log(folder, record)
    if record["step"] == int(end):
        os.kill(os.getpid(), signal.SIGTERM)

RunFolder.append_log = look
file, data_dir, end, *folders = sys.argv[1:]
with open(file) as file:
    config = Config.from_json(file.read())
for folder in folders:
    try:
        with shallow_nano():
            reached = train(config, folder, data_dir=data_dir, strategy="multi_worker")
        print("reached", reached)
    except (RuntimeError, ValueError) as error:
        print("refused:", error)
"""


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def run_workers(config_file, model_dirs, data_dir, ends=(0, 0)):
    """A process for each list of folders, told of each other by TF_CONFIG.

    Returns the exit code and the output of each.
    """
    addresses = [f"127.0.0.1:{port}" for port in free_ports(len(model_dirs))]
    processes = []
    for index, (folders, end) in enumerate(zip(model_dirs, ends, strict=True)):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": addresses}, "task": task}
        arguments = [config_file, data_dir, str(end), *folders]
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER, *arguments],
                cwd=ROOT,
                env={**os.environ, "TF_CONFIG": json.dumps(config)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        outputs = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(p.returncode, out) for p, out in zip(processes, outputs, strict=True)]


@pytest.fixture(scope="module")
def ran(data_dir, tmp_path_factory):
    """The folders of one process and of two workers, and what the workers said.

    The worker that is not the chief is asked to end at step 2. Started again, it first
    has a folder of its own; then both go on to the last step.
    """
    root = tmp_path_factory.mktemp("multi")
    one, two, alone = (str(root / name) for name in ("one", "two", "alone"))
    get_mixture(TASKS).probabilities("train", data_dir)  # written on first use
    (root / "config.json").write_text(CONFIG.to_json())
    config = str(root / "config.json")
    said = {
        "taken away": run_workers(config, [[two], [two]], data_dir, ends=(0, 2)),
        "started again": run_workers(config, [[two, two], [alone, two]], data_dir),
    }
    with shallow_nano():
        train(CONFIG, one, data_dir=data_dir)
    return one, two, said


def test_a_worker_that_is_asked_to_end_ends_all_cleanly(ran):
    for code, output in ran[2]["taken away"]:
        assert code == 0, output[-5000:]
        assert "reached 2" in output


def test_workers_that_do_not_share_a_folder_do_not_begin(ran):
    for step, (_, output) in zip((2, 0), ran[2]["started again"], strict=True):
        message = f"this process begins at step {step}, another one elsewhere"
        refused = re.search(r"^refused: .*$", output, re.MULTILINE)
        assert refused and message in refused[0], output[-5000:]


def test_started_again_they_go_on_to_the_end(ran):
    for code, output in ran[2]["started again"]:
        assert code == 0, output[-5000:]
        assert "going on from" in output and "reached 4" in output


def test_the_weights_are_those_of_one_process(ran):
    one, two, _ = ran
    readers = [
        tf.train.load_checkpoint(RunFolder(path, writes=False).prefix(4))
        for path in (one, two)
    ]
    names = [reader.get_variable_to_shape_map() for reader in readers]
    assert names[0] == names[1] and any("_slot_" in name for name in names[0])
    for name in names[0]:
        expected, got = (reader.get_tensor(name) for reader in readers)
        assert relative_error(got, expected) < 1e-3, name


def test_so_are_the_losses(ran):
    one, two, _ = ran
    expected, got = read_log(one), read_log(two)
    assert [record["step"] for record in got] == [2, 4]
    for mine, other in zip(got, expected, strict=True):
        assert mine["task_examples"] == other["task_examples"]
        np.testing.assert_allclose(mine["loss"], other["loss"], rtol=1e-4)


def test_only_the_chief_writes(ran):
    _, two, _ = ran
    assert checkpoint_steps(two) == [2, 4]
    assert config_file.read(two) == CONFIG
    assert not os.path.exists(os.path.join(os.path.dirname(two), "alone"))
