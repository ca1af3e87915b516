"""Trains and scores what this folder reports: T5 1.1-small on ten real tasks.

    python -m experiments.results.real_small.driver --background
    python -m experiments.results.real_small.driver --seeds=3

First short runs of the plain T5 on packed rows, of which the learning rate and the
schedule with the lowest loss on validation examples are taken for all systems; then
the systems, seed by seed; then report.md and the pictures here. Goes on where it was
stopped or killed: at the checkpoint that a run had reached. With --background in a
process of its own, which outlives the terminal and writes to driver.log in --runs.
"""

import gc
import json
import os
import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf
from absl import flags

from experiments.comparison.runs import complete, is_done
from experiments.configs import Config, get_config
from experiments.report import report
from experiments.runs import components, program
from experiments.runs.prediction import Scorer
from experiments.runs.training_run import train_run
from tfds_tasks.batches import tokens

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = "out/real"
SYSTEMS = ("real_small", "real_small_hyperprompt_global", "real_small_unpacked")
SHORT = 40  # steps of a run that only says which rate is best
RATES, SCHEDULES = (1e-3, 3e-3, 1e-2), ("constant", "linear")
HELD_OUT = 64  # validation examples of each task that its loss is taken of


def run_all(
    runs: str = RUNS,
    *,
    systems: dict[str, Config] | None = None,
    init: str | None = None,
    data_dir: str | None = None,
    seeds: int = 1,
    short: int = SHORT,
    output: str = HERE,
) -> str:
    """Trains and scores what is missing; returns the path of the report.

    Args:
        runs: folder of the runs, by which a stopped queue goes on.
        systems: {name: configuration}, the one that rates are tried on first; by
            default those of the report.
        init: folder of the pretrained weights; by default what the systems say.
        data_dir: folder of the TFDS data.
        seeds: runs of each system.
        short: steps of the runs that choose the rate.
        output: folder of the report.
    """
    runs, data_dir = components.expand(runs), components.expand(data_dir)
    systems = systems or {name: get_config(name) for name in SYSTEMS}
    if init is not None:
        init = components.expand(init)
        systems = {name: c.replace(init=init) for name, c in systems.items()}
    chosen = choose_rate(next(iter(systems.values())), runs, data_dir, short)
    print(f"learning rate and schedule of all systems: {chosen}", flush=True)
    folders = []
    # Seed by seed, so that a queue that is stopped has all systems.
    for seed in range(seeds):
        for name, config in systems.items():
            folder = os.path.join(runs, name if seeds == 1 else f"{name}-seed{seed}")
            config = config.replace(seed=seed, **settings(chosen, config.steps))
            if not is_done(folder, config):
                complete(config, folder, data_dir)
            folders.append(folder)
            report(folders, output=output)
    return os.path.join(output, "report.md")


def choose_rate(config: Config, runs: str, data_dir: str | None, short: int) -> dict:
    """Returns the rate and schedule of the lowest validation loss after short runs.

    First the rate, with the first schedule, then the schedule. All losses are kept in
    search.json, and none is measured twice.
    """
    losses = _Losses(config, runs, data_dir, short)
    rate = min(RATES, key=lambda rate: losses.of(rate, SCHEDULES[0]))
    schedule = min(SCHEDULES, key=lambda schedule: losses.of(rate, schedule))
    return {"learning_rate": rate, "schedule": schedule}


class _Losses:
    """Validation losses after short runs, measured when they are first asked for."""

    def __init__(self, config, runs, data_dir, short):
        self._config, self._runs, self._data_dir = config, runs, data_dir
        self._short, self._file = short, os.path.join(runs, "search.json")
        self._known = {}
        if tf.io.gfile.exists(self._file):
            with tf.io.gfile.GFile(self._file) as file:
                self._known = json.load(file)

    def of(self, rate: float, schedule: str) -> float:
        """Returns the loss with a rate and a schedule."""
        key = f"{schedule} {rate:g}"
        if key not in self._known:
            self._known[key] = self._measure(rate, schedule)
            with tf.io.gfile.GFile(self._file, "w") as file:
                file.write(json.dumps(self._known, indent=1) + "\n")
            print(f"{key}: validation loss {self._known[key]:.4f}", flush=True)
        return self._known[key]

    def _measure(self, rate, schedule):
        folder = os.path.join(self._runs, "search", f"{schedule}-{rate:g}")
        choice = {"learning_rate": rate, "schedule": schedule}
        length = {"steps": self._short, "checkpoint_every": self._short}
        config = self._config.replace(**length, **settings(choice, self._short))
        train_run(config, folder, self._data_dir)
        loss = validation_loss(config, folder, self._data_dir)
        tf.io.gfile.rmtree(folder)
        keras.backend.clear_session()
        gc.collect()  # a model and its functions refer to each other
        return loss


def settings(choice: dict, steps: int) -> dict:
    """Fills in what a schedule needs: a tenth of the steps to rise, then down to 0.

    >>> settings({"learning_rate": 0.001, "schedule": "constant"}, 100)["warmup_steps"]
    10
    """
    return {**choice, "warmup_steps": steps // 10}


def validation_loss(config: Config, folder: str, data_dir: str | None) -> float:
    """Returns the loss of a target token, the mean over tasks of their examples."""
    scorer = Scorer(config, data_dir=data_dir)
    scorer.load(folder, config.steps)
    losses = []
    for task in scorer.mixture.tasks:
        examples = scorer.examples[task.name][:HELD_OUT]
        targets = tokens(
            [e["targets"] for e in examples], scorer.vocabulary, config.targets_length
        )
        inputs = {
            "encoder_tokens": tokens(
                [e["inputs"] for e in examples],
                scorer.vocabulary,
                config.inputs_length,
            ),
            "targets": targets,
            "task_ids": np.full(len(examples), scorer.mixture.task_id(task.name)),
        }
        if config.conditioner == "none":
            del inputs["task_ids"]
        scores = scorer.model.score(inputs).numpy()
        losses.append(-scores.sum() / np.count_nonzero(targets.numpy()))
    return float(np.mean(losses))


def start_in_background(runs: str, arguments: list[str]) -> str:
    """Starts this program anew, on its own; returns the path of its log."""
    tf.io.gfile.makedirs(runs)
    path = os.path.join(runs, "driver.log")
    module = "experiments.results.real_small.driver"
    with open(path, "a") as log:
        subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return path


def _define(values):
    options = {"flag_values": values}
    flags.DEFINE_string("runs", RUNS, "Folder of the runs.", **options)
    flags.DEFINE_string("init", None, "Folder of the pretrained weights.", **options)
    flags.DEFINE_string("data_dir", None, "Folder of the TFDS data.", **options)
    flags.DEFINE_integer("seeds", 1, "Runs of each system.", lower_bound=1, **options)
    flags.DEFINE_bool(
        "background", False, "In a process of its own; returns at once.", **options
    )


def _call(values):
    if values.background:
        arguments = [a for a in sys.argv[1:] if not a.startswith("--background")]
        log = start_in_background(values.runs, arguments)
        print(f"going on in the background; see {log}")
        return
    options = program.given(values, "init", "data_dir", "seeds")
    print(f"written to {run_all(values.runs, **options)}")


if __name__ == "__main__":
    program.run("experiments.results.real_small.driver", _define, _call)
