"""Pictures of what a run's model has learned, as the papers draw them.

Each figure is a function of a `LookedAt` to {file name: Drawn}, and says of which
models there is one: those whose method has what it shows.
"""

import dataclasses
from collections.abc import Callable, Mapping

import matplotlib
import numpy as np
import tensorflow as tf

from experiments.reports.attention_figure import draw_attention
from experiments.reports.figure_parts import (
    PAPER_STYLE,
    Drawn,
    heat,
    new_figure,
    png,
    scatter,
    short,
)
from experiments.runs.looked_at import LookedAt
from hypertf import analysis
from hypertf.t5 import T5
from hypertf.t5.inputs import ENCODER_TOKENS, TASK_IDS
from hypertf.t5.sites import STACKS

MOST_CELLS = 128  # along a side of a grid: a finer one is averaged
Files = dict[str, Drawn]


def stacks_with_prompts(model: T5) -> list[str]:
    """Lists the stacks in which a method adds keys or tokens of its own."""
    inputs = {
        ENCODER_TOKENS: tf.ones([1, 1], tf.int32),
        TASK_IDS: tf.zeros([1], tf.int32),
    }
    encoder = model.encoder_sites(inputs)
    decoder = model.decoder_sites(inputs, *model.encode(inputs))
    both = zip(STACKS, (encoder, decoder), strict=True)
    return [stack for stack, sites in both if sites.num_keys + sites.num_tokens]


def attention(run: LookedAt, baseline: LookedAt | None) -> Files:
    """Draws attention mass on prompts by layer, and the entropy on tokens."""
    return draw_attention(run, baseline, stacks_with_prompts(run.model))


