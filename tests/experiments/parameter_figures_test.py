"""The table of parameters stands beside the papers' figures."""

import pytest

from experiments.configs import ParameterFigure
from experiments.reports import parameter_figures

FIGURES = parameter_figures.figures()


@pytest.mark.parametrize(
    ("row", "figure"), FIGURES, ids=[f"{row.name}-{f.kind}" for row, f in FIGURES]
)
def test_a_figure_is_the_papers_or_has_a_footnote(row, figure):
    our = parameter_figures.ours(figure, parameter_figures.count(row, figure))
    assert parameter_figures.agrees(figure, our) is not False or figure.note


def test_rounding_as_the_paper():
    figure = ParameterFigure("paper", "times", "1.02x")
    assert parameter_figures.agrees(figure, "1.0232x")
    assert not parameter_figures.agrees(figure, "1.0282x")


def test_the_table_has_all_figures_and_footnotes():
    lines = parameter_figures.parameter_table().splitlines()
    notes = {figure.note for _, figure in FIGURES if figure.note}
    assert len(lines) == 2 + len(FIGURES) + len(notes)
    assert notes
    (line,) = [x for x in lines if "hyperformer++" in x and "0.29%" in x]
    assert line.split()[-3:] == ["0.29%", "0.29%", "5,163,440"]
    assert lines[-len(notes)].startswith("[1] ")
