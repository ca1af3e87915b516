"""Trains and evaluates, run after run as told in JSON; prints how each ended.

    python -m tests.mesh.train_program /tmp/tfds '[{"folder": "/tmp/a", ...}, ...]'

Apart from pytest, because devices are divided before TensorFlow starts. With the
environment variables of `hypertf.mesh.devices` it is one of several processes.
"""

import json
import os
import shutil
import signal
import sys

from tensorflow.experimental import dtensor

from experiments.configs import get_config
from experiments.evaluate import evaluate
from experiments.train import train
from hypertf.training import RunFolder
from tests.helpers import shallow_nano

CONFIG = get_config("nano").replace(
    mixture="nano/acceptability,nano/paraphrase",
    dropout=0.1,
    steps=4,
    batch_size=8,
    clip_norm=1.0,
    learning_rate=0.001,
    schedule="constant",
    decay_start=0,
    final_learning_rate=0.0,
    steps_per_loop=1,
    checkpoint_every=2,
    keep=0,
)


def run(folder, data_dir, copy_of=None, up_to_half=False, asked_to_end=None, **options):
    """How a run in `folder` ended: the step it reached, or what was wrong.

    Args:
        copy_of: another folder, which `folder` is made a copy of first.
        up_to_half: whether the checkpoint of the last step is left out of it.
        asked_to_end: {process: the step at which it gets a SIGTERM}.
        options: of `train`, and "changes" of the configuration.
    """
    if copy_of is not None:
        later = [f"*.ckpt-{CONFIG.steps}.*"] if up_to_half else []
        shutil.copytree(copy_of, folder, ignore=shutil.ignore_patterns(*later))
    at = (asked_to_end or {}).get(str(dtensor.client_id()))
    config = CONFIG.replace(**options.pop("changes", {}))
    log = RunFolder.append_log

    def look(folder, record):
        log(folder, record)
        if record["step"] == at:
            signal.raise_signal(signal.SIGTERM)

    RunFolder.append_log = look
    try:
        return {"reached": train(config, folder, data_dir=data_dir, **options)}
    except (RuntimeError, ValueError) as error:
        return {"error": str(error), "left": os.path.exists(folder)}
    finally:
        RunFolder.append_log = log


def score(folder, data_dir, **options):
    """The scores of a run's last checkpoint, and what was written.

    Args:
        options: of `evaluate`.
    """
    try:
        results = evaluate(folder, data_dir=data_dir, batch_size=104, **options)
    except (RuntimeError, ValueError) as error:
        return {"error": str(error)}
    run, texts = RunFolder(folder, writes=False), {}
    for task in CONFIG.mixture.split(","):
        with open(run.predictions_file("validation", CONFIG.steps, task)) as lines:
            texts[task] = [json.loads(line)["text"] for line in lines]
    how = results.records[CONFIG.steps]["how"]
    return {"scores": results.scores, "how": how, "texts": texts}


def main(data_dir, runs):
    ended, ways = [], {"run": run, "score": score}
    with shallow_nano():
        for told in json.loads(runs):
            ended.append(ways[told.pop("do", "run")](data_dir=data_dir, **told))
    print(json.dumps(ended))


if __name__ == "__main__":
    main(*sys.argv[1:])
