"""Scores of a run's checkpoints: kept in its folder, tabulated, compared."""

import json
import math
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from experiments.reports.tables import aligned
from hypertf.training import RunFolder
from tfds_tasks.scores import averages
from tfds_tasks.scores.averages import selection_score

Scores = dict[str, dict[str, float]]  # {task: {metric: percent}}
SELECTION = "validation"  # the split by which a checkpoint is chosen


def one_answer(predictions: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Returns {task: its answer} of the tasks with the same answer to all examples.

    >>> one_answer({"rte": ["entailment"] * 3, "cb": ["neutral", "contradiction"]})
    {'rte': 'entailment'}
    """
    return {
        task: texts[0]
        for task, texts in predictions.items()
        if len(texts) > 1 and len(set(texts)) == 1
    }


class Results:
    """`eval/<split>.json` of a run: {"steps": {step: {"scores", "how", "seconds"}}}.

    Of several processes one has `writes`; the others keep what they add in memory.
    """

    def __init__(
        self,
        model_dir: str | os.PathLike,
        split: str = "validation",
        writes: bool = True,
    ) -> None:
        self._writes = writes
        self.split, self.folder = split, RunFolder(model_dir, writes=False)
        self._file = self.folder.scores_file(split)
        self._writer = None
        self.records = {}
        if tf.io.gfile.exists(self._file):
            with tf.io.gfile.GFile(self._file) as file:
                steps = json.load(file)["steps"]
            self.records = {int(step): record for step, record in steps.items()}

    @property
    def scores(self) -> dict[int, Scores]:
        """{step: {task: {metric: percent}}} of the steps and tasks that have any."""
        scored = {
            step: {t: m for t, m in self.records[step]["scores"].items() if m}
            for step in sorted(self.records)
        }
        return {step: scores for step, scores in scored.items() if scores}

    def add(
        self,
        step: int,
        scores: Scores,
        how: str,
        seconds: float,
        predictions: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Keeps the scores of a step, beside those of other tasks at that step.

        With `predictions` also which tasks got one answer for all their examples.
        """
        old = self.records.get(step, {})
        alike = one_answer(predictions or {})
        if old.get("how", how) == how:
            kept = old.get("one_answer", {}).items()
            alike = {t: a for t, a in kept if t not in scores} | alike
            scores = {**old.get("scores", {}), **scores}
        self.records[step] = {
            "scores": scores,
            "how": how,
            "seconds": round(seconds, 1),
            "one_answer": alike,
        }
        if not self._writes:
            return
        text = json.dumps({"split": self.split, "steps": self.records}, indent=1)
        self.folder.write_text(self._file, text + "\n")
        self._to_tensorboard(step)

    def _to_tensorboard(self, step):
        scores = self.scores.get(step)
        if not scores:
            return
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self.folder.score_summaries)
        with self._writer.as_default():
            for task, metrics in scores.items():
                for metric, value in metrics.items():
                    tf.summary.scalar(f"{self.split}/{task}/{metric}", value, step)
            tf.summary.scalar(f"{self.split}/average", selection_score(scores), step)
        self._writer.flush()

    def write_predictions(
        self, step: int, predictions: Mapping[str, list[str]]
    ) -> None:
        """Writes JSON lines for each task: the example's number and its text."""
        if not self._writes:
            return
        for task, texts in predictions.items():
            lines = [
                json.dumps({"example": number, "text": text}) + "\n"
                for number, text in enumerate(texts)
            ]
            path = self.folder.predictions_file(self.split, step, task)
            self.folder.write_text(path, "".join(lines))

    def averages(self) -> dict[int, float]:
        """Returns {step: the average that steps are compared by, `selection_score`}."""
        return {step: selection_score(s) for step, s in self.scores.items()}

    def best_step(self) -> int:
        """Chooses the single best checkpoint, by the average over all tasks.

        Among those scored on the most tasks: averages over others say little.
        """
        if not self.scores:
            raise ValueError(f"{self._file}: 0 scores; expected those of a checkpoint")
        most = max(len(scores) for scores in self.scores.values())
        means = {
            step: -math.inf if math.isnan(mean) else mean
            for step, mean in self.averages().items()
            if len(self.scores[step]) == most
        }
        return max(means, key=lambda step: (means[step], -step))

    def text(self) -> str:
        """Writes the table of steps, and the best in both ways that papers have."""
        if not self.scores:
            return f"no task has a score on {self.split}"
        scores, means = self.scores, self.averages()
        best, per_task = self.best_step(), self.best_per_task()
        headings = ("task", "metric", *map(str, scores), "best", "at step")
        rows = []
        for task in dict.fromkeys(t for s in scores.values() for t in s):
            step = per_task[task]
            for metric in scores[step][task]:
                cells = [s.get(task, {}).get(metric) for s in scores.values()]
                value = scores[step][task][metric]
                rows.append((task, metric, *map(_cell, cells), _cell(value), step))
        top = selection_score({t: scores[s][t] for t, s in per_task.items()})
        rows.append(("average", "", *map(_cell, means.values()), _cell(top), ""))
        lines = [aligned(headings, rows), ""]
        for name, value in averages.benchmark_averages(scores[best]).items():
            lines.append(f"{averages.AVERAGES[name]}: {value:.2f}")
        lines.append(f"best single checkpoint: step {best}, average {means[best]:.2f}")
        lines.append(f"best checkpoint of each task: average {top:.2f}")
        if alike := self.not_learned(best):
            lines.append(f"at step {best} {alike}")
        return "\n".join(lines)

    def not_learned(self, step: int) -> str | None:
        """Names the tasks that got one answer for all examples at a step, if any.

        Such a task is not learned, whatever its score.
        """
        alike = self.records.get(step, {}).get("one_answer")
        if not alike:
            return None
        tasks = (f"{task} ({answer!r})" for task, answer in alike.items())
        return f"not learned, one answer for all examples: {', '.join(tasks)}"

    def best_per_task(self) -> dict[str, int]:
        """Returns {task: the step at which its mean over metrics is highest}."""
        best = {}
        for step, scores in self.scores.items():
            for task, metrics in scores.items():
                value = float(np.mean(list(metrics.values())))
                value = -math.inf if math.isnan(value) else value
                if task not in best or value > best[task][0]:
                    best[task] = value, step
        return {task: step for task, (_, step) in best.items()}


def _cell(value):
    return "" if value is None else f"{value:.2f}"
