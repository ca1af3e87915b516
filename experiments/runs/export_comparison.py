"""An export in fewer bits beside float32: what it scores, weighs and costs."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
from tqdm import tqdm

import hypertf
from experiments.reports.tables import aligned
from tfds_tasks.scores.averages import average

BATCHES = (1, 32)
ROUNDS = 5


class Comparison:
    """Compares two versions on validation examples.

    Args:
        tasks: those of the export.
        examples: `{task: examples}`, as `Task.score` takes them.
        rows: how many of each task are answered at most.
    """

    def __init__(
        self, tasks: Sequence, examples: Mapping[str, list[dict]], rows: int
    ) -> None:
        self._tasks = [t for t in tasks if t.is_scored and examples.get(t.name)]
        self._examples = {t.name: examples[t.name][:rows] for t in self._tasks}

    def text(self, folder: str, stored: str, save: Callable[..., str]) -> str:
        """Writes the table of `folder` beside a float32 version, made for it by `save`.

        The float32 version is written to a temporary folder, with other options alike.
        """
        with tempfile.TemporaryDirectory() as scratch:
            plain = save(scratch, quantize=None, precision="float32", version=1)
            return self.table({"float32": plain, stored: folder})

    def table(self, folders: Mapping[str, str]) -> str:
        """Writes a row for each version: score, size, milliseconds."""
        loaded = {name: hypertf.export.load(path) for name, path in folders.items()}
        seconds = self._seconds(loaded)
        rows = []
        for name, model in loaded.items():
            score = self._score(model)
            rows.append(
                (
                    name,
                    "" if score is None else f"{score:.2f}",
                    f"{size_on_disk(model.folder) / 1e6:.1f}",
                    *(f"{1e3 * seconds[name, rows_]:.1f}" for rows_ in BATCHES),
                )
            )
        headings = (
            "stored as",
            "score",
            "MB on disk",
            *(f"ms, {b} rows" for b in BATCHES),
        )
        count = sum(map(len, self._examples.values()))
        title = f"\nfewer bits beside float32, {count:,} validation examples\n"
        return "\n".join([title, aligned(headings, rows), ""])

    def _score(self, model: hypertf.export.Loaded) -> float | None:
        """The mean over tasks, None where there is nothing to score."""
        scores = {}
        for task in tqdm(self._tasks, "answering", leave=False, disable=None):
            examples = self._examples[task.name]
            answers = []
            for start in range(0, len(examples), BATCHES[-1]):
                rows = examples[start : start + BATCHES[-1]]
                answers += model.answer([e["inputs"] for e in rows], task.name)
            scores[task.name] = task.score(examples, answers)
        return average(scores) if scores else None

    def _seconds(self, loaded: Mapping) -> dict:
        """Median seconds by version and rows, in turns."""
        texts = [e["inputs"] for rows in self._examples.values() for e in rows]
        tasks = [name for name, rows in self._examples.items() for _ in rows]
        if not texts:
            return {(name, rows): float("nan") for name in loaded for rows in BATCHES}
        taken = {(name, rows): [] for name in loaded for rows in BATCHES}
        for _ in range(ROUNDS + 1):  # the first is not counted
            for (name, rows), values in taken.items():
                pick = [i % len(texts) for i in range(rows)]
                began = time.perf_counter()
                loaded[name].answer([texts[i] for i in pick], [tasks[i] for i in pick])
                values.append(time.perf_counter() - began)
        return {key: statistics.median(values[1:]) for key, values in taken.items()}


def size_on_disk(folder: str) -> int:
    """The bytes of all files in a folder."""
    return sum(
        tf.io.gfile.stat(os.path.join(parent, file)).length
        for parent, _, files in tf.io.gfile.walk(folder)
        for file in files
    )
