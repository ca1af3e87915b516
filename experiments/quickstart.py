"""Trains a small T5 on eleven tasks from scratch, and asks it what it has learned.

    python -m experiments.quickstart

The tasks of `nano` ship with the project; nothing in their texts tells them apart.
The same T5 is trained twice for the same steps, plain and with HyperPrompt-Global,
which is told the task of each example. Everything is kept in `out/quickstart`.
"""

import os
import shutil
import time

from absl import app, flags

from experiments import run, run_report, scoring, settings
from experiments.bench.timing import table
from experiments.configs import get_config
from experiments.run_results import Results

FLAGS = flags.FLAGS
flags.DEFINE_string("output", "out/quickstart", "Folder for all that is made.")
flags.DEFINE_integer("steps", None, "Training steps.", lower_bound=1)
flags.DEFINE_integer("seed", 0, "Seed of the weights and the order of the data.")

RUNS = {"plain": "nano", "hyperprompt-global": "nano_hyperprompt_global"}
# Asked about the same sentence, so that the text cannot tell what is wanted.
FAMILY = ("nano/acceptability", "nano/sentiment", "nano/coreference")


def train(name, output, steps, seed):
    """Trains and scores one run; returns its folder and its `Scorer`."""
    config = get_config(RUNS[name]).replace(seed=seed)
    if steps is not None:
        late = {"decay_start": steps * 6 // 10, "checkpoint_every": -(-steps // 4)}
        config = config.replace(steps=steps, **late)
    folder, data = os.path.join(output, name), os.path.join(output, "data")
    shutil.rmtree(folder, ignore_errors=True)
    print(f"\n== {name}: {config.steps} steps of {config.batch_size} examples\n")
    run.train(config, folder, data)
    scorer = scoring.Scorer(config, data_dir=data, batch_size=256)
    found = Results(folder)
    scorer.load(folder, config.steps)
    began = time.time()
    scores, _ = scorer.score()
    found.add(config.steps, scores, scorer.how, time.time() - began)
    return folder, scorer


def compare(folders):
    """Both rows of scores, task by task, and the averages."""
    found = {name: Results(folder) for name, folder in folders.items()}
    last = {
        name: results.scores[results.best_step()] for name, results in found.items()
    }
    rows = []
    for task in next(iter(last.values())):
        means = [sum(s[task].values()) / len(s[task]) for s in last.values()]
        rows.append((task, *(f"{mean:.1f}" for mean in means)))
    averages = [max(results.averages().values()) for results in found.values()]
    rows.append(("average", *(f"{mean:.1f}" for mean in averages)))
    print("\nscores on the validation sets, in percent\n")
    print(table(("task", *last), rows))
    return dict(zip(last, averages, strict=True))


def ask(scorers, number=3):
    """The same unseen sentences, asked as each task of a family."""
    examples = next(iter(scorers.values())).examples
    seen = [e["inputs"] for e in examples[FAMILY[-1]]]
    texts = list(dict.fromkeys(seen))[:number]
    answers = {n: s.answer(texts, FAMILY) for n, s in scorers.items()}
    print("\nthe same sentence, asked as different tasks\n")
    for i, text in enumerate(texts):
        print(text)
        rows = [
            (f"  {task}", *(answers[name][task][i] for name in scorers))
            for task in FAMILY
        ]
        print(table(("  task", *scorers), rows) + "\n")


def main(argv):
    if argv[1:]:
        raise app.UsageError(f"unexpected argument {argv[1]!r}; see --help")
    settings.be_quiet(FLAGS)
    began = time.time()
    folders, scorers = {}, {}
    for name in RUNS:
        folders[name], scorers[name] = train(
            name, FLAGS.output, FLAGS.steps, FLAGS.seed
        )
    ask(scorers)
    averages = compare(folders)
    run_report.write(list(folders.values()), os.path.join(FLAGS.output, "report"))
    print(
        f"\ntold its task, the same T5 scores {averages['hyperprompt-global']:.1f} "
        f"instead of {averages['plain']:.1f}; {time.time() - began:.0f} s in all"
    )


if __name__ == "__main__":
    app.run(main)
