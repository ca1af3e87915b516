"""Draws what a run's model has learned, as the papers' figures do.

    python -m experiments.analyze --model_dir=/tmp/nano
    python -m experiments.analyze --model_dir=... --baseline=/tmp/plain
    python -m experiments.analyze --model_dir=A,B,C --figure=sweep

Without --figure, all that the method has. Pictures are PNG, at a size fit for a paper,
and the numbers of each lie beside it as CSV, in analysis/ of the run.
"""

import os
from collections.abc import Mapping, Sequence

import tensorflow as tf
from absl import app, flags

from experiments.reports.analysis_figures import FIGURES, draw
from experiments.reports.figure_parts import Drawn
from experiments.reports.sweep_figure import draw_sweep
from experiments.runs import components, program
from experiments.runs.looked_at import LookedAt
from hypertf.names import unknown
from hypertf.training import RunFolder

SWEEP = "sweep"  # the one figure of several runs
NAMES = (*FIGURES, SWEEP)
FOLDER = "analysis"


def analyze(
    model_dir: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    figures: Sequence[str] = (),
    checkpoint: str | int = "latest",
    split: str = "validation",
    examples: int = 100,
    baseline: str | os.PathLike | None = None,
    output: str | os.PathLike | None = None,
    data_dir: str | os.PathLike | None = None,
) -> dict[str, list[str]]:
    """Draws figures of a run; returns the PNG files of each, {figure: paths}.

    ```python
    from experiments.analyze import analyze

    analyze("/tmp/nano", figures=["task-embeddings", "weight-similarity"])
    ```

    Args:
        model_dir: folder of the run; several for a sweep.
        figures: names among attention, task-embeddings, input-embeddings, grids,
            grid-similarity, weight-similarity and sweep; all that the method has by
            default.
        checkpoint: "latest", "best" or a step.
        split: whose examples are looked at, and whose scores a sweep shows.
        examples: of each task, at most.
        baseline: folder of another run, whose entropies are drawn beside.
        output: folder of the pictures; by default analysis/ in the first model_dir.
        data_dir: folder of the TFDS data, by default TFDS's own.
    """
    if isinstance(model_dir, str | os.PathLike):
        model_dir = [model_dir]
    folders = [components.expand(folder).rstrip("/") for folder in model_dir]
    figures = _checked(folders, [figures] if isinstance(figures, str) else figures)
    if examples < 1:
        raise ValueError(f"examples={examples}, expected at least 1")
    output = components.expand(output)
    output = output or os.path.join(RunFolder(folders[0], writes=False).path, FOLDER)
    if figures == [SWEEP]:
        if baseline is not None:
            raise ValueError(f"baseline={baseline}: figure 'sweep' has no baseline")
        return {SWEEP: _write(output, draw_sweep(folders, split))}
    look = {"split": split, "examples": examples, "data_dir": data_dir}
    run = LookedAt(folders[0], checkpoint, **look)
    for name in figures:
        if not FIGURES[name].has(run):
            what = ", ".join(_had(run)) or "none"
            raise ValueError(
                f"figure={name!r}: the method {run.config.conditioner} of "
                f"{run.folder} has no such figure; expected one of those it has: {what}"
            )
    figures = figures or _had(run)
    if not figures:
        raise ValueError(
            f"{run.folder}: the method {run.config.conditioner} has none of the "
            f"figures {', '.join(FIGURES)}"
        )
    other = None
    if baseline is not None:
        if "attention" not in figures:
            raise ValueError(f"baseline={baseline}: expected with figure 'attention'")
        other = LookedAt(baseline, "latest", **look)
    written = {}
    for name in figures:
        written[name] = _write(output, draw(name, run, other))
        for path in written[name]:
            print(path, flush=True)
    return written


def _had(run: LookedAt) -> list[str]:
    return [name for name, kind in FIGURES.items() if kind.has(run)]


def _checked(folders, figures):
    """The figures that are asked for, once it is sure that they fit the folders."""
    for name in figures:
        if name not in NAMES:
            raise ValueError(unknown("figure", name, NAMES))
    figures = list(dict.fromkeys(figures))
    if not folders:
        raise ValueError("model_dir names 0 folders; expected at least 1")
    if len(folders) > 1 and not figures:
        figures = [SWEEP]
    if (figures == [SWEEP]) != (len(folders) > 1):
        raise ValueError(
            f"model_dir names {len(folders)} folders for "
            f"{', '.join(figures) or 'all figures'}; expected several for figure "
            "'sweep' alone, and one for all others"
        )
    return figures


def _write(output: str, files: Mapping[str, Drawn]) -> list[str]:
    """Writes PNG and CSV of each; returns the paths of the PNGs."""
    tf.io.gfile.makedirs(output)
    paths = []
    for name, drawn in files.items():
        path = os.path.join(output, name)
        for ending, data in ((".png", drawn.png), (".csv", drawn.csv())):
            with tf.io.gfile.GFile(path + ending, "wb") as file:
                file.write(data)
        paths.append(path + ".png")
    return paths


def _define(values):
    options = {"flag_values": values}
    flags.DEFINE_list("model_dir", None, "The run; several for a sweep.", **options)
    flags.DEFINE_multi_enum(
        "figure", [], NAMES, "Figures; all that the method has by default.", **options
    )
    flags.DEFINE_string(
        "checkpoint", "latest", "latest, best or a step's number.", **options
    )
    flags.DEFINE_string(
        "split", "validation", "Whose examples are looked at.", **options
    )
    flags.DEFINE_integer(
        "examples", 100, "Of each task, at most.", lower_bound=1, **options
    )
    flags.DEFINE_string(
        "baseline",
        None,
        "Another run, such as a plain one, whose entropies are drawn beside.",
        **options,
    )
    flags.DEFINE_string(
        "output",
        None,
        "Folder of the pictures; by default analysis/ in the first model_dir.",
        **options,
    )
    flags.DEFINE_string("data_dir", None, "Folder of the TFDS data.", **options)


def _call(values):
    if not values.model_dir:
        raise app.UsageError("--model_dir is not set; expected the folder of a run")
    options = program.given(
        values, "checkpoint", "split", "examples", "baseline", "output", "data_dir"
    )
    analyze(values.model_dir, figures=values.figure, **options)


if __name__ == "__main__":
    program.run("experiments.analyze", _define, _call)
