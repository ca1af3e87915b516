"""Two processes that talk over the loopback train what one process trains."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from experiments import run, settings
from experiments.configs import get_config
from hypertf.training import RunFolder, checkpoint_steps, read_log
from tests.conftest import ROOT
from tests.helpers import relative_error
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
WORKER = """
import sys
from experiments import run
from experiments.configs import Config
with open(sys.argv[1]) as file:
    config = Config.from_json(file.read())
print("reached", run.train(config, sys.argv[2], sys.argv[3], "multi_worker"))
"""


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def start_workers(config_file, model_dirs, data_dir):
    """A process for each folder; they are told of each other by TF_CONFIG."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(len(model_dirs))]
    processes = []
    for index, folder in enumerate(model_dirs):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": addresses}, "task": task}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER, config_file, folder, data_dir],
                cwd=ROOT,
                env={**os.environ, "TF_CONFIG": json.dumps(config)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return processes


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Of one process, and of the two workers, which do not share theirs."""
    root = tmp_path_factory.mktemp("multi")
    data_dir = str(root / "tfds")
    get_mixture(TASKS).probabilities("train", data_dir)  # written on first use
    (root / "config.json").write_text(CONFIG.to_json())
    workers = [str(root / "chief"), str(root / "other")]
    processes = start_workers(str(root / "config.json"), workers, data_dir)
    try:
        outputs = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output[-5000:]
        assert "reached 4" in output
    run.train(CONFIG, str(root / "one"), data_dir)
    return str(root / "one"), *workers


def test_the_weights_are_those_of_one_process(folders):
    one, chief, _ = folders
    readers = [
        tf.train.load_checkpoint(RunFolder(path, writes=False).prefix(4))
        for path in (one, chief)
    ]
    names = [reader.get_variable_to_shape_map() for reader in readers]
    assert names[0] == names[1] and any("_slot_" in name for name in names[0])
    for name in names[0]:
        expected, got = (reader.get_tensor(name) for reader in readers)
        assert relative_error(got, expected) < 1e-3, name


def test_so_are_the_losses(folders):
    one, chief, _ = folders
    expected, got = read_log(one), read_log(chief)
    assert [record["step"] for record in got] == [2, 4]
    for mine, other in zip(got, expected, strict=True):
        assert mine["task_examples"] == other["task_examples"]
        np.testing.assert_allclose(mine["loss"], other["loss"], rtol=1e-4)


def test_only_the_chief_writes(folders):
    _, chief, other = folders
    assert checkpoint_steps(chief) == [2, 4]
    assert settings.read(chief) == CONFIG
    assert not os.path.exists(other)
