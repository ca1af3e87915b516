"""The input pipeline: mixing, formatting, tokenising, batching, in examples a second.

Beside it, what a short script would do: rows in Python, one example at a time, with
SentencePiece's own Python tokenizer; and three tasks from users' files beside the same
rows as tasks of ours, with the seconds that preparing them took.
"""

import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable

import numpy as np
import tensorflow_datasets as tfds

import tfds_tasks
from experiments.benchmarks import timing
from experiments.reports.tables import aligned
from tfds_tasks import sources

BATCH, INPUTS, TARGETS = 128, 128, 16
BATCHES = 40  # drawn per turn
WANTED = 5000  # examples a second
FILES, ROWS = 3, 5000  # of users' tasks
SECONDS = 10  # in which those are to be prepared
FROM_FILES, THE_SAME = "from files", "the same tasks"


def run(options: timing.Options) -> dict:
    """Measures, prints the table, returns what goes into the JSON file."""
    mixture, vocabulary = open_mixture(options)
    few = mixture.only([task.name for task in mixture.tasks[:FILES]])
    with tempfile.TemporaryDirectory() as folder:
        files, took = from_files(few, folder, options.data_dir)
        cases = {
            "hypertf": ours(mixture, vocabulary, options.data_dir),
            "python loop": python_loop(mixture, vocabulary, options.data_dir),
            THE_SAME: ours(few, vocabulary, options.data_dir),
            FROM_FILES: ours(files, vocabulary, folder),
        }
        seconds = timing.in_turns(cases, options.rounds, "input")
    results = timing.summary(seconds, reference="hypertf")
    for row in results.values():
        row["examples_per_second"] = 1e3 * BATCH * BATCHES / row["median_ms"]
    report(results, mixture)
    ratio = results[THE_SAME]["median_ms"] / results[FROM_FILES]["median_ms"]
    print(
        f"{FILES} tasks from files: prepared in {took:.1f} s (at most {SECONDS}: "
        f"{'reached' if took <= SECONDS else 'missed'}), then {ratio:.2f} times the "
        "examples a second of the same tasks"
    )
    return {
        "seconds_to_prepare": took,
        "tasks": [task.name for task in mixture.tasks],
        "batch": BATCH,
        "lengths": [INPUTS, TARGETS],
        "operations": {"input": results},
    }


def open_mixture(
    options: timing.Options, name: str = "glue"
) -> tuple[tfds_tasks.Mixture, tfds_tasks.Vocabulary]:
    """Opens the tasks of a mixture whose data is prepared, and a vocabulary.

    If there is none, the mixture `nano`.
    """
    prepared = []
    for task in tfds_tasks.get_mixture(name).tasks:
        try:
            sources.open_builder(task.source, options.data_dir)
        except tfds_tasks.MissingData:
            continue
        if "train" in task.parts:
            prepared.append(task.name)
    if not prepared:
        print(f"no task of {name} is prepared (--data_dir): measuring nano instead")
    vocabulary = tfds_tasks.get_vocabulary(options.vocabulary)
    return tfds_tasks.get_mixture(",".join(prepared) or "nano"), vocabulary


def from_files(
    mixture: tfds_tasks.Mixture, folder: str, data_dir: str | None
) -> tuple[tfds_tasks.Mixture, float]:
    """Writes rows of tasks into files and declares them; returns them, prepared.

    Also returns how many seconds reading the declaration and preparing took.
    """
    tables = []
    for number, task in enumerate(mixture.tasks):
        examples = task.examples("train", data_dir).take(ROWS).as_numpy_iterator()
        with open(os.path.join(folder, f"{number}.jsonl"), "w") as file:
            for e in examples:
                row = {key: e[key].decode() for key in ("inputs", "targets")}
                file.write(json.dumps(row) + "\n")
        tables.append(
            f'[task{number}]\ntrain = "{number}.jsonl"\n'
            'inputs = "{inputs}"\ntargets = "{targets}"\n'
        )
    path = os.path.join(folder, "tasks.toml")
    with open(path, "w") as file:
        file.write("\n".join(tables))
    began = time.monotonic()
    files = tfds_tasks.get_mixture(path, rates="equal")
    for task in files.tasks:
        task.num_rows("train", folder)
    return files, time.monotonic() - began


def ours(
    mixture: tfds_tasks.Mixture,
    vocabulary: tfds_tasks.Vocabulary,
    data_dir: str | None,
) -> Callable[[], None]:
    """Draws batches from the mixture's own dataset."""
    batches = iter(
        mixture.dataset(
            vocabulary=vocabulary,
            batch_size=BATCH,
            inputs_length=INPUTS,
            targets_length=TARGETS,
            data_dir=data_dir,
            check_lengths=False,
        )
    )

    def draw():
        for _ in range(BATCHES):
            next(batches)

    return draw


def python_loop(
    mixture: tfds_tasks.Mixture,
    vocabulary: tfds_tasks.Vocabulary,
    data_dir: str | None,
) -> Callable[[], None]:
    """Draws a task, formats a row, encodes and pads it, in plain Python."""
    shares = list(mixture.probabilities(data_dir=data_dir).values())
    rows = [
        itertools.cycle(tfds.as_numpy(task.rows("train", data_dir)))
        for task in mixture.tasks
    ]
    rng = np.random.default_rng(0)

    def draw():
        for _ in range(BATCHES):
            encoder = np.zeros((BATCH, INPUTS), "int32")
            for i, task in enumerate(rng.choice(len(rows), BATCH, p=shares)):
                _, row = next(rows[task])
                text = " ".join(
                    f"{key}: {value.decode()}"
                    for key, value in row.items()
                    if isinstance(value, bytes)
                )
                ids = [*vocabulary.pieces.encode(text)[: INPUTS - 1], 1]
                encoder[i, : len(ids)] = ids

    return draw


def report(results: dict[str, dict], mixture: tfds_tasks.Mixture) -> None:
    """Prints the table, and whether it is fast enough."""
    print(f"\n{', '.join(task.name for task in mixture.tasks)}; batch {BATCH}\n")
    rows = [
        (name, f"{row['examples_per_second']:,.0f}", f"{row['ratio']:.2f}")
        for name, row in results.items()
    ]
    print(aligned(("input", "examples/s", "x hypertf's time"), rows))
    rate = results["hypertf"]["examples_per_second"]
    word = "reached" if rate >= WANTED else "missed"
    print(f"at least {WANTED:,} examples/s: {word}")
