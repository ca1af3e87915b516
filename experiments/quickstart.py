"""Trains a small T5 on eleven tasks from scratch, and asks it what it has learned.

    python -m experiments.quickstart

The tasks of `nano` ship with the project; nothing in their texts tells them apart.
The same T5 is trained three times for the same steps: plain, plain with the task named
in the text, which is the fair baseline, and with HyperPrompt-Global, which is told the
task of each example. The first and the last are exported, and the SavedModels answer.
A picture shows how alike what HyperPrompt made for the tasks is. Everything is kept in
`out/quickstart`.
"""

import contextlib
import io
import os
import shutil
import sys
import time
from collections.abc import Mapping

from absl import flags

import hypertf
from experiments.analyze import analyze
from experiments.configs import get_config
from experiments.export import export
from experiments.reports.run_report import write_report
from experiments.reports.tables import aligned
from experiments.runs import components, program
from experiments.runs.eval_results import Results
from experiments.runs.prediction import Scorer
from experiments.runs.training_run import train_run

OUTPUT = "out/quickstart"
TOLD = "hyperprompt-global"
NAMED = "plain-named"  # by a word in its text
RUNS = {"plain": "nano", NAMED: "nano_named", TOLD: "nano_hyperprompt_global"}
PICTURE = "weight-similarity"
# Asked about the same sentence, so that the text cannot tell what is wanted.
FAMILY = ("nano/acceptability", "nano/sentiment", "nano/coreference")


def quickstart(
    output: str | os.PathLike = OUTPUT, *, steps: int | None = None, seed: int = 0
) -> dict[str, float]:
    """Trains, asks and compares; returns the average score of each run.

    ```python
    from experiments.quickstart import quickstart

    quickstart("/tmp/quickstart", steps=100)
    ```

    Args:
        output: folder for all that is made; runs that are there are made anew.
        steps: of training, by default those of the configuration `nano`.
        seed: of the weights and the order of the data.
    """
    began = time.time()
    output = components.expand(output)
    print(
        "Trains a T5 of a million parameters on eleven small tasks, three times: "
        "plain, with the\ntask named in the text, and told the task of each example by "
        f"HyperPrompt.\nA few minutes on two cores. All goes to {output}.",
        flush=True,
    )
    folders, served, texts = {}, {}, []
    for name in RUNS:
        folders[name], scorer = _train(name, output, steps, seed)
        if name != NAMED:  # whose texts are others
            texts = unseen(scorer)
            served[name] = _export(name, folders[name], output)
    ask(served, texts)
    averages = compare(folders)
    written = write_report(list(folders.values()), _report(output))
    with contextlib.redirect_stdout(io.StringIO()):
        drawn = analyze(folders[TOLD], figures=[PICTURE], output=_report(output))
    print(
        f"\ntold its task, the same T5 scores {averages[TOLD]:.1f} "
        f"instead of {averages['plain']:.1f}, and {averages[NAMED]:.1f} with the task "
        f"named in its text; {time.time() - began:.0f} s in all\n"
        f"curves and tables: {written.path}\n"
        f"how alike the tasks' prompts are: {drawn[PICTURE][0]}\n"
        f"try it on a page: {_python()} -m experiments.serve "
        f"--export_dir={_exports(output, TOLD)}"
    )
    return averages


def _train(name, output, steps, seed):
    """Trains and scores one run; returns its folder and its `Scorer`."""
    config = get_config(RUNS[name]).replace(seed=seed)
    if steps is not None:
        late = {"decay_start": steps * 6 // 10, "checkpoint_every": -(-steps // 4)}
        config = config.replace(steps=steps, **late)
    folder, data = os.path.join(output, name), os.path.join(output, "data")
    shutil.rmtree(folder, ignore_errors=True)
    print(f"\n== {name}", flush=True)
    train_run(config, folder, data)
    scorer = Scorer(config, data_dir=data, batch_size=256)
    results = Results(folder)
    scorer.load(folder, config.steps)
    began = time.time()
    scores, _ = scorer.score()
    results.add(config.steps, scores, scorer.how, time.time() - began)
    return folder, scorer


def _export(name, folder, output):
    """Exports a run anew; returns what answers from the SavedModel."""
    exports = _exports(output, name)
    shutil.rmtree(exports, ignore_errors=True)
    data = os.path.join(output, "data")
    with contextlib.redirect_stdout(io.StringIO()):  # says how to go on, as we do
        version = export(folder, exports, checkpoint="latest", data_dir=data)
    print(f"exported to {version}, a SavedModel for TF Serving", flush=True)
    return hypertf.export.load(version)


def _report(output):
    return os.path.join(output, "report")


def _exports(output, name):
    return os.path.join(output, "export", name)


def _python():
    """The interpreter as one types it."""
    return os.path.relpath(sys.executable)


def unseen(scorer: Scorer, number: int = 3) -> list[str]:
    """Sentences of the validation sets that several tasks ask about."""
    seen = [example["inputs"] for example in scorer.examples[FAMILY[-1]]]
    return list(dict.fromkeys(seen))[:number]


def ask(models: Mapping[str, hypertf.export.Loaded], texts: list[str]) -> None:
    """Prints what SavedModels answer to the same unseen sentences, task by task."""
    print("\nthe same sentence, asked as different tasks; the SavedModels answer\n")
    for text in texts:
        print(text)
        rows = [
            (f"  {task}", *(model.answer([text], task)[0] for model in models.values()))
            for task in FAMILY
        ]
        print(aligned(("  task", *models), rows) + "\n")


def compare(folders: Mapping[str, str]) -> dict[str, float]:
    """Prints the scores of the runs, task by task; returns the averages."""
    results = {name: Results(folder) for name, folder in folders.items()}
    best = {name: kept.scores[kept.best_step()] for name, kept in results.items()}
    rows = []
    for task in next(iter(best.values())):
        means = [sum(s[task].values()) / len(s[task]) for s in best.values()]
        rows.append((task, *(f"{mean:.1f}" for mean in means)))
    averages = [max(kept.averages().values()) for kept in results.values()]
    rows.append(("average", *(f"{mean:.1f}" for mean in averages)))
    print("\nscores on the validation sets, in percent\n")
    print(aligned(("task", *best), rows))
    return dict(zip(best, averages, strict=True))


def _define(values):
    options = {"flag_values": values}
    flags.DEFINE_string("output", OUTPUT, "Folder for all that is made.", **options)
    flags.DEFINE_integer("steps", None, "Training steps.", lower_bound=1, **options)
    flags.DEFINE_integer(
        "seed", 0, "Seed of the weights and the order of the data.", **options
    )


def _call(values):
    quickstart(values.output, **program.given(values, "steps", "seed"))


if __name__ == "__main__":
    program.run("experiments.quickstart", _define, _call)
