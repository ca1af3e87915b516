"""A paper's table beside ours: mean, deviation and number of runs of every figure."""

import csv
import dataclasses
import io
import json
import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

from experiments.configs.items import Item
from experiments.configs.paper_row import AVERAGE, Row
from experiments.reports import paper_comparison
from experiments.reports.reported_run import read_run
from experiments.reports.seeds import Summary, p_text
from experiments.reports.tables import markdown
from experiments.runs.eval_results import SELECTION, Scores
from tfds_tasks import get_task

# {row: {seed: folders of the runs that make up the row}}.
Folders = Mapping[str, Mapping[int, Sequence[str]]]
COLUMNS = (
    *("row", "task", "metric", "ours", "deviation", "runs"),
    *("paper", "paper_deviation"),
)
NANO = (
    "Ours are of t5-nano on the nano tasks, which say how the methods compare there, "
    "and nothing of the paper's numbers."
)


@dataclasses.dataclass(frozen=True)
class ItemTable:
    """The table of an item: its text, its cells, the path of the Markdown file.

    Attributes:
        cells: a dict for each figure, with the keys `COLUMNS`.
    """

    text: str
    cells: list[dict]
    path: str

    def _repr_markdown_(self):
        """What a notebook shows."""
        return self.text


def write_item(
    item: Item,
    folders: Folders,
    output: str,
    scale: str = "full",
    steps: int | None = None,
) -> ItemTable:
    """Writes table.md, table.csv and table.json of an item's runs."""
    rows = {row.name: row for row in item.rows if row.name in folders}
    scores = {
        name: [_scores(item, rows[name], of_seed, scale) for of_seed in seeds.values()]
        for name, seeds in folders.items()
    }
    cells = [c for name, row in rows.items() for c in _cells(row, scores[name], scale)]
    text = _text(item, rows, cells, scores, scale, steps)
    tf.io.gfile.makedirs(output)
    path = os.path.join(output, "table.md")
    for name, content in (
        ("table.md", text),
        ("table.csv", _csv(cells)),
        ("table.json", json.dumps({"item": item.key, "cells": cells}, indent=1)),
    ):
        with tf.io.gfile.GFile(os.path.join(output, name), "w") as file:
            file.write(content)
    return ItemTable(text, cells, path)


def _scores(item: Item, row: Row, folders: Sequence[str], scale: str) -> Scores:
    """The scores of one seed, chosen as the paper chooses the checkpoint."""
    split = SELECTION if scale == "nano" else row.split
    together = {}
    for folder in folders:
        run = read_run(folder, split, os.path.basename(folder))
        missing = run.missing()
        if missing:
            raise ValueError(missing)
        each = run.at_best_of_each_task() if item.best_of_each_task else {}
        together |= each or run.at_best_step()
    if item.by_labels:
        return {t: m for t, m in together.items() if get_task(t).choices is not None}
    return together


def _cells(row, scores, scale):
    """A dict for each figure of a row, over its seeds."""
    beside = [
        paper_comparison.beside(each, None if scale == "nano" else row)
        for each in scores
    ]
    keys = list(dict.fromkeys(key for each in beside for key in each))
    deviations = _deviations(row)
    cells = []
    for key in keys:
        values = [
            each[key][0] for each in beside if each.get(key, (None,))[0] is not None
        ]
        paper = next((each[key][1] for each in beside if key in each), None)
        if not values and paper is None:
            continue
        ours = Summary.of(values) if values else None
        cells.append(_cell(row, key, ours, paper, deviations.get(key)))
    if scale == "nano":
        title = paper_comparison.TITLES
        for (name, value), printed in _printed_averages(row):
            key = f"paper: {title.get(name, name)}", ""
            cells.append(_cell(row, key, None, value, printed))
    return cells


def _cell(row, key, ours, paper, deviation):
    ours_of = (None, None, 0) if ours is None else dataclasses.astuple(ours)
    return dict(zip(COLUMNS, (row.name, *key, *ours_of, paper, deviation), strict=True))


def _deviations(row):
    found = {}
    for printed in row.printed:
        for task, metrics in printed.deviations.items():
            for metric, value in metrics.items():
                title = paper_comparison.TITLES.get(metric, metric)
                found[(title, "") if task == AVERAGE else (task, metric)] = value
    return found


def _printed_averages(row):
    deviations = {
        name: value
        for printed in row.printed
        for name, value in printed.deviations.get(AVERAGE, {}).items()
    }
    return [((k, v), deviations.get(k)) for k, v in row.average.items()]


def _text(item, rows, cells, scores, scale, steps):
    means = [(c["task"], c["metric"]) for c in cells]
    keys = list(dict.fromkeys(means))
    keys.sort(key=lambda key: (not key[1], key[0] == paper_comparison.OVER_TASKS))
    by_row = {(c["row"], c["task"], c["metric"]): c for c in cells}
    lines = [
        (
            name,
            len(scores[name]),
            *(_beside(by_row.get((name, *key))) for key in keys),
        )
        for name in rows
    ]
    headings = ("row", "runs", *(" ".join(filter(None, key)) for key in keys))
    parts = [f"# {item.title}", f"{item.about}. Each cell: ours / the paper's."]
    if scale == "nano":
        parts.append(NANO)
    if steps is not None:
        parts.append(f"Runs of {steps:,} steps, not of the rows' own number.")
    parts.append(markdown(headings, lines))
    tests = _tests(rows, scores)
    if tests:
        parts += ["p of Welch's t-test on the mean over tasks:", tests]
    return "\n\n".join(parts) + "\n"


def _beside(cell):
    if cell is None:
        return ""
    ours = paper = "-"
    if cell["ours"] is not None:
        ours = str(Summary(cell["ours"], cell["deviation"], cell["runs"]))
    if cell["paper"] is not None:
        deviation = cell["paper_deviation"]
        paper = f"{cell['paper']:g}"
        paper += "" if deviation is None else f" ± {deviation:g}"
    return f"{ours} / {paper}"


def _tests(rows, scores):
    """The first row against each other one, where there is more than one."""
    over_tasks = paper_comparison.OVER_TASKS, ""
    means = {
        name: [
            paper_comparison.average_cells(each)[over_tasks][0] for each in scores[name]
        ]
        for name in rows
    }
    first, *others = rows
    lines = [
        (f"{first} - {name}", p_text(means[first], means[name])) for name in others
    ]
    return markdown(("systems", "p"), lines) if lines else ""


def _csv(cells):
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells)
    return text.getvalue()
