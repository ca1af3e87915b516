"""Runs that differ in the seed only, as one system: means, deviations, a test."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from experiments.reports import paper_comparison
from experiments.reports.reported_run import ReportedRun
from experiments.reports.seeds import Summary, p_text
from experiments.reports.tables import markdown

Systems = Mapping[str, Sequence[ReportedRun]]


def systems(runs: Sequence[ReportedRun]) -> dict[str, list[ReportedRun]]:
    """Groups runs by all settings but the seed; a system is called as its first run."""
    groups = []
    for run in runs:
        for group in groups:
            if set(group[0].config.differences(run.config)) <= {"seed"}:
                group.append(run)
                break
        else:
            groups.append([run])
    return {group[0].name: group for group in groups}


def seeds_part(runs: Sequence[ReportedRun]) -> list[str]:
    """Writes the part of a report; [] where no system has several runs."""
    made = systems(runs)
    if all(len(group) == 1 for group in made.values()):
        return []
    parts = [
        "### Over seeds",
        "Mean ± standard deviation over the runs that differ in the seed only:",
        seeds_table(made),
    ]
    if len(made) > 1:
        parts += [
            "p of Welch's t-test (two-sided; \\* below 0.05), runs of each at least 3:",
            tests_table(made),
        ]
    return parts


def seeds_table(made: Systems) -> str:
    """Makes the table of metrics and averages, a column for each system."""
    values = _values(made)
    headings = [f"{name} ({len(runs)} runs)" for name, runs in made.items()]
    rows = [
        (*key, *(_summary(by_system.get(name)) for name in made))
        for key, by_system in values.items()
    ]
    return markdown(("task", "metric", *headings), rows)


def tests_table(made: Systems) -> str:
    """Makes the table of p for each two systems."""
    values = _values(made)
    pairs = list(combinations(made, 2))
    rows = []
    for key, by_system in values.items():
        cells = []
        for one, other in pairs:
            both = by_system.get(one), by_system.get(other)
            text = p_text(*both) if None not in both else ""
            cells.append(text.replace("*", "\\*"))
        rows.append((*key, *cells))
    headings = [f"{one} - {other}" for one, other in pairs]
    return markdown(("task", "metric", *headings), rows)


def _values(made):
    """{(task, metric): {system: a value for each run that has one}}."""
    found = {}
    for name, runs in made.items():
        for run in runs:
            for key, (ours, _) in paper_comparison.beside(run.at_best_step()).items():
                if ours is not None:
                    found.setdefault(key, {}).setdefault(name, []).append(ours)
    return found


def _summary(values):
    return "" if values is None else str(Summary.of(values))
