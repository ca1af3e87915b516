"""Parameter counts of the methods beside the papers' figures."""

import functools

from experiments.configs import ParameterFigure, Row, get_row, row_names, runs_of
from experiments.configs.paper_row import SIZE, TIMES, TRAINED
from experiments.reports.tables import aligned
from hypertf import T5, T5Config, analysis, conditioning
from hypertf.t5 import Unallocated

HEADINGS = ("paper", "method", "size", "figure", "paper's", "ours", "added", "")


def figures() -> list[tuple[Row, ParameterFigure]]:
    """Lists all figures of all rows."""
    rows = [get_row(name) for name in row_names()]
    return [(row, figure) for row in rows for figure in row.parameters]


def count(row: Row, figure: ParameterFigure) -> analysis.Parameters:
    """Counts the parameters of a figure's model, which is made without values."""
    config = _config(row)
    options = {**config.conditioner_options, **figure.options}
    return _count(
        figure.model or config.model,
        config.conditioner,
        figure.tasks,
        tuple(options.items()),
    )


def _config(row):
    """That of a row, or of the first of its runs, which are alike."""
    return next(iter(runs_of(row).values()))


@functools.cache  # a row may print two figures of one model
def _count(model, conditioner, tasks, options):
    config = T5Config.from_name(model)
    with Unallocated():
        method = conditioning.create(conditioner, config, tasks, **dict(options))
        return analysis.parameters(T5(config, conditioner=method))


def ours(figure: ParameterFigure, counted: analysis.Parameters) -> str:
    """Writes our figure as the paper writes its own."""
    if figure.kind == TIMES:
        return f"{counted.times:.4f}x"
    if figure.kind == SIZE:
        return f"{counted.total / 1e9:.3f}B"
    if figure.kind == TRAINED:
        return f"{counted.trained / counted.plain:.2%}"
    return f"{counted.trained_per_task:.2%}"


def agrees(figure: ParameterFigure, our: str) -> bool | None:
    """Tells whether our figure, rounded alike, is the paper's; None of words."""
    if not figure.printed[0].isdigit():
        return None
    printed, our = figure.printed.rstrip("x%B"), our.rstrip("x%B")
    digits = len(printed.partition(".")[2])
    return f"{float(our):.{digits}f}" == printed


def parameter_table() -> str:
    """Makes the table of all figures, with a footnote for each that differs."""
    cells, notes = [], []
    for row, figure in figures():
        counted = count(row, figure)
        mark = ""
        if figure.note:
            if figure.note not in notes:
                notes.append(figure.note)
            mark = f"[{notes.index(figure.note) + 1}]"
        cells.append(
            (
                figure.source,
                _config(row).conditioner,
                figure.model or _config(row).model,
                figure.kind,
                figure.printed,
                ours(figure, counted),
                f"{counted.added:,}",
                mark,
            )
        )
    notes = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
    return "\n".join([aligned(HEADINGS, cells), *notes])
