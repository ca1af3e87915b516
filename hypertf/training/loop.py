"""The training loop: from a checkpoint or from nothing to the last step.

It looks at the losses every `steps_per_loop` steps, writes checkpoints, ends cleanly
on SIGTERM, and stops when a loss is not a number before anything bad is written.
"""

import contextlib
import dataclasses
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from hypertf.training.run_folder import RunFolder
from hypertf.training.step import TrainStep
from hypertf.training.strategies import distribute


class NotANumber(RuntimeError):
    """A loss is NaN or infinite; the message names step, tasks and checkpoint."""


@dataclasses.dataclass
class Loop:
    """Trains up to `steps`.

    Attributes:
        train_step: a `TrainStep`.
        make_dataset: function of `start`, `host` and `num_hosts` to tf.data. `start`
            is the number of steps done, or, if the data say where their next batch
            begins ("next_position"), what they said at that step.
        folder: a `RunFolder`.
        steps: the last step.
        batch_size: examples of a step, over all replicas; None where steps differ.
        steps_per_loop: steps between two looks.
        checkpoint_every: steps between two checkpoints.
        task_names: of the task ids.
        on_log: called with the record of every look.
        profile: run step by step and measure what is spent waiting for data.
    """

    train_step: TrainStep
    make_dataset: Callable
    folder: RunFolder
    steps: int
    batch_size: int | None
    steps_per_loop: int = 100
    checkpoint_every: int = 1000
    task_names: tuple[str, ...] = ()
    on_log: Callable = lambda record: None
    profile: bool = False

    def run(self, start: int = 0) -> int:
        """Trains from step `start`; returns the step reached."""
        self._saved, self._waited, self._worked = start, 0.0, 0.0
        self._position = self.folder.position(start)
        if start >= self.steps:
            logging.info("already at step %d of %d", start, self.steps)
            return start
        iterator = iter(self._dataset(start))
        step, bar = start, self._bar(start)
        with _asked_to_end() as asked, bar:
            while step < self.steps:
                count = self._until_next_look(step)
                began = time.perf_counter()
                totals = self._take(iterator, step, count)
                seconds = time.perf_counter() - began
                self._check(totals)
                step += count
                self._position = _place(totals)
                self._show(bar, step, count, totals, seconds)
                stop = self.train_step.any_process(asked.is_set())
                due = step % self.checkpoint_every == 0 or step - self._saved >= (
                    self.checkpoint_every
                )
                if stop or due or step == self.steps:
                    self._save(step, must=stop or step == self.steps)
                if stop:
                    logging.warning("asked to end: saved at step %d", step)
                    break
        return step

    @property
    def share_waited(self) -> float:
        """Of the time of a profiled run, what went by waiting for data."""
        return self._waited / max(self._waited + self._worked, 1e-9)

    def _dataset(self, start):
        begin = start if self._position is None else self._position

        def make(host, num_hosts):
            return self.make_dataset(start=begin, host=host, num_hosts=num_hosts)

        return distribute(self.train_step.strategy, make)

    def _bar(self, start):
        return tqdm(
            total=self.steps, initial=start, unit="step", disable=None, desc="training"
        )

    def _until_next_look(self, step):
        """Looks are at multiples, wherever the run was started again."""
        to = [
            every - step % every
            for every in (self.steps_per_loop, self.checkpoint_every)
        ]
        return min(*to, self.steps - step)

    def _take(self, iterator, step, count):
        if not self.profile:
            return self.train_step.run(iterator, step, count)
        totals = None
        for at in range(step, step + count):
            began = time.perf_counter()
            batch = next(iterator)
            got = time.perf_counter()
            more = self.train_step.one(batch, at)
            if at > step or self._worked:  # the first call compiles
                self._waited += got - began
                self._worked += time.perf_counter() - got
            totals = _joined(totals, more)
        return totals

    def _check(self, totals):
        if totals["bad_step"] < 0:
            return
        mix = self._by_task(totals["bad_examples"])
        mix = ", ".join(f"{name} {int(n)}" for name, n in mix.items() if n)
        raise self._not_a_number(
            f"the loss of step {int(totals['bad_step'])} is not a number (examples: "
            f"{mix})"
        )

    def _check_state(self, step):
        """The loss of the last step may be the last that is a number."""
        name = self.train_step.not_a_number()
        if name is not None:
            raise self._not_a_number(f"{name} is not a number after step {step}")

    def _not_a_number(self, what):
        steps = self.folder.steps()
        good = "there is no checkpoint yet"
        if steps:
            good = f"the last good checkpoint is {self.folder.prefix(steps[-1])}"
        return NotANumber(f"{what}; {good}. Lower learning_rate, or set clip_norm")

    def _show(self, bar, step, count, totals, seconds):
        tokens = np.maximum(totals["tokens"], 1.0)
        by_task = self._by_task(totals["loss"] / tokens)
        seen = self._by_task(totals["examples"])
        rate = tf.convert_to_tensor(self.train_step.optimizer.learning_rate)
        examples = self.batch_size or float(totals["examples"].sum()) / count
        record = {
            "step": step,
            "loss": float(totals["loss"].sum() / tokens.sum()),
            "examples_per_second": count * examples / seconds,
            "examples_per_step": examples,
            "seconds_per_step": seconds / count,
            "learning_rate": float(rate),
            "task_loss": {n: float(v) for n, v in by_task.items() if seen[n]},
            "task_examples": {n: int(v) for n, v in seen.items()},
        }
        if self.profile:
            record["share_waited"] = self.share_waited  # since the run was started
        bar.update(count)
        speed = f"{record['examples_per_second']:.0f}"
        bar.set_postfix({"loss": f"{record['loss']:.3f}", "examples/s": speed})
        logging.info("step %d: loss %.4f, %s examples/s", step, record["loss"], speed)
        self.folder.append_log(record)
        self.on_log(record)

    def _by_task(self, values):
        names = self.task_names or [str(i) for i in range(len(values))]
        return dict(zip(names, values.tolist(), strict=True))

    def _save(self, step, must):
        """A write that fails is tried again at the next look, unless it is the last."""
        self._check_state(step)
        try:
            self.folder.save_position(step, self._position)
            self.train_step.save(self.folder, step)
        except Exception as error:
            if must:
                error.add_note(
                    f"step {step} was not saved; older checkpoints are whole"
                )
                raise
            logging.exception("the checkpoint of step %d was not written", step)
            return
        self._saved = step


def _place(totals):
    """Where the data go on, None if they do not say."""
    position = totals.get("next_position")
    return None if position is None or position[0] < 0 else tuple(position.tolist())


def _joined(totals, more):
    if totals is None:
        return more
    bad = totals if totals["bad_step"] >= 0 else more
    sums = {n: totals[n] + more[n] for n in ("loss", "tokens", "examples")}
    return {**more, **sums, **{n: bad[n] for n in ("bad_step", "bad_examples")}}


@contextlib.contextmanager
def _asked_to_end():
    """An event that SIGTERM sets, as when a machine is about to be taken away."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event  # only the main thread may listen to signals
        return
    before = signal.signal(signal.SIGTERM, lambda *_: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGTERM, before)
