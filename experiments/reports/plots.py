"""Figures of runs: loss, loss of each task, scores.

Figures are made without pyplot, so that nothing depends on a display or is left open.
"""

import io
import math
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from experiments.reports.reported_run import ReportedRun
from tfds_tasks.scores.averages import selection_score

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.")  # from the eighth run on, a colour comes again
STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "figure.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}
MEAN = "mean over tasks"
PANEL, DPI = (2.9, 2.1), 130  # inches, dots in one


def loss(runs: Sequence[ReportedRun]) -> bytes:
    """Draws the training loss over steps; returns the PNG."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8, 4.6), layout="constrained")
        axes = figure.subplots()
        smooth = []
        for number, run in enumerate(runs):
            points = [(record["step"], record["loss"]) for record in run.log]
            smooth.append(_curve(axes, points, number))
        _scale([axes], smooth)
        axes.set(xlabel="step", ylabel="loss")
        return _finish(figure, "Training loss", runs, axes)


def task_loss(runs: Sequence[ReportedRun]) -> bytes:
    """Draws the training loss of each task that was seen, a panel for each."""
    records = [record for run in runs for record in run.log]
    seen = {name for record in records for name in record["task_loss"]}
    # `task_examples` has all tasks in the order of their ids.
    names = dict.fromkeys(
        name for record in records for name in record["task_examples"]
    )
    names = [name for name in names if name in seen]
    with matplotlib.rc_context(STYLE):
        figure, panels = _panels(names)
        smooth = []
        for name, axes in panels.items():
            for number, run in enumerate(runs):
                points = [
                    (record["step"], record["task_loss"][name])
                    for record in run.log
                    if name in record["task_loss"]
                ]
                smooth.append(_curve(axes, points, number))
        _scale(panels.values(), smooth)
        figure.supylabel("loss")
        return _finish(figure, "Training loss of each task", runs, panels[names[0]])


def scores(runs: Sequence[ReportedRun], split: str) -> bytes:
    """Draws scores: lines over steps, bars if no run has more than one scored."""
    if any(len(run.scores) > 1 for run in runs):
        return _score_lines(runs, split)
    return _score_bars(runs, split)


def _score_lines(runs, split):
    names = (MEAN, *_scored_tasks(runs))
    with matplotlib.rc_context(STYLE):
        figure, panels = _panels(names)
        for name, axes in panels.items():
            for number, run in enumerate(runs):
                points = [
                    (step, values[name])
                    for step, values in _by_task(run).items()
                    if name in values
                ]
                steps, values = zip(*points, strict=True) if points else ((), ())
                axes.plot(steps, values, marker="o", markersize=4, **_look(number))
        panels[MEAN].set_facecolor("#F2F2F2")
        panels[MEAN].title.set_fontweight("bold")
        figure.supylabel("score, %")
        return _finish(figure, f"Scores on {split}", runs, panels[MEAN])


def _score_bars(runs, split):
    names = (MEAN, *_scored_tasks(runs))
    height = 0.8 / len(runs)
    with matplotlib.rc_context(STYLE):
        size = (8, 1.6 + len(names) * (0.14 + 0.2 * len(runs)))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        for number, run in enumerate(runs):
            values = next(iter(_by_task(run).values()), {})
            known = [i for i, name in enumerate(names) if name in values]
            bars = axes.barh(
                [i - 0.4 + height * (number + 0.5) for i in known],
                [values[names[i]] for i in known],
                height,
                color=COLOURS[number % len(COLOURS)],
            )
            axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
        axes.set_yticks(range(len(names)), _short(names))
        axes.get_yticklabels()[0].set_fontweight("bold")
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_axisbelow(True)
        axes.margins(y=0.01)
        axes.set_xlim(right=max(100, axes.get_xlim()[1]))
        axes.set_xlabel("score, %")
        return _finish(figure, f"Scores on {split}", runs, axes)


def _scored_tasks(runs):
    return tuple(
        dict.fromkeys(t for run in runs for s in run.scores.values() for t in s)
    )


def _by_task(run):
    """{step: {task: mean over its metrics}}, and the mean over tasks."""
    by_task = {}
    for step, tasks in run.scores.items():
        values = {t: float(np.mean(list(m.values()))) for t, m in tasks.items()}
        by_task[step] = {MEAN: selection_score(tasks), **values}
    return by_task


def _look(number):
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dash}


def _curve(axes, points, number):
    """Draws the points lightly and their running mean on top, which it returns."""
    if not points:
        return np.array([])
    steps, values = np.array(points, float).T
    smooth = smoothed(values)
    axes.plot(steps, values, alpha=0.3, linewidth=1, **_look(number))
    marker = "o" if len(steps) == 1 else None
    axes.plot(steps, smooth, linewidth=1.8, marker=marker, **_look(number))
    return smooth


def smoothed(values: np.ndarray) -> np.ndarray:
    """Takes the mean over a twentieth of the curve around each point, less at ends."""
    half = len(values) // 40 if len(values) >= 40 else int(len(values) >= 10)
    return np.array(
        [values[max(0, i - half) : i + half + 1].mean() for i in range(len(values))]
    )


def _scale(axes, curves):
    """Logarithmic if the curves together span a decade or more."""
    values = np.concatenate(curves)
    values = values[np.isfinite(values)]
    if len(values) and values.min() > 0 and values.max() / values.min() >= 10:
        for each in axes:
            each.set_yscale("log")
            each.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            each.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            each.yaxis.set_minor_formatter(NullFormatter())


def _panels(names):
    """A figure, and {name: axes}."""
    columns = min(4, len(names))
    rows = math.ceil(len(names) / columns)
    size = (max(6, PANEL[0] * columns), PANEL[1] * rows + 1.1)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    panels = {}
    for name, title, axes in zip(names, _short(names), grid, strict=False):
        axes.set_title(title)
        panels[name] = axes
    for axes in grid[len(names) :]:
        axes.set_visible(False)
    for axes in grid[max(0, len(names) - columns) : len(names)]:
        axes.tick_params(labelbottom=True)  # the lowest of its column
        axes.set_xlabel("step")
    return figure, panels


def _short(names):
    """Without the source of the tasks, if it is the same for all."""
    sources = {name.partition("/")[0] for name in names if "/" in name}
    alone = len(sources) == 1 and all("/" in n or n == MEAN for n in names)
    return [name.partition("/")[2] if alone and "/" in name else name for name in names]


def _finish(figure, title, runs, axes):
    """Adds the title and one legend; returns the PNG."""
    figure.suptitle(title if len(runs) > 1 else f"{title}, {runs[0].name}")
    if len(runs) > 1:
        handles = [
            axes.plot([], [], linewidth=3, label=run.name, **_look(number))[0]
            for number, run in enumerate(runs)
        ]
        columns = max(1, min(len(runs), 80 // (max(len(r.name) for r in runs) + 4)))
        figure.legend(handles=handles, loc="outside lower center", ncols=columns)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()
