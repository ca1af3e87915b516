"""What figures of a paper share: their look, PNG and CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from experiments.reports.plots import COLOURS, STYLE

DPI = 200  # dots in an inch: a column of a page is 3.3 inches wide
# As plots of runs, smaller, as text of a paper is.
PAPER_STYLE = {
    **STYLE,
    "font.size": 8,
    "axes.titlesize": 8,
    "figure.titlesize": 9,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
}
# Sixteen, as the mixtures have tasks; seven that all can tell apart come first.
POINT_COLOURS = (
    *COLOURS,
    *("#999999", "#882255", "#44AA99", "#332288", "#DDCC77", "#AA4499", "#661100"),
    *("#117733", "#6699CC"),
)
MARKERS = "osD^vP*X"


class Drawn(NamedTuple):
    """A figure that is ready: the PNG, and its numbers with their headings."""

    png: bytes
    headings: Sequence[str]
    rows: Iterable[Sequence[object]]

    def csv(self) -> bytes:
        """Writes the numbers; an absent one is an empty cell."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.headings)
        writer.writerows([[_cell(value) for value in row] for row in self.rows])
        return text.getvalue().encode()


def _cell(value):
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.6g}"
    return value


def new_figure(width: float, height: float) -> Figure:
    """Makes a figure of that many inches; nothing keeps it open."""
    return Figure(figsize=(width, height), layout="constrained")


def png(figure: Figure) -> bytes:
    """Draws the figure."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()


def heat(
    axes: Axes, values: np.ndarray, least: float, most: float, colours: str
) -> AxesImage:
    """Draws values [rows, columns] as colours; absent ones stay grey."""
    axes.grid(visible=False)
    axes.set_facecolor("#DDDDDD")
    for side in axes.spines.values():
        side.set_visible(False)
    return axes.imshow(
        np.ma.masked_invalid(values),
        vmin=least,
        vmax=most,
        cmap=colours,
        aspect="auto",
        interpolation="nearest",
    )


def scatter(
    axes: Axes, points: np.ndarray, number: int, label: str, size: int = 12
) -> None:
    """Draws points [n, 2] in the colour and the shape of a number."""
    axes.scatter(
        *points.T,
        s=size,
        label=label,
        color=POINT_COLOURS[number % len(POINT_COLOURS)],
        marker=MARKERS[number % len(MARKERS)],
        linewidths=0,
        alpha=0.8,
    )


def short(names: Sequence[str]) -> list[str]:
    """Leaves out the source of tasks' names, if all have the same.

    >>> short(["glue/cola", "glue/rte"]), short(["glue/cola", "squad"])
    (['cola', 'rte'], ['glue/cola', 'squad'])
    """
    sources = {name.partition("/")[0] for name in names}
    alone = len(sources) == 1 and all("/" in name for name in names)
    return [name.partition("/")[2] if alone else name for name in names]
