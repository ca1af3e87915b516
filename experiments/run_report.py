"""The report of finished or running runs: `report.md` and its figures.

Runs stand beside each other; a run whose configuration names a row of a paper has that
row beside it, and the difference.
"""

import dataclasses
import os
import statistics

import numpy as np
import tensorflow as tf

import hypertf
from experiments import build, paper_scores, run_plots, settings
from experiments.run_results import Results
from hypertf import analysis, conditioning
from hypertf.t5 import Unallocated
from hypertf.training import read_log

FILE = "report.md"


@dataclasses.dataclass(frozen=True)
class Run:
    """What a model_dir holds.

    Attributes:
        name: the folder's, as it is called in tables and figures.
        log: records of training, by step.
        results: `Results` of the split that is reported; without steps if unscored.
        paper: the `papers.Row` that the configuration names, or None.
    """

    name: str
    folder: str
    config: object
    log: list
    results: Results
    paper: object = None

    @property
    def scores(self):
        """{step: {task: {metric: percent}}}."""
        return self.results.scores

    def at_best_step(self):
        """Scores of the best single checkpoint; {} if none is scored."""
        return self.scores[self.results.best_step()] if self.scores else {}

    def at_best_of_each_task(self):
        best = self.results.best_per_task()
        return {task: self.scores[step][task] for task, step in best.items()}

    def parameters(self):
        """Counted on a model without values, which needs no memory."""
        t5 = build.t5_config(self.config)
        tasks = build.make_mixture(self.config).num_tasks
        options = self.config.conditioner_options
        with Unallocated():
            method = conditioning.create(self.config.conditioner, t5, tasks, **options)
            return analysis.parameters(hypertf.T5(t5, conditioner=method))

    def median(self, key):
        """Of a number in the log: its first record has the time of compiling."""
        return statistics.median(record[key] for record in self.log)

    def minutes(self):
        """Of training, without the time of saving checkpoints."""
        steps = np.diff([0, *(record["step"] for record in self.log)])
        return steps @ [record["seconds_per_step"] for record in self.log] / 60


def read_run(folder, split, name):
    """Reads a run; says which program makes what is missing."""
    trained_by = f"python -m experiments.train --model_dir={folder}"
    if not tf.io.gfile.isdir(folder):
        raise ValueError(f"model_dir {folder} is absent; made by {trained_by}")
    if not tf.io.gfile.exists(os.path.join(folder, settings.FILE)):
        raise ValueError(
            f"model_dir {folder} has no {settings.FILE}; made by {trained_by}"
        )
    config, log = settings.read(folder), read_log(folder)
    if not log:
        raise ValueError(f"model_dir {folder} has no log yet; made by {trained_by}")
    try:
        row = paper_scores.get_row(config)
    except ValueError as error:
        raise ValueError(f"{folder}/{settings.FILE}, paper: {error}") from None
    return Run(name, folder, config, log, Results(folder, split), row)


def read_runs(folders, split):
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


def write(folders, output=None, split="validation"):
    """Writes the report of the runs; returns its text and the path of `report.md`."""
    folders = [build.expand(folder).rstrip("/") for folder in folders]
    runs = read_runs(folders, split)
    output = build.expand(output) or os.path.join(folders[0], "report")
    figures = {"loss.png": run_plots.loss(runs)}
    if any(record["task_loss"] for run in runs for record in run.log):
        figures["task_loss.png"] = run_plots.task_loss(runs)
    if any(run.scores for run in runs):
        figures["scores.png"] = run_plots.scores(runs, split)
    text = markdown(runs, split, figures)
    tf.io.gfile.makedirs(output)
    for name, data in {**figures, FILE: text.encode()}.items():
        with tf.io.gfile.GFile(os.path.join(output, name), "wb") as file:
            file.write(data)
    return text, os.path.join(output, FILE)


def markdown(runs, split, figures):
    parts = [f"# {', '.join(run.name for run in runs)}", runs_table(runs)]
    parts += [f"## Scores on {split}"]
    parts += [_not_scored(run, split) for run in runs if not run.scores]
    scored = [run for run in runs if run.scores]
    if scored:
        parts += ["At the best single checkpoint of each run, in percent."]
        parts += [scores_table(scored), *_footnotes(scored)]
        parts += ["### Two ways to choose the best", choices_table(scored)]
        if any(len(run.scores) > 1 for run in scored):
            parts += ["Best checkpoint of each task, the mean over its metrics:"]
            parts += [best_of_each_task_table(scored)]
    if "scores.png" in figures:
        parts += [f"![Scores on {split}](scores.png)"]
    parts += ["## Learning curves", "![Training loss](loss.png)"]
    if "task_loss.png" in figures:
        parts += ["![Training loss of each task](task_loss.png)"]
    return "\n\n".join(parts) + "\n"


def runs_table(runs):
    """A column for each run."""
    columns = [_facts(run) for run in runs]
    rows = [(fact, *(column[fact] for column in columns)) for fact in columns[0]]
    return table(("", *(run.name for run in runs)), rows)


