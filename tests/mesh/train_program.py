"""Trains by `experiments.train`, run after run as told in JSON; prints how they ended.

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


def main(data_dir, runs):
    with shallow_nano():
        ended = [run(data_dir=data_dir, **told) for told in json.loads(runs)]
    print(json.dumps(ended))


if __name__ == "__main__":
    main(*sys.argv[1:])
