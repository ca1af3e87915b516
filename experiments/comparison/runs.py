"""The runs of the comparison: trained, scored, and found again after a stop."""

import gc
import json
import os
import re
import subprocess
import time

import keras
import tensorflow as tf

from experiments.configs import Config
from experiments.runs import config_file
from experiments.runs.eval_results import Results
from experiments.runs.prediction import Scorer
from experiments.runs.training_run import train_run

COMMIT = "commit.json"  # of a run's folder: the commit it was begun at
EVAL_BATCH = 256
HERE = os.path.dirname(os.path.abspath(__file__))


def run_folder(runs: str, system: str, seed: int) -> str:
    """Returns the folder of a run.

    >>> run_folder("out", "hyperformer++", 1)
    'out/hyperformer++/seed1'
    """
    return os.path.join(runs, re.sub(r"[^\w+-]+", "_", system), f"seed{seed}")


def is_done(folder: str, config: Config) -> bool:
    """Tells whether a run of this configuration has been scored at its last step."""
    if config.steps not in Results(folder).scores:
        return False
    return not config_file.read(folder).differences(config)


def complete(config: Config, folder: str, data_dir: str | None) -> None:
    """Trains what is left of a run, and scores its last step."""
    tf.io.gfile.makedirs(folder)
    path = os.path.join(folder, COMMIT)
    if not tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path, "w") as file:
            file.write(json.dumps(commit_now()) + "\n")
    train_run(config, folder, data_dir)
    began = time.time()
    scorer = Scorer(config, data_dir=data_dir, batch_size=EVAL_BATCH)
    scorer.load(folder, config.steps)
    scores, predictions = scorer.score()
    taken = time.time() - began
    Results(folder).add(config.steps, scores, scorer.how, taken, predictions)
    del scorer
    keras.backend.clear_session()
    gc.collect()  # a model and its functions refer to each other


def commit_of(folder: str) -> str:
    """Returns the commit that a run was begun at, as text."""
    with tf.io.gfile.GFile(os.path.join(folder, COMMIT)) as file:
        kept = json.load(file)
    return kept["commit"] + (", with changes" if kept["changed"] else "")


def commit_now() -> dict:
    """Returns {"commit", "changed"} of the checkout; unknown outside of one."""
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return {"commit": "unknown", "changed": False}
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "changed": bool(changed)}


def _git(*words):
    try:
        made = subprocess.run(
            ["git", *words], cwd=HERE, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return made.stdout.strip()
