"""A run as its report reads it: configuration, log, scores, and the paper's row."""

import dataclasses
import os
import statistics
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

import hypertf
from experiments.configs import Config, Row, get_row
from experiments.runs import components, config_file, linear_head
from experiments.runs.eval_results import SELECTION, Results, Scores
from hypertf import analysis, conditioning
from hypertf.t5 import Unallocated
from hypertf.training import RunFolder, read_log


@dataclasses.dataclass(frozen=True)
class ReportedRun:
    """What a model_dir holds.

    The checkpoint is chosen on validation, whatever split is reported.

    Attributes:
        name: the folder's, as it is called in tables and figures.
        folder: the model_dir.
        log: records of training, by step.
        results: `Results` of the split that is reported; without steps if unscored.
        selection: `Results` by which a checkpoint is chosen.
        paper: the row of a paper that the configuration names, or None.
    """

    name: str
    folder: str
    config: Config
    log: list[dict]
    results: Results
    selection: Results
    paper: Row | None = None

    @property
    def scores(self) -> dict[int, Scores]:
        """{step: {task: {metric: percent}}} on the split that is reported."""
        return self.results.scores

    @property
    def best_step(self) -> int | None:
        """The checkpoint that is best on validation; None if none is scored there."""
        return self.selection.best_step() if self.selection.scores else None

    def at_best_step(self) -> Scores:
        """Returns the scores of the best single checkpoint; {} if it has none."""
        return self.scores.get(self.best_step, {})

    def at_best_of_each_task(self) -> Scores:
        """Returns each task's scores where validation is best; {} if one is absent."""
        best = self.selection.best_per_task()
        known = {
            task: self.scores[step][task]
            for task, step in best.items()
            if task in self.scores.get(step, {})
        }
        complete = len(known) == len(best)
        return known if complete else {}

    def missing(self) -> str | None:
        """Says what keeps scores from being reported, and the command that makes it."""
        split = self.results.split
        if self.best_step is None:
            for_what = "" if split == SELECTION else ", which choose the checkpoint"
            command = self._command(SELECTION, "all")
            return f"{self.name} has no scores on {SELECTION}{for_what}; {command}"
        if not self.at_best_step():
            command = self._command(split, self.best_step)
            return (
                f"step {self.best_step:,} of {self.name}, the best on {SELECTION}, has "
                f"no scores on {split}; {command}"
            )
        return None

    def _command(self, split, checkpoints):
        return (
            f"made by `python -m experiments.evaluate --model_dir={self.folder} "
            f"--split={split} --checkpoints={checkpoints}`"
        )

    def other_split(self) -> str | None:
        """Says what the paper's figures are of, if it is not what is reported."""
        if self.paper is None:
            return None
        theirs, ours = self.paper.split, self.results.split
        if self.paper.config is not None:
            theirs = f"{theirs} of splits={self.paper.config.splits}"
            ours = f"{ours} of splits={self.config.splits}"
        return None if theirs == ours else theirs

    def parameters(self) -> analysis.Parameters:
        """Counts parameters on a model without values, which needs no memory."""
        mixture = components.make_mixture(self.config)
        t5, tasks = components.t5_config(self.config), mixture.num_tasks
        options = self.config.conditioner_options
        with Unallocated():
            if self.config.head == "linear":
                heads = linear_head.make_model(self.config, mixture)
                return linear_head.parameters(heads)
            method = conditioning.create(self.config.conditioner, t5, tasks, **options)
            return analysis.parameters(hypertf.T5(t5, conditioner=method))

    def examples_per_step(self) -> float:
        """Takes the mean over steps; a row was one example where the log has none."""
        counts = [r.get("examples_per_step", self.config.rows) for r in self.log]
        return float(np.mean(counts))

    def median(self, key: str) -> float:
        """Takes the median in the log, whose first number has the time of compiling."""
        return statistics.median(record[key] for record in self.log)

    def least(self, key: str) -> float:
        """Takes the least in the log: of a time, what other programs took none of."""
        return min(record[key] for record in self.log)

    def minutes(self) -> float:
        """Adds up the minutes of training, without those of saving checkpoints."""
        steps = np.diff([0, *(record["step"] for record in self.log)])
        return steps @ [record["seconds_per_step"] for record in self.log] / 60


def read_run(folder: str, split: str, name: str) -> ReportedRun:
    """Reads a run; says which program makes what is missing."""
    trained_by = f"python -m experiments.train --model_dir={folder}"
    if not tf.io.gfile.isdir(folder):
        raise ValueError(f"model_dir {folder} is absent; made by {trained_by}")
    path = RunFolder(folder, writes=False).config_file
    if not tf.io.gfile.exists(path):
        file = os.path.basename(path)
        raise ValueError(f"model_dir {folder} has no {file}; made by {trained_by}")
    config, log = config_file.read(folder), read_log(folder)
    if not log:
        raise ValueError(f"model_dir {folder} has no log yet; made by {trained_by}")
    try:
        row = None if config.paper is None else get_row(config.paper)
    except ValueError as error:
        raise ValueError(f"{path}, paper: {error}") from None
    selection = Results(folder, SELECTION)
    return ReportedRun(
        name, folder, config, log, Results(folder, split), selection, row
    )


def read_runs(folders: Sequence[str], split: str) -> list[ReportedRun]:
    """Reads runs, called by the names of their folders if these differ."""
    if not folders:
        raise ValueError("model_dir names 0 folders; expected at least 1")
    doubled = {folder for folder in folders if folders.count(folder) > 1}
    if doubled:
        raise ValueError(f"model_dir lists {', '.join(doubled)} more than once")
    names = [os.path.basename(folder) for folder in folders]
    if len(set(names)) < len(names):
        names = folders
    pairs = zip(folders, names, strict=True)
    return [read_run(folder, split, name) for folder, name in pairs]
