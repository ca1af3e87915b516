"""Scores the checkpoints of a run, task by task.

    python -m experiments.evaluate --model_dir=/tmp/nano
    python -m experiments.evaluate --model_dir=... --checkpoints=all --decoding=rank
    python -m experiments.evaluate --model_dir=... --checkpoints=follow
    python -m experiments.evaluate --model_dir=... --split=test --submission=OUT

Prints a table, the best single checkpoint and the best of each task; writes
eval/<split>.json, TensorBoard scalars under eval/ and predictions beside them.
"""

import time

from absl import app, flags, logging

from experiments import build, run_results, scoring, settings
from experiments.configs.config import DECODING
from hypertf import training

FLAGS = flags.FLAGS
flags.DEFINE_string("model_dir", None, "Folder of the run.")
flags.DEFINE_string("data_dir", None, "Folder of the TFDS data.")
flags.DEFINE_string(
    "checkpoints", "latest", "latest, all, follow (until the last step), or steps."
)
flags.DEFINE_string("split", "validation", "Split of the tasks.")
flags.DEFINE_list("tasks", [], "Tasks to score; all of the mixture by default.")
flags.DEFINE_enum("decoding", None, DECODING, "By default as the run was configured.")
flags.DEFINE_integer("beam_size", None, "Beams of beam search.", lower_bound=1)
flags.DEFINE_integer("batch_size", 64, "Examples at a time.", lower_bound=1)
flags.DEFINE_string("submission", None, "Folder for files for the benchmark servers.")
flags.DEFINE_enum("strategy", "auto", training.STRATEGIES, "Devices to run on.")
flags.DEFINE_string("tpu", None, "Name of the TPU; local on a TPU VM.")
flags.DEFINE_integer("poll", 30, "With follow, seconds between two looks.")


def main(argv):
    if argv[1:]:
        raise app.UsageError(f"unexpected argument {argv[1]!r}; see --help")
    if FLAGS.model_dir is None:
        raise app.UsageError("--model_dir is not set; expected the folder of a run")
    settings.be_quiet(FLAGS)
    try:
        evaluate(build.expand(FLAGS.model_dir), FLAGS)
    except (ValueError, OSError) as error:
        logging.debug("%s", error, exc_info=True)
        raise SystemExit(f"experiments.evaluate: {error}") from None


def evaluate(model_dir, options):
    """Scores what the options ask for; returns the `run_results.Results`."""
    config = settings.read(model_dir)
    changes = {
        name: getattr(options, name)
        for name in ("decoding", "beam_size")
        if getattr(options, name) is not None
    }
    config = config.replace(**changes)
    strategy = training.make_strategy(options.strategy, options.tpu)
    training.check_batch_size(strategy, options.batch_size)
    scorer = scoring.Scorer(
        config,
        strategy,
        split=options.split,
        tasks=options.tasks,
        batch_size=options.batch_size,
        data_dir=build.expand(options.data_dir),
    )
    found = run_results.Results(model_dir, options.split)
    predictions = None
    for step in steps_asked(model_dir, options, config.steps, found):
        began = time.time()
        scorer.load(model_dir, step)
        scores, predictions = scorer.score()
        found.add(step, scores, scorer.how, time.time() - began)
        found.write_predictions(step, predictions)
        print(f"step {step}, {time.time() - began:.0f} s", flush=True)
    if not found.scores:
        raise ValueError(f"{model_dir} has no checkpoint to score")
    if options.submission and predictions is None:
        raise ValueError("submission: every checkpoint is scored already; name a step")
    if options.submission:
        run_results.write_submission(options.submission, scorer, predictions)
    print(found.text())
    return found


def steps_asked(model_dir, options, last, found):
    """The steps to score, in order; with follow, as they are written."""
    asked = options.checkpoints
    if asked == "follow":
        yield from _follow(model_dir, options.poll, last, found)
        return
    steps = training.checkpoint_steps(model_dir)
    if not steps:
        raise ValueError(f"{model_dir} has no checkpoint")
    if asked == "latest":
        yield steps[-1]
    elif asked == "all":
        yield from steps
    else:
        yield from _named(asked, steps)


def _named(asked, steps):
    for text in asked.split(","):
        if not text.strip().isdigit() or int(text) not in steps:
            raise ValueError(
                f"checkpoints={asked!r}: {text!r}, expected latest, all, follow or "
                f"some of {', '.join(map(str, steps))}"
            )
    yield from sorted(int(text) for text in asked.split(","))


def _follow(model_dir, poll, last, found):
    done = set(found.scores)
    while True:
        new = [s for s in training.checkpoint_steps(model_dir) if s not in done]
        for step in new:
            done.add(step)
            yield step
        if last in done:
            return
        if not new:
            time.sleep(poll)


if __name__ == "__main__":
    app.run(main)
