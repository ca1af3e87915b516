"""Tables of results.

    python -m experiments.report --table=parameters
    python -m experiments.report --model_dir=/tmp/nano
    python -m experiments.report --model_dir=/tmp/plain,/tmp/method --split=test

With model_dir: learning curves, scores beside the paper's, parameters and time of a
step, as Markdown and PNG; of several runs, beside each other. The checkpoint is chosen
on the validation sets, whatever split is reported.
"""

import os
from collections.abc import Sequence

from absl import app, flags

from experiments.reports.parameter_figures import parameter_table
from experiments.reports.run_report import WrittenReport, write_report
from experiments.runs import program


def report(
    model_dirs: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    split: str = "validation",
    output: str | os.PathLike | None = None,
) -> WrittenReport:
    """Writes the report of runs, beside each other; a notebook shows it as it is.

    ```python
    from experiments.report import report

    report(["/tmp/plain", "/tmp/method"], output="/tmp/report").path
    ```

    Args:
        model_dirs: folders of runs, or one of them.
        split: whose scores are reported; the checkpoint is chosen on validation.
        output: folder of the report; by default report/ in the first of model_dirs.
    """
    if isinstance(model_dirs, (str, os.PathLike)):
        model_dirs = [model_dirs]
    return write_report(model_dirs, output, split)


def _define(values):
    options = {"flag_values": values}
    flags.DEFINE_enum(
        "table",
        None,
        ["parameters"],
        "parameters: counts beside the papers' figures.",
        **options,
    )
    flags.DEFINE_list(
        "model_dir", None, "Folders of runs, to report beside each other.", **options
    )
    flags.DEFINE_string(
        "split", "validation", "Split whose scores are reported.", **options
    )
    flags.DEFINE_string(
        "output",
        None,
        "Folder of the report; by default report/ in the first model_dir.",
        **options,
    )


def _call(values):
    if (values.table is None) == (values.model_dir is None):
        given = "neither" if values.table is None else "both"
        raise app.UsageError(
            f"{given} given of two; expected either --table=parameters or "
            "--model_dir=FOLDER,..."
        )
    if values.table:
        print(parameter_table())
        return
    written = report(values.model_dir, **program.given(values, "split", "output"))
    print(f"{written.text}\nwritten to {written.path}")


if __name__ == "__main__":
    program.run("experiments.report", _define, _call)
