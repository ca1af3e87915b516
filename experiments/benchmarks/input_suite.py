"""The input pipeline: mixing, formatting, tokenising, batching, in examples a second.

Beside it, what a short script would do: rows in Python, one example at a time, with
SentencePiece's own Python tokenizer.
"""

import itertools
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


def run(options: timing.Options) -> dict:
    """Measures, prints the table, returns what goes into the JSON file."""
    mixture, vocabulary = open_mixture(options)
    cases = {
        "hypertf": ours(mixture, vocabulary, options.data_dir),
        "python loop": python_loop(mixture, vocabulary, options.data_dir),
    }
    seconds = timing.in_turns(cases, options.rounds, "input")
    results = timing.summary(seconds, reference="hypertf")
    for row in results.values():
        row["examples_per_second"] = 1e3 * BATCH * BATCHES / row["median_ms"]
    report(results, mixture)
    return {
        "tasks": [task.name for task in mixture.tasks],
        "batch": BATCH,
        "lengths": [INPUTS, TARGETS],
        "operations": {"input": results},
    }


def open_mixture(
    options: timing.Options,
) -> tuple[tfds_tasks.Mixture, tfds_tasks.Vocabulary]:
    """Opens the GLUE tasks whose data is prepared, or else `nano`, and a vocabulary."""
    prepared = []
    for task in tfds_tasks.get_mixture("glue").tasks:
        try:
            sources.open_builder(task.source, options.data_dir)
        except tfds_tasks.MissingData:
            continue
        if "train" in task.parts:
            prepared.append(task.name)
    if not prepared:
        print("no GLUE task is prepared (--data_dir): measuring nano instead")
    vocabulary = tfds_tasks.get_vocabulary(options.vocabulary)
    return tfds_tasks.get_mixture(",".join(prepared) or "nano"), vocabulary


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
