"""Measures hypertf beside its peers on this machine.

    python -m experiments.bench --suite=t5
    python -m experiments.bench --suite=methods --only=hyperprompt-global,hypergrid
    python -m experiments.bench --suite=input --data_dir=... --vocabulary=spiece.model

Everything is timed in turns within one run, because machines are noisy: read the
ratios. Prints a table and writes a JSON file. Peers that are not installed are left
out and named (`pip install -e ".[bench]"` for Hugging Face on torch).
"""

import json
import pathlib

from absl import app, flags, logging

from experiments.bench import inputs, methods, t5
from experiments.bench.timing import Options, machine

SUITES = {"t5": t5.run, "input": inputs.run, "methods": methods.run}

FLAGS = flags.FLAGS
flags.DEFINE_enum("suite", "t5", list(SUITES), "What to measure.")
flags.DEFINE_integer("rounds", 7, "Turns that every case gets.", lower_bound=1)
flags.DEFINE_string("size", "t5-small", "Size of the model.")
flags.DEFINE_list("only", [], "Measure these operations only; all by default.")
flags.DEFINE_string("data_dir", None, "Where TFDS has prepared its data.")
flags.DEFINE_string("vocabulary", "nano", "SentencePiece file, preset, or nano.")
flags.DEFINE_string("output", None, "JSON file; out/bench_<suite>.json by default.")


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"unexpected argument {argv[1]!r}")
    logging.set_verbosity(logging.ERROR)
    options = Options(
        FLAGS.size, FLAGS.rounds, tuple(FLAGS.only), FLAGS.data_dir, FLAGS.vocabulary
    )
    results = SUITES[FLAGS.suite](options)
    results = {"suite": FLAGS.suite, "machine": machine(), **results}
    path = pathlib.Path(FLAGS.output or f"out/bench_{FLAGS.suite}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    app.run(main)
