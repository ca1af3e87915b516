"""Attention to prompts by layer and its entropy, as HyperPrompt's Figure 3."""

import numpy as np

from experiments.reports.figure_parts import Drawn, new_figure, png, scatter, short
from experiments.reports.plots import COLOURS
from experiments.runs.looked_at import LookedAt
from hypertf import analysis
from hypertf.t5.inputs import TASK_IDS

BINS = 30
HEADINGS = (
    *("run", "stack", "layer", "task", "examples"),
    *("mass_mean", "mass_summed_over_queries", "entropy_mean"),
)


def draw_attention(
    run: LookedAt, baseline: LookedAt | None, stacks: list[str]
) -> dict[str, Drawn]:
    """Draws the run's mass on prompts, and its entropy beside a baseline's.

    Mass is a mean over heads, queries and examples; the paper sums over the queries
    of an example, which the numbers have too.
    """
    figure = new_figure(6.5 if len(stacks) > 1 else 4.2, 4.2)
    panels = figure.subplots(2, len(stacks), squeeze=False, sharey="row")
    rows = []
    for stack, (above, below) in zip(stacks, panels.T, strict=True):
        found = _look(run, stack)
        layers = np.arange(1, len(found.mass) + 1)
        above.bar(layers, found.mass.mean(1), color="#DDDDDD", width=0.7, label="mean")
        seen = np.unique(found.task_ids)
        beside = np.linspace(-0.27, 0.27, len(seen)) if len(seen) > 1 else [0.0]
        for task_id, place in zip(seen, beside, strict=True):
            mass = found.mass[:, found.task_ids == task_id].mean(1)
            name = short(run.tasks)[task_id]
            scatter(above, np.stack([layers + place, mass], 1), task_id, name)
        above.set_title(stack)
        above.set_xlabel("layer")
        above.set_xticks(layers)
        above.grid(visible=False, axis="x")
        rows += _rows(run, stack, found)
        all_found = {run.name: found}
        if baseline is not None:
            all_found[baseline.name] = _look(baseline, stack)
            rows += _rows(baseline, stack, all_found[baseline.name])
        _entropies(below, all_found)
    panels[0, 0].set_ylabel("attention mass on prompts")
    panels[1, 0].set_ylabel("density")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper")
    if baseline is not None:
        panels[1, -1].legend()
    return {"attention": Drawn(png(figure), HEADINGS, rows)}


class _Found:
    """Attention in all batches: [layers, examples] each, and the examples' tasks."""

    def __init__(self, found, batches):
        self.mass = np.concatenate([f.mass for f in found], 1)
        self.queries = np.concatenate([f.queries for f in found])
        self.task_ids = np.concatenate([batch[TASK_IDS] for batch in batches])
        self.entropy = np.concatenate([np.nanmean(f.entropy, -1) for f in found], 1)
        kept = [f.entropy[~np.isnan(f.entropy)] for f in found]
        self.entropies = np.concatenate(kept)  # of each query in each layer


def _look(run, stack):
    found = [analysis.prompt_attention(run.model, b, stack) for b in run.batches]
    return _Found(found, run.batches)


def _entropies(axes, all_found):
    most = max(found.entropies.max() for found in all_found.values())
    bins = np.linspace(0, max(most, 1e-6), BINS)
    for (name, found), colour in zip(all_found.items(), COLOURS, strict=False):
        look = {"histtype": "stepfilled", "alpha": 0.5, "color": colour}
        axes.hist(found.entropies, bins, density=True, label=name, **look)
    axes.set_xlabel("entropy of attention to tokens, nats")


def _rows(run, stack, found):
    rows = []
    for layer, (mass, entropy) in enumerate(
        zip(found.mass, found.entropy, strict=True), 1
    ):
        for task_id in np.unique(found.task_ids):
            of = found.task_ids == task_id
            summed = (mass * found.queries)[of].mean()
            means = mass[of].mean(), summed, entropy[of].mean()
            name = run.tasks[task_id]
            rows.append((run.name, stack, layer, name, int(of.sum()), *means))
    return rows
