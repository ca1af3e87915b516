"""Tables of results.

    python -m experiments.report --table=parameters
    python -m experiments.report --table=cost
    python -m experiments.report --table=measured_cost --size=t5-small
    python -m experiments.report --model_dir=/tmp/nano
    python -m experiments.report --model_dir=/tmp/plain,/tmp/method --split=test

With model_dir: learning curves, scores beside the paper's, parameters and time of a
step, as Markdown and PNG; of several runs, beside each other. The checkpoint is chosen
on the validation sets, whatever split is reported.
"""

import os
from collections.abc import Sequence

from absl import app, flags

from experiments.reports.cost_table import cost_table
from experiments.reports.measured_cost import measured_table
from experiments.reports.parameter_figures import parameter_table
from experiments.reports.run_report import WrittenReport, write_report
from experiments.runs import program

TABLES = {
    "parameters": parameter_table,
    "cost": cost_table,
    "measured_cost": measured_table,
}
SIZED = ("cost", "measured_cost")  # of a T5 of any size


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
        list(TABLES),
        "parameters: counts beside the papers' figures; cost: multiply-adds of the "
        "methods beside HyperPrompt's; measured_cost: memory and time of training "
        "beside HyperFormer's, measured on this machine.",
        **options,
    )
    flags.DEFINE_string(
        "size",
        None,
        "With cost and measured_cost, the T5: by default t5.1.1-base, and t5-small.",
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
            f"{given} given of two; expected either --table=parameters, ... or "
            "--model_dir=FOLDER,..."
        )
    if values.size is not None and values.table not in SIZED:
        raise app.UsageError(
            f"--size={values.size}: expected with --table={' or '.join(SIZED)}"
        )
    if values.table:
        size = {} if values.size is None else {"size": values.size}
        print(TABLES[values.table](**size))
        return
    written = report(values.model_dir, **program.given(values, "split", "output"))
    print(f"{written.text}\nwritten to {written.path}")


if __name__ == "__main__":
    program.run("experiments.report", _define, _call)
