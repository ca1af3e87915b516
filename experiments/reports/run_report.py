"""The report of finished or running runs: `report.md` and its figures.

Runs stand beside each other; a run whose configuration names a row of a paper has that
row beside it, and the difference.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from experiments.reports import paper_comparison, plots
from experiments.reports.reported_run import ReportedRun, read_runs
from experiments.reports.seed_groups import seeds_part
from experiments.reports.tables import markdown as table
from experiments.runs import components
from experiments.runs.eval_results import SELECTION
from hypertf.training import RunFolder

FILE = "report.md"
MARK = "\\*"  # a figure of the paper that is of another split


@dataclasses.dataclass(frozen=True)
class WrittenReport:
    """The Markdown text of a report, and the path of its file."""

    text: str
    path: str

    def _repr_markdown_(self):
        """What a notebook shows."""
        return self.text


def write_report(
    folders: Sequence[str], output: str | None = None, split: str = "validation"
) -> WrittenReport:
    """Writes the report of the runs, by default into the folder of the first."""
    folders = [components.expand(folder).rstrip("/") for folder in folders]
    runs = read_runs(folders, split)
    output = components.expand(output)
    output = output or RunFolder(folders[0], writes=False).report_folder
    figures = {"loss.png": plots.loss(runs)}
    if any(record["task_loss"] for run in runs for record in run.log):
        figures["task_loss.png"] = plots.task_loss(runs)
    if any(run.scores for run in runs):
        figures["scores.png"] = plots.scores(runs, split)
    text = report_text(runs, split, figures)
    tf.io.gfile.makedirs(output)
    for name, data in {**figures, FILE: text.encode()}.items():
        with tf.io.gfile.GFile(os.path.join(output, name), "wb") as file:
            file.write(data)
    return WrittenReport(text, os.path.join(output, FILE))


def report_text(
    runs: Sequence[ReportedRun], split: str, figures: Mapping[str, bytes]
) -> str:
    """Writes the Markdown; `figures` are {file name: PNG}."""
    parts = [f"# {', '.join(run.name for run in runs)}", runs_table(runs)]
    parts += [f"## Scores on {split}"]
    parts += [problem for run in runs if (problem := run.missing())]
    scored = [run for run in runs if not run.missing()]
    if scored:
        chosen = "" if split == SELECTION else f", chosen on {SELECTION}"
        parts += [f"At the best single checkpoint of each run{chosen}, in percent."]
        parts += [scores_table(scored), *_footnotes(scored), *_not_learned(scored)]
        parts += ["### Two ways to choose the best", choices_table(scored)]
        if any(len(run.scores) > 1 for run in scored):
            parts += ["Best checkpoint of each task, the mean over its metrics:"]
            parts += [best_of_each_task_table(scored)]
        parts += seeds_part(scored)
    if "scores.png" in figures:
        parts += [f"![Scores on {split}](scores.png)"]
    parts += ["## Learning curves", "![Training loss](loss.png)"]
    if "task_loss.png" in figures:
        parts += ["![Training loss of each task](task_loss.png)"]
    return "\n\n".join(parts) + "\n"


def runs_table(runs: Sequence[ReportedRun]) -> str:
    """Makes the table of runs, a column for each."""
    columns = [_facts(run) for run in runs]
    rows = [(fact, *(column[fact] for column in columns)) for fact in columns[0]]
    return table(("", *(run.name for run in runs)), rows)


def _facts(run):
    config, counted = run.config, run.parameters()
    options = ", ".join(f"{k}={v}" for k, v in config.conditioner_options.items())
    rate = f"{config.learning_rate:g}, {config.schedule}"
    mixture = components.make_mixture(config)
    waited = run.log[-1].get("share_waited")  # known of a profiled run
    return {
        "model": config.model,
        "initial weights": config.init or "random",
        "conditioner": config.conditioner,
        "options": options or "default",
        "mixture": f"{config.mixture} ({_count(mixture.num_tasks, 'task')})",
        "steps": f"{run.log[-1]['step']:,} of {config.steps:,}",
        "batch size": f"{config.batch_size:,}{_unit(config)}",
        "examples a step (mean)": f"{run.examples_per_step():,.4g}",
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


def _unit(config):
    """What a batch size counts, where it is not one example a row."""
    plain = config.packing == "off" and config.batch_unit == "rows"
    return "" if plain else f" {config.batch_unit}, packing={config.packing}"


def _count(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def scores_table(runs: Sequence[ReportedRun]) -> str:
    """Makes the table of metrics and averages: each run, its paper, the difference."""
    cells = [paper_comparison.beside(run.at_best_step(), run.paper) for run in runs]
    notes = _notes(runs)
    headings = ["task", "metric"]
    for number, run in enumerate(runs):
        headings.append(run.name)
        if run.paper is not None:
            number_of_note = notes.index(run.config.paper) + 1
            headings += [f"paper [{number_of_note}]", f"{run.name} - paper"]
        if number:
            headings.append(f"{run.name} - {runs[0].name}")
    rows = []
    for key in _in_order(cells):
        row, first = [*key], cells[0].get(key, (None, None))[0]
        for number, run in enumerate(runs):
            ours, printed = cells[number].get(key, (None, None))
            row.append(_percent(ours))
            if run.paper is not None:
                mark = MARK if run.other_split() and printed is not None else ""
                row += [_percent(printed) + mark, _difference(ours, printed)]
            if number:
                row.append(_difference(ours, first))
        rows.append(row)
    return table(headings, rows)


def _in_order(cells):
    """Keys of all: a task's metrics together, averages after tasks, ours last."""
    keys = list(dict.fromkeys(key for each in cells for key in each))
    tasks = list(dict.fromkeys(task for task, _ in keys))
    last = paper_comparison.OVER_TASKS
    return sorted(keys, key=lambda k: (not k[1], k[0] == last, tasks.index(k[0])))


