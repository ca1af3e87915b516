"""Tables of results.

python -m experiments.report --table=parameters
"""

from absl import app, flags

from experiments import parameter_table
from experiments.bench import timing

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "table", None, ["parameters"], "parameters: counts beside the papers' figures."
)


def print_parameters():
    headings, rows, notes = parameter_table.table()
    print(timing.table(headings, rows))
    for number, note in enumerate(notes, 1):
        print(f"[{number}] {note}")


def main(argv):
    if argv[1:]:
        raise app.UsageError(f"unexpected argument {argv[1]!r}; see --help")
    if FLAGS.table is None:
        raise app.UsageError("say which table: --table=parameters")
    print_parameters()


if __name__ == "__main__":
    app.run(main)
