"""The table and the picture of the comparison."""

import dataclasses
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np

from experiments.comparison.runs import commit_of
from experiments.comparison.systems import NAMED, PLAIN
from experiments.reports.figure_parts import PAPER_STYLE, new_figure, png
from experiments.reports.plots import COLOURS
from experiments.reports.reported_run import read_run
from experiments.reports.tables import markdown
from tfds_tasks.scores.averages import selection_score

HEADINGS = (
    *("system", "score", "deviation", "runs", f"to {NAMED}", "verdict"),
    *("parameters", "added", "ms a step"),
)


@dataclasses.dataclass(frozen=True)
class Line:
    """A system and what its runs came to.

    Attributes:
        scores: the mean over tasks of each run, in percent.
        by_task: {task: mean over runs}.
        added: parameters beside the plain T5's.
        step_ms: the least of all runs.
        commits: that the runs were begun at.
    """

    name: str
    scores: list[float]
    by_task: dict[str, float]
    parameters: int
    added: int
    step_ms: float
    commits: list[str]

    @property
    def mean(self) -> float:
        """The mean over runs."""
        return float(np.mean(self.scores))

    @property
    def deviation(self) -> float | None:
        """The standard deviation over runs, None of one."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else None


def read_line(name: str, folders: Sequence[str]) -> Line:
    """Reads the runs of a system, one for each seed."""
    runs = [read_run(folder, "validation", folder) for folder in folders]
    scored = [run.scores[max(run.scores)] for run in runs]
    by_task = {
        task: float(np.mean([np.mean(list(s[task].values())) for s in scored]))
        for task in scored[0]
    }
    counted = runs[0].parameters()
    return Line(
        name,
        [selection_score(scores) for scores in scored],
        by_task,
        counted.total,
        counted.added,
        1e3 * min(run.least("seconds_per_step") for run in runs),
        list(dict.fromkeys(commit_of(folder) for folder in folders)),
    )


def verdict(line: Line, named: Line | None) -> str:
    """Says how a system does beside the T5 with the task named in its text.

    Within twice the standard error of the difference nothing is said to be better.
    """
    if named is None or line.name == NAMED:
        return ""
    difference = line.mean - named.mean
    word = "better" if difference > 0 else "WORSE"
    if line.deviation is None or named.deviation is None:
        return f"{word}, of one run"
    errors = [each.deviation**2 / len(each.scores) for each in (line, named)]
    if abs(difference) <= 2 * sum(errors) ** 0.5:
        return f"{word}, but within the deviation"
    return word


def rows(lines: Sequence[Line]) -> list[tuple]:
    """Makes the rows of the table, as text."""
    named = _find(lines, NAMED)
    return [
        (
            line.name,
            f"{line.mean:.2f}",
            "" if line.deviation is None else f"{line.deviation:.2f}",
            len(line.scores),
            "" if named is None else f"{line.mean - named.mean:+.2f}",
            verdict(line, named),
            f"{line.parameters:,}",
            f"{line.added:,}",
            f"{line.step_ms:.0f}",
        )
        for line in lines
    ]


def _find(lines, name):
    return next((line for line in lines if line.name == name), None)


def text(lines: Sequence[Line], facts: Mapping[str, object]) -> str:
    """Writes the Markdown of the comparison."""
    commits = list(dict.fromkeys(c for line in lines for c in line.commits))
    told = [f"{name}: {value}" for name, value in facts.items()]
    told.append(f"commit: {'; '.join(commits)}")
    tasks = list(dict.fromkeys(task for line in lines for task in line.by_task))
    by_task = [(t, *(f"{line.by_task[t]:.1f}" for line in lines)) for t in tasks]
    return "\n\n".join(
        [
            "# Methods on `nano`, beside a T5 with the task named in its text",
            "Written by `make compare`. Score: the mean over tasks on the validation "
            "sets, in percent, at the last step, the mean over runs of other seeds. "
            f"`{NAMED}` is the plain T5 with the task named in its text, the fair "
            f"baseline: `{PLAIN}` cannot know which task it is asked. WORSE is said of "
            "a method below it. All weights train, from random ones. Milliseconds are "
            "the least of all runs, for a machine may do other things beside.",
            "\n".join(f"- {each}" for each in told),
            markdown(HEADINGS, rows(lines)),
            "![Score by parameters added](scores.png)",
            "## By task",
            markdown(("task", *(line.name for line in lines)), by_task),
        ]
    ) + ("\n")


def picture(lines: Sequence[Line]) -> bytes:
    """Draws scores over parameters added; the baselines are lines across."""
    with matplotlib.rc_context(PAPER_STYLE):
        figure = new_figure(6.5, 4.2)
        axes = figure.subplots()
        for name, dash in ((NAMED, "-"), (PLAIN, ":")):
            line = _find(lines, name)
            if line is not None:
                axes.axhline(line.mean, linestyle=dash, color="black", label=name)
                spread = line.deviation or 0.0
                axes.axhspan(
                    line.mean - spread, line.mean + spread, color="black", alpha=0.07
                )
        methods = [line for line in lines if line.name not in (PLAIN, NAMED)]
        for number, line in enumerate(sorted(methods, key=lambda each: -each.mean)):
            axes.errorbar(
                max(line.added, 1),
                line.mean,
                line.deviation,
                fmt="osD^v"[number // len(COLOURS) % 5],
                color=COLOURS[number % len(COLOURS)],
                markersize=4,
                capsize=2,
                label=f"{line.name}, {line.mean:.1f}",
            )
        axes.set_xscale("log")
        axes.set(xlabel="parameters added", ylabel="score, %")
        figure.legend(loc="outside right center")
        return png(figure)