def _facts(run):
    config, counted = run.config, run.parameters()
    options = ", ".join(f"{k}={v}" for k, v in config.conditioner_options.items())
    rate = f"{config.learning_rate:g}, {config.schedule}"
    mixture = build.make_mixture(config)
    waited = run.log[-1].get("share_waited")  # known of a profiled run
    return {
        "model": config.model,
        "initial weights": config.init or "random",
        "conditioner": config.conditioner,
        "options": options or "default",
        "mixture": f"{config.mixture} ({_count(mixture.num_tasks, 'task')})",
        "steps": f"{run.log[-1]['step']:,} of {config.steps:,}",
        "batch size": f"{config.batch_size:,}",
        "learning rate": f"{rate} ({config.optimizer})",
        "seed": config.seed,
        "parameters": f"{counted.total:,}",
        "of them trained": f"{counted.trained:,}",
        "times the plain T5": f"{counted.times:.4f}x",
        "seconds per step (median)": f"{run.median('seconds_per_step'):.4g}",
        "examples a second (median)": f"{run.median('examples_per_second'):,.4g}",
        "minutes of training": f"{run.minutes():.1f}",
        "waiting for data": f"{waited:.1%} of the time" if waited is not None else "",
        "last loss": f"{run.log[-1]['loss']:.4f}",
    }


def _count(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _not_scored(run, split):
    return (
        f"{run.name} has no scores on {split}; made by `python -m experiments.evaluate "
        f"--model_dir={run.folder} --split={split} --checkpoints=all`"
    )


def scores_table(runs):
    """Every metric, then averages: each run, its paper, and what lies between them."""
    cells = [paper_scores.beside(run.at_best_step(), run.paper) for run in runs]
    notes = _notes(runs)
    headings = ["task", "metric"]
    for number, run in enumerate(runs):
        headings.append(run.name)
        if run.paper is not None:
            mark = notes.index(run.config.paper) + 1
            headings += [f"paper [{mark}]", f"{run.name} - paper"]
        if number:
            headings.append(f"{run.name} - {runs[0].name}")
    rows = []
    for key in _in_order(cells):
        row, first = [*key], cells[0].get(key, (None, None))[0]
        for number, run in enumerate(runs):
            ours, printed = cells[number].get(key, (None, None))
            row.append(_percent(ours))
            if run.paper is not None:
                row += [_percent(printed), _difference(ours, printed)]
            if number:
                row.append(_difference(ours, first))
        rows.append(row)
    return table(headings, rows)


def _in_order(cells):
    """Keys of all: a task's metrics together, averages after tasks, ours last."""
    keys = list(dict.fromkeys(key for each in cells for key in each))
    tasks = list(dict.fromkeys(task for task, _ in keys))
    last = paper_scores.OVER_TASKS
    return sorted(keys, key=lambda k: (not k[1], k[0] == last, tasks.index(k[0])))


def _notes(runs):
    return list(dict.fromkeys(r.config.paper for r in runs if r.paper is not None))


def _footnotes(runs):
    rows = {run.config.paper: run.paper for run in runs}
    notes = enumerate(_notes(runs), 1)
    return [f"[{number}] {rows[name].source}; row `{name}`" for number, name in notes]


def choices_table(runs):
    """Averages at one checkpoint for all tasks, and with one for each task."""
    lines = []
    for run in runs:
        step = f"{run.results.best_step():,}"
        for way, at, scores in (
            ("best single checkpoint", step, run.at_best_step()),
            ("best of each task", "", run.at_best_of_each_task()),
        ):
            lines.append((run.name, way, at, paper_scores.average_cells(scores)))
    means = _in_order([cells for *_, cells in lines])
    rows = [
        (*line, *(_percent(cells.get(key, (None, None))[0]) for key in means))
        for *line, cells in lines
    ]
    return table(("run", "chosen", "step", *(mean for mean, _ in means)), rows)


def best_of_each_task_table(runs):
    """A task's mean over its metrics where that is highest, and the step."""
    best = [run.results.best_per_task() for run in runs]
    rows = []
    for task in dict.fromkeys(task for steps in best for task in steps):
        row = [task]
        for run, steps in zip(runs, best, strict=True):
            values = run.scores[steps[task]][task].values() if task in steps else ()
            row += (
                [_percent(np.mean(list(values))), f"{steps[task]:,}"]
                if values
                else ["", ""]
            )
        rows.append(row)
    headings = [heading for run in runs for heading in (run.name, "at step")]
    return table(("task", *headings), rows)


def table(headings, rows):
    """Markdown; the first column to the left, the others to the right."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |"
        for line in lines
    )


def _percent(value):
    return "" if value is None else f"{value:.2f}"


def _difference(ours, theirs):
    return "" if ours is None or theirs is None else f"{ours - theirs:+.2f}"