def _notes(runs):
    return list(dict.fromkeys(r.config.paper for r in runs if r.paper is not None))


def _footnotes(runs):
    rows = {run.config.paper: run.paper for run in runs}
    notes = enumerate(_notes(runs), 1)
    lines = [f"[{number}] {rows[name].source}; row `{name}`" for number, name in notes]
    for run in runs:
        if other := run.other_split():
            lines.append(
                f"{MARK} of another split than {run.name}: `{run.config.paper}` is of "
                f"{other}, not of {run.results.split} of splits={run.config.splits}"
            )
    return lines


def _not_learned(runs):
    """Says of each run which tasks got one answer, if any."""
    said = {run.name: run.results.not_learned(run.best_step) for run in runs}
    return [f"{name}: {words}" for name, words in said.items() if words]


def choices_table(runs: Sequence[ReportedRun]) -> str:
    """Makes the table of averages at one checkpoint for all tasks, and one for each."""
    lines = []
    for run in runs:
        step = f"{run.best_step:,}"
        for way, at, scores in (
            ("best single checkpoint", step, run.at_best_step()),
            ("best of each task", "", run.at_best_of_each_task()),
        ):
            if scores:
                cells = paper_comparison.average_cells(scores)
                lines.append((run.name, way, at, cells))
    means = _in_order([cells for *_, cells in lines])
    rows = [
        (*line, *(_percent(cells.get(key, (None, None))[0]) for key in means))
        for *line, cells in lines
    ]
    return table(("run", "chosen", "step", *(mean for mean, _ in means)), rows)


def best_of_each_task_table(runs: Sequence[ReportedRun]) -> str:
    """Makes the table of tasks' means over metrics where highest, and of the steps."""
    best = [run.selection.best_per_task() for run in runs]
    rows = []
    for task in dict.fromkeys(task for steps in best for task in steps):
        row = [task]
        for run, steps in zip(runs, best, strict=True):
            values = run.scores.get(steps.get(task), {}).get(task, {}).values()
            row += (
                [_percent(np.mean(list(values))), f"{steps[task]:,}"]
                if values
                else ["", ""]
            )
        rows.append(row)
    headings = [heading for run in runs for heading in (run.name, "at step")]
    return table(("task", *headings), rows)


def _percent(value):
    return "" if value is None else f"{value:.2f}"


def _difference(ours, theirs):
    return "" if ours is None or theirs is None else f"{ours - theirs:+.2f}"
