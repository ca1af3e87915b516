"""Scores of a run's checkpoints: kept, tabulated, written for the servers."""

import json
import math
import os

import numpy as np
import tensorflow as tf

from experiments.bench.timing import table as aligned
from tfds_tasks import submission
from tfds_tasks.scores import averages

FOLDER = "eval"


class Results:
    """`eval/<split>.json` of a run: {"steps": {step: {"scores", "how", "seconds"}}}."""

    def __init__(self, model_dir, split="validation"):
        self.split, self.folder = split, os.path.join(model_dir, FOLDER)
        self._file = os.path.join(self.folder, f"{split}.json")
        self._writer = None
        self.records = {}
        if tf.io.gfile.exists(self._file):
            with tf.io.gfile.GFile(self._file) as file:
                steps = json.load(file)["steps"]
            self.records = {int(step): record for step, record in steps.items()}

    @property
    def scores(self):
        """{step: {task: {metric: percent}}}."""
        return {step: self.records[step]["scores"] for step in sorted(self.records)}

    def add(self, step, scores, how, seconds):
        """Keeps the scores of a step, beside those of other tasks at that step."""
        old = self.records.get(step, {})
        if old.get("how", how) == how:
            scores = {**old.get("scores", {}), **scores}
        self.records[step] = {
            "scores": scores,
            "how": how,
            "seconds": round(seconds, 1),
        }
        tf.io.gfile.makedirs(self.folder)
        text = json.dumps({"split": self.split, "steps": self.records}, indent=1)
        with tf.io.gfile.GFile(self._file + ".tmp", "w") as file:
            file.write(text + "\n")
        tf.io.gfile.rename(self._file + ".tmp", self._file, overwrite=True)
        self._to_tensorboard(step, scores)

    def _to_tensorboard(self, step, scores):
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self.folder)
        with self._writer.as_default():
            for task, metrics in scores.items():
                for metric, value in metrics.items():
                    tf.summary.scalar(f"{self.split}/{task}/{metric}", value, step)
            tf.summary.scalar(f"{self.split}/average", averages.average(scores), step)
        self._writer.flush()

    def write_predictions(self, step, predictions):
        """A file of JSON lines for each task: the example's number and its text."""
        folder = os.path.join(self.folder, f"{self.split}-{step}")
        for task, texts in predictions.items():
            path = os.path.join(folder, task.replace("/", "_") + ".jsonl")
            tf.io.gfile.makedirs(folder)
            with tf.io.gfile.GFile(path, "w") as file:
                for number, text in enumerate(texts):
                    file.write(json.dumps({"example": number, "text": text}) + "\n")

    def averages(self):
        """{step: mean over tasks of each task's mean}."""
        return {step: averages.average(s) for step, s in self.scores.items()}

    def best_step(self):
        """The single best checkpoint, by the average over all tasks.

        Among those scored on the most tasks: averages over others say little.
        """
        most = max(len(scores) for scores in self.scores.values())
        means = {
            step: -math.inf if math.isnan(mean) else mean
            for step, mean in self.averages().items()
            if len(self.scores[step]) == most
        }
        return max(means, key=lambda step: (means[step], -step))

    def text(self):
        """The table of all steps, and both ways in which papers pick the best."""
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
        top = np.mean(
            [np.mean(list(scores[s][t].values())) for t, s in per_task.items()]
        )
        rows.append(("average", "", *map(_cell, means.values()), _cell(top), ""))
        lines = [aligned(headings, rows), ""]
        for name, value in averages.benchmark_averages(scores[best]).items():
            lines.append(f"{averages.AVERAGES[name]}: {value:.2f}")
        lines.append(f"best single checkpoint: step {best}, average {means[best]:.2f}")
        lines.append(f"best checkpoint of each task: average {top:.2f}")
        return "\n".join(lines)

    def best_per_task(self):
        """{task: the step at which its mean over metrics is highest}."""
        found = {}
        for step, scores in self.scores.items():
            for task, metrics in scores.items():
                value = float(np.mean(list(metrics.values())))
                value = -math.inf if math.isnan(value) else value
                if task not in found or value > found[task][0]:
                    found[task] = value, step
        return {task: step for task, (_, step) in found.items()}


def _cell(value):
    return "" if value is None else f"{value:.2f}"


def write_submission(folder, scorer, predictions):
    """Files for the GLUE and SuperGLUE servers of the tasks that have one."""
    written = []
    for task in scorer.mixture.tasks:
        if task.submission is not None:
            examples, texts = scorer.examples[task.name], predictions[task.name]
            submission.write(folder, task, examples, texts)
            written.append(task.name)
    if not written:
        raise ValueError(
            f"submission: none of {', '.join(predictions)} has a file on the servers"
        )
    print(f"written to {folder}: {', '.join(written)}")
