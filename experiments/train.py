"""Trains one T5 on a mixture of tasks.

    python -m experiments.train --config=nano --model_dir=/tmp/nano
    python -m experiments.train --model=t5-base --init=PATH \\
        --conditioner=hyperprompt-global --mixture=en_mix --model_dir=gs://...

Started again with the same model_dir it goes on from the newest checkpoint, to the
same weights as a run that never stopped. SIGTERM saves and ends.
"""

from absl import app, flags, logging

from experiments import build, run, settings
from experiments.configs import config_names
from hypertf import training

FLAGS = flags.FLAGS
settings.define_flags()
flags.DEFINE_string("model_dir", None, "Folder of the run, local or gs://...")
flags.DEFINE_string("data_dir", None, "Folder of the TFDS data.")
flags.DEFINE_enum("strategy", "auto", training.STRATEGIES, "Devices to train on.")
flags.DEFINE_string("tpu", None, "Name of the TPU; local on a TPU VM.")
flags.DEFINE_boolean(
    "profile", False, "Print the share of time spent waiting for data; a bit slower."
)


def main(argv):
    if argv[1:]:
        raise app.UsageError(f"unexpected argument {argv[1]!r}; see --help")
    if FLAGS.config == "list":
        print("\n".join(config_names()))
        return
    if FLAGS.model_dir is None:
        raise app.UsageError("--model_dir is not set; expected a folder for the run")
    settings.be_quiet(FLAGS)
    try:
        config = settings.from_flags(FLAGS)
        run.train(
            config,
            build.expand(FLAGS.model_dir),
            build.expand(FLAGS.data_dir),
            FLAGS.strategy,
            FLAGS.tpu,
            FLAGS.profile,
        )
    except (ValueError, OSError, RuntimeError) as error:
        logging.debug("%s", error, exc_info=True)
        raise SystemExit(f"experiments.train: {error}") from None


if __name__ == "__main__":
    app.run(main)
