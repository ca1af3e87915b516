"""Tables of results.

    python -m experiments.report --table=parameters
    python -m experiments.report --model_dir=/tmp/nano
    python -m experiments.report --model_dir=/tmp/plain,/tmp/method --split=test

With model_dir: learning curves, scores beside the paper's, parameters and time of a
step, as Markdown and PNG; of several runs, beside each other.
"""

from absl import app, flags, logging

from experiments import parameter_table, run_report
from experiments.bench import timing

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "table", None, ["parameters"], "parameters: counts beside the papers' figures."
)
flags.DEFINE_list("model_dir", None, "Folders of runs, to report beside each other.")
flags.DEFINE_string("split", "validation", "Split whose scores are reported.")
flags.DEFINE_string(
    "output", None, "Folder of the report; by default report/ in the first model_dir."
)


def print_parameters():
    headings, rows, notes = parameter_table.table()
    print(timing.table(headings, rows))
    for number, note in enumerate(notes, 1):
        print(f"[{number}] {note}")


def main(argv):
    if argv[1:]:
        raise app.UsageError(f"unexpected argument {argv[1]!r}; see --help")
    if (FLAGS.table is None) == (FLAGS.model_dir is None):
        given = "neither" if FLAGS.table is None else "both"
        raise app.UsageError(
            f"{given} given of two; expected either --table=parameters or "
            "--model_dir=FOLDER,..."
        )
    if FLAGS.table:
        print_parameters()
        return
    try:
        text, path = run_report.write(FLAGS.model_dir, FLAGS.output, FLAGS.split)
    except (ValueError, OSError) as error:
        logging.debug("%s", error, exc_info=True)
        raise SystemExit(f"experiments.report: {error}") from None
    print(f"{text}\nwritten to {path}")


if __name__ == "__main__":
    app.run(main)
