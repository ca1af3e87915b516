"""The folder of a run, its model_dir: every path in it, its lock, checkpoints and log.

    config.json                      what the run computes
    model.ckpt-1000.index, .data-*   weights, optimizer slots, step (Mesh TensorFlow's
                                     form: `hypertf.checkpoints.load` reads them too)
    model.ckpt-1000.position.json    where packed data go on after that step
    checkpoint                       names the newest, as TensorFlow does
    train.jsonl                      a line for every look at the losses
    train/                           the same for TensorBoard
    eval/validation.json             scores of checkpoints on a split
    eval/validation-1000/            what the checkpoint of a step wrote, by task
    eval/                            the scores for TensorBoard
    report/                          tables and figures
    .lock                            held by the process that trains

Random numbers and the order of the data are functions of the seed and the step, so
the step is all there is to remember of them; of packed data, whose steps have not as
many examples each, also the place that was reached.
"""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf
from absl import logging

from hypertf import checkpoints

_NAME = re.compile(r"model\.ckpt-(\d+)\.index")
_HALF_WRITTEN = re.compile(r"model\.ckpt-\d+\.[0-9a-f]+\.tmp")  # by checkpoints.save


class RunFolder:
    """Reads and writes a run's files; remote paths such as gs://... too.

    Args:
        path: the folder, made if absent.
        keep: how many of the newest checkpoints stay; 0 keeps all.
        writes: whether this process writes; of several, only the chief.
    """

    def __init__(
        self, path: str | os.PathLike, keep: int = 0, writes: bool = True
    ) -> None:
        self.path, self.keep, self.writes = os.fspath(path), keep, writes
        self._lock, self._logged = None, False
        if writes:
            tf.io.gfile.makedirs(self.path)

    @property
    def is_remote(self) -> bool:
        """Whether it lies elsewhere, such as on gs://."""
        return "://" in self.path

    def file(self, name: str) -> str:
        """Returns the path of a file or folder inside."""
        return os.path.join(self.path, name)

    @property
    def config_file(self) -> str:
        """The path of the run's configuration."""
        return self.file("config.json")

    @property
    def log_file(self) -> str:
        """The path of the log of training, JSON lines."""
        return self.file("train.jsonl")

    @property
    def training_summaries(self) -> str:
        """The folder of what TensorBoard shows of training."""
        return self.file("train")

    @property
    def score_summaries(self) -> str:
        """The folder of what TensorBoard shows of scores."""
        return self.file("eval")

    def scores_file(self, split: str) -> str:
        """Returns the path of the scores on a split."""
        return self.file(f"eval/{split}.json")

    def predictions_file(self, split: str, step: int, task: str) -> str:
        """Returns the path of what the checkpoint of a step wrote for a task."""
        return self.file(f"eval/{split}-{step}/{task.replace('/', '_')}.jsonl")

    @property
    def report_folder(self) -> str:
        """The folder of the run's report."""
        return self.file("report")

    def write_text(self, path: str, text: str) -> None:
        """Writes a file of this folder whole or not at all; makes what is above it."""
        tf.io.gfile.makedirs(os.path.dirname(path))
        with tf.io.gfile.GFile(path + ".tmp", "w") as file:
            file.write(text)
        tf.io.gfile.rename(path + ".tmp", path, overwrite=True)

    def lock(self) -> None:
        """Refuses a second process; the lock ends with the process that holds it."""
        if self.is_remote:
            logging.warning(
                "%s is remote: a second process would not be seen", self.path
            )
            return
        self._lock = open(self.file(".lock"), "a+")  # noqa: SIM115 (held until unlock)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise RuntimeError(
                f"model_dir {self.path} is in use by process {owner}; expected no "
                "other training in it"
            ) from error
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()
        self._clear()

    def _clear(self):
        """Removes what a process left half written when it was killed."""
        for name in os.listdir(self.path):
            if _HALF_WRITTEN.fullmatch(name):
                shutil.rmtree(self.file(name), ignore_errors=True)

    def unlock(self) -> None:
        """Lets go of the lock, if it is held."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def steps(self) -> list[int]:
        """Lists the steps of checkpoints that were written to the end, in order."""
        return checkpoint_steps(self.path)

    def prefix(self, step: int) -> str:
        """Returns the path of a step's checkpoint, as TensorFlow names one."""
        return self.file(f"model.ckpt-{step}")

    def save(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer, step: int
    ) -> None:
        """Writes the checkpoint of a step, then removes those too many."""
        if not self.writes:
            return
        checkpoints.save(
            model,
            self.prefix(step),
            format="mesh",
            optimizer=optimizer,
            step=step,
            overwrite=True,  # one of that step can only be there if it is damaged
        )
        self.remove_old()

    def remove_old(self) -> None:
        """Removes the oldest checkpoints until `keep` are left."""
        if not self.writes:
            return
        for old in self.steps()[: -self.keep] if self.keep else ():
            self._remove(old)

    def _remove(self, step):
        # The index first: without it the rest is no checkpoint.
        prefix = self.prefix(step)
        for file in [prefix + ".index", *tf.io.gfile.glob(prefix + ".data-*")]:
            tf.io.gfile.remove(file)
        if tf.io.gfile.exists(self.position_file(step)):
            tf.io.gfile.remove(self.position_file(step))

    def position_file(self, step: int) -> str:
        """Returns the path of the place that the data had reached after a step."""
        return self.prefix(step) + ".position.json"

    def save_position(self, step: int, position: Sequence[int] | None) -> None:
        """Writes where the data go on after a step; before its checkpoint is there."""
        if self.writes and position is not None:
            self.write_text(self.position_file(step), json.dumps(list(position)) + "\n")

    def position(self, step: int) -> tuple[int, ...] | None:
        """Reads where the data go on after a step; None if the step says it."""
        path = self.position_file(step)
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path) as file:
            return tuple(json.loads(file.read()))

    def restore(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer | None = None,
    ) -> int:
        """Loads the newest whole checkpoint; returns its step, 0 if there is none.

        A damaged one is reported, and the one before is taken.
        """
        return self.restore_by(
            lambda prefix: checkpoints.load(model, prefix, optimizer)
        )

    def restore_by(self, load: Callable[[str], object]) -> int:
        """Does as `restore`, by a function that loads the checkpoint at a prefix."""
        damaged = []
        for step in reversed(self.steps()):
            try:
                load(self.prefix(step))
            except (ValueError, tf.errors.OpError) as error:
                logging.error(
                    "checkpoint %s is damaged: %s",
                    self.prefix(step),
                    _first_line(error),
                )
                damaged.append(f"{self.prefix(step)}: {_first_line(error)}")
                continue
            return step
        if damaged:
            raise ValueError(
                f"no checkpoint of {self.path} can be read; expected a whole one, or "
                "an empty folder\n" + "\n".join(damaged)
            )
        return 0

    def append_log(self, record: Mapping) -> None:
        """Adds a record to the log of training."""
        if not self.writes:
            return
        # A line of a process that was killed must not swallow this one.
        end = "" if self._logged or _ends_a_line(self.log_file) else "\n"
        with tf.io.gfile.GFile(self.log_file, "a") as file:
            file.write(end + json.dumps(record) + "\n")
        self._logged = True


def checkpoint_steps(path: str | os.PathLike) -> list[int]:
    """Lists the steps of a folder's checkpoints; none if there is no such folder."""
    if not tf.io.gfile.isdir(path):
        return []
    names = (_NAME.fullmatch(name) for name in tf.io.gfile.listdir(path))
    return sorted(int(name[1]) for name in names if name)


def read_log(path: str | os.PathLike) -> list[dict]:
    """Reads a run's log in order of steps; of a step run twice, the last record."""
    file = RunFolder(path, writes=False).log_file
    if not tf.io.gfile.exists(file):
        return []
    records = {}
    with tf.io.gfile.GFile(file) as lines:
        for line in lines:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut short when the process was killed
            records[record["step"]] = record
    return [records[step] for step in sorted(records)]


def _ends_a_line(path):
    """Whether a file is absent, empty, or has a newline at its end."""
    size = tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else 0
    if not size:
        return True
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(size - 1)
        return file.read(1) == b"\n"


def _first_line(error):
    return str(error).splitlines()[0] if str(error) else type(error).__name__
