"""Scores of several runs over one option at a time, as HyperGrid's Figures 3 to 8."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np

import hypertf
from experiments.reports.figure_parts import PAPER_STYLE, Drawn, new_figure, png
from experiments.reports.plots import COLOURS
from experiments.runs import components, config_file
from experiments.runs.eval_results import Results
from hypertf import analysis
from hypertf.conditioning.hypergrid import D_C, D_R
from hypertf.t5 import Unallocated

UNSET = {"d_r": D_R, "d_c": D_C}  # what None stands for
HEADINGS = ("option", "value", "max", "mean", "min", "runs")


def draw_sweep(folders: Sequence[str], split: str) -> dict[str, Drawn]:
    """Draws the most, the mean and the least score over each option that varies."""
    scored = {folder: _score(folder, split) for folder in folders}
    settings = {folder: _settings(folder) for folder in folders}
    options = _varied(settings)
    if not options:
        raise ValueError(
            "figure 'sweep': no option that is a number differs between the runs; "
            "expected runs of one method with another d_r, length, ..."
        )
    with matplotlib.rc_context(PAPER_STYLE):
        figure = new_figure(3.3 * len(options), 2.5)
        rows = []
        for axes, option in zip(
            figure.subplots(1, len(options), squeeze=False)[0], options, strict=True
        ):
            points = [(settings[f][option], scored[f]) for f in folders]
            curve = analysis.curve(points)
            _draw(axes, option, curve)
            rows += [(option, *values) for values in zip(*curve, strict=True)]
        axes.legend()
        return {"sweep": Drawn(png(figure), HEADINGS, rows)}


def _draw(axes, option, curve):
    places = np.arange(len(curve.setting))  # settings are often powers of two
    axes.fill_between(places, curve.least, curve.most, color=COLOURS[0], alpha=0.15)
    lines = {"max": curve.most, "mean": curve.mean, "min": curve.least}
    for (name, values), dash in zip(lines.items(), ("--", "-", ":"), strict=True):
        axes.plot(places, values, dash, marker="o", ms=3, color=COLOURS[0], label=name)
    axes.set_xticks(places, [f"{value:g}" for value in curve.setting])
    axes.set(xlabel=option, ylabel="score, %")


def _score(folder, split):
    results = Results(folder, split)
    if not results.scores:
        raise ValueError(
            f"{folder} has no scores on {split}; made by python -m "
            f"experiments.evaluate --model_dir={folder} --split={split}"
        )
    return results.averages()[results.best_step()]


def _settings(folder: str) -> Mapping[str, float]:
    """The options of a run's method that are numbers."""
    config = config_file.read(folder)
    with Unallocated():
        method = hypertf.conditioning.create(
            config.conditioner,
            components.t5_config(config),
            components.make_mixture(config).num_tasks,
            **config.conditioner_options,
        )
    settings = {}
    for member in getattr(method, "members", [] if method is None else [method]):
        for name, value in vars(member.options).items():
            value = UNSET.get(name) if value is None else value
            if isinstance(value, int | float) and not isinstance(value, bool):
                settings[f"{member.method} {name}"] = value
    return settings


def _varied(settings):
    common = set.intersection(*(set(own) for own in settings.values()))
    first = next(iter(settings.values()))
    return [
        name
        for name in first
        if name in common and len({own[name] for own in settings.values()}) > 1
    ]