def task_embeddings(run: LookedAt, _: LookedAt | None) -> Files:
    """Draws each table of task vectors by its two principal components."""
    tables = analysis.task_vectors(run.model)
    names, rows = short(run.tasks), []
    columns = min(2, len(tables))
    lines = -(-len(tables) // columns)
    figure = new_figure(2.5 * columns + 1.4, 2.4 * lines)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes in panels[len(tables) :]:
        axes.set_visible(False)
    for axes, (table, vectors) in zip(panels, tables.items(), strict=False):
        points, explained = analysis.pca(vectors)
        for number, (name, point) in enumerate(zip(names, points, strict=True)):
            scatter(axes, point[None], number, name, size=28)
            rows.append((table, run.tasks[number], *point))
        axes.set_title(table)
        axes.set_xlabel(f"first component, {explained[0]:.0%}")
        axes.set_ylabel(f"second component, {explained[1]:.0%}")
    _legend(figure, panels[0])
    headings = ("table", "task", "first", "second")
    return {"task_embeddings": Drawn(png(figure), headings, rows)}


def _legend(figure, axes):
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")


def input_embeddings(run: LookedAt, _: LookedAt | None) -> Files:
    """Draws what the hypernetwork reads of inputs, by PCA and t-SNE."""
    vectors = np.concatenate(
        [analysis.input_embeddings(run.model, batch) for batch in run.batches]
    )
    task_ids = np.concatenate([batch[TASK_IDS] for batch in run.batches])
    flat, explained = analysis.pca(vectors)
    maps = {"PCA": flat, "t-SNE": analysis.tsne(vectors)}
    figure = new_figure(6.5, 3.2)
    panels = figure.subplots(1, 2)
    for axes, (title, points) in zip(panels, maps.items(), strict=True):
        for task_id in np.unique(task_ids):
            name = short(run.tasks)[task_id]
            scatter(axes, points[task_ids == task_id], task_id, name)
        axes.set_title(title)
        axes.set(xticks=[], yticks=[])
    panels[0].set_xlabel(f"first component, {explained[0]:.0%}")
    panels[0].set_ylabel(f"second component, {explained[1]:.0%}")
    _legend(figure, panels[0])
    names = [run.tasks[task_id] for task_id in task_ids]
    rows = zip(names, *maps["PCA"].T, *maps["t-SNE"].T, strict=True)
    headings = ("task", "pca_first", "pca_second", "tsne_first", "tsne_second")
    return {"input_embeddings": Drawn(png(figure), headings, list(rows))}


def grids(run: LookedAt, _: LookedAt | None) -> Files:
    """Draws the mean gates of each task, layer by layer, in a file for each kernel."""
    files = {}
    for stack in STACKS:
        by_kernel = {}
        for (block, kernel), gates in analysis.mean_grids(
            run.model, run.batches, stack
        ).items():
            by_kernel.setdefault(kernel, {})[block] = _coarse(gates)
        for kernel, blocks in by_kernel.items():
            files[f"grids_{stack}_{kernel}"] = _grids(run, stack, kernel, blocks)
    return files


def _coarse(gates):
    """Means over cells, [tasks, rows, columns] with no more than MOST_CELLS of each."""
    for axis in (1, 2):
        count = min(MOST_CELLS, gates.shape[axis])
        parts = np.array_split(gates, count, axis=axis)
        gates = np.stack([part.mean(axis) for part in parts], axis=axis)
    return gates


def _grids(run, stack, kernel, blocks):
    names, rows = short(run.tasks), []
    every = np.stack(list(blocks.values()))
    far = max(np.nanmax(np.abs(every - 0.5)), 1e-6)
    size = (1.1 + 1.0 * len(blocks), 0.5 + 0.42 * len(names))
    figure = new_figure(max(3.3, size[0]), size[1])
    panels = figure.subplots(len(names), len(blocks), squeeze=False)
    for column, (block, gates) in enumerate(blocks.items()):
        for row, name in enumerate(names):
            axes = panels[row, column]
            image = heat(axes, gates[row], 0.5 - far, 0.5 + far, "RdBu_r")
            axes.set(xticks=[], yticks=[])
            if not column:
                right = {"rotation": 0, "ha": "right", "va": "center"}
                axes.set_ylabel(name, **right)
            if not row:
                axes.set_title(f"layer {block + 1}")
            for number, cells in enumerate(gates[row]):
                rows.append((stack, kernel, block + 1, run.tasks[row], number, *cells))
    figure.colorbar(image, ax=panels, label="gate", fraction=0.05, aspect=40)
    headings = ("stack", "kernel", "layer", "task", "row")
    headings += tuple(f"column_{i}" for i in range(every.shape[-1]))
    return Drawn(png(figure), headings, rows)


def grid_similarity(run: LookedAt, _: LookedAt | None) -> Files:
    """Draws the cosines between the gates of tasks."""
    by_stack = {}
    for stack in STACKS:
        blocks = {}
        for (block, kernel), gates in analysis.mean_grids(
            run.model, run.batches, stack
        ).items():
            flat = gates.reshape(len(gates), -1)
            blocks.setdefault(block, {})[kernel] = flat
        by_stack[stack] = list(blocks.values())
    return _similarity("grid_similarity", run, by_stack)


def weight_similarity(run: LookedAt, _: LookedAt | None) -> Files:
    """Draws the cosines between the weights that tasks get of the method."""
    return _similarity("weight_similarity", run, _task_weights(run))


def _task_weights(
    run: LookedAt, batches: int | None = None
) -> dict[str, list[Mapping[str, np.ndarray]]]:
    """What tasks get in each stack, of so many batches where it depends on inputs."""
    reads = () if run.model.conditioner is None else run.model.conditioner.reads_input
    return {
        stack: analysis.task_weights(
            run.model, stack, run.batches[:batches] if stack in reads else ()
        )
        for stack in STACKS
    }


def _similarity(name, run, by_stack):
    """Cosines, and those of what differs from the mean over tasks, for each stack."""
    by_stack = {stack: blocks for stack, blocks in by_stack.items() if any(blocks)}
    names = short(run.tasks)
    side = max(1.6, 0.19 * len(names))
    figure = new_figure(1.4 + 2 * side, (side + 0.35) * len(by_stack) + 0.7)
    panels = figure.subplots(len(by_stack), 2, squeeze=False, sharex=True, sharey=True)
    rows, image = [], None
    for (stack, blocks), (left, right) in zip(by_stack.items(), panels, strict=True):
        pairs = ((left, stack, False), (right, f"{stack}, mean subtracted", True))
        for axes, title, centred in pairs:
            values = analysis.mean_cosines(blocks, centred)
            image = heat(axes, values, -1, 1, "RdBu_r")
            axes.set_title(title)
            axes.set_xticks(range(len(names)), names, rotation=90)
            axes.set_yticks(range(len(names)), names)
        for layer, of_layer in [("all", blocks), *enumerate(map(_alone, blocks), 1)]:
            rows += _cosine_rows(run, stack, layer, of_layer)
    figure.colorbar(image, ax=panels, label="cosine", fraction=0.05, aspect=30)
    headings = ("stack", "layer", "task", "other", "cosine", "cosine_mean_subtracted")
    return {name: Drawn(png(figure), headings, rows)}


def _alone(block):
    return [block]


def _cosine_rows(run, stack, layer, blocks):
    plain = analysis.mean_cosines(blocks)
    centred = analysis.mean_cosines(blocks, centred=True)
    if plain is None:
        return []
    return [
        (stack, layer, task, other, plain[i, j], centred[i, j])
        for i, task in enumerate(run.tasks)
        for j, other in enumerate(run.tasks)
    ]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A figure: which models have it, and how it is drawn."""

    has: Callable[[LookedAt], bool]
    draw: Callable[[LookedAt, LookedAt | None], Files]


def _has_grids(run):
    return analysis.has_grids(run.model)


def _has_weights(run):
    if run.model.conditioner is None or len(run.tasks) < 2:
        return False
    return any(block for blocks in _task_weights(run, 1).values() for block in blocks)


FIGURES = {
    "attention": Kind(lambda run: bool(stacks_with_prompts(run.model)), attention),
    "task-embeddings": Kind(
        lambda run: bool(analysis.task_vectors(run.model)), task_embeddings
    ),
    "input-embeddings": Kind(
        lambda run: analysis.has_input_embeddings(run.model), input_embeddings
    ),
    "grids": Kind(_has_grids, grids),
    "grid-similarity": Kind(_has_grids, grid_similarity),
    "weight-similarity": Kind(_has_weights, weight_similarity),
}


def draw(figure: str, run: LookedAt, baseline: LookedAt | None = None) -> Files:
    """Draws one of FIGURES."""
    with matplotlib.rc_context(PAPER_STYLE):
        return FIGURES[figure].draw(run, baseline)
