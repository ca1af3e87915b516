"""The table of parameters stands beside the papers' figures."""

import subprocess
import sys

import pytest

from experiments import parameter_table
from tests.conftest import ROOT


@pytest.mark.parametrize(
    "row", parameter_table.ROWS, ids=lambda row: f"{row.method}-{row.size}-{row.kind}"
)
def test_a_figure_is_the_papers_or_has_a_footnote(row):
    figure = parameter_table.ours(row, parameter_table.count(row))
    assert parameter_table.agrees(row, figure) is not False or row.note


def test_rounding_as_the_paper():
    row = parameter_table.Row("paper", "method", "size", "times", "1.02x")
    assert parameter_table.agrees(row, "1.0232x")
    assert not parameter_table.agrees(row, "1.0282x")


@pytest.mark.slow
def test_the_program_prints_it():
    command = [sys.executable, "-m", "experiments.report"]
    result = subprocess.run(
        [*command, "--table=parameters"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    for words in ("hyperformer++", "0.29%", "[1]"):
        assert words in result.stdout
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode and "--table=parameters" in result.stdout + result.stderr
