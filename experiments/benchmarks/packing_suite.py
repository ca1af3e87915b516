"""Training on packed rows beside padded ones, on examples of real lengths.

The examples are those of the GLUE and SuperGLUE tasks whose data is prepared, drawn as
training draws them. A step has as many rows packed as padded: what is compared is the
examples that it gets through in a second. With them, how full packed rows are, the
rate at which the input pipeline makes them, and evaluation by parts of like length.
"""

import gc
from collections.abc import Callable

import tensorflow as tf

import hypertf
from experiments.benchmarks import answering, input_suite, timing
from experiments.reports.tables import aligned
from hypertf.training import TrainStep
from tfds_tasks import Mixture, Vocabulary, packing
from tfds_tasks.packed_batches import Fill

SYSTEMS = ("none", "hyperprompt-global", "hypergrid")
# By the tokens of a row: rows of a step, target tokens of a padded and of a packed row.
SHAPES = {128: (16, 16, 16), 512: (4, 16, 64)}
MODES = ("task", "mixed")
WANTED = {128: 3.0, 512: 8.0}  # times the examples a second of padded rows
WANTED_FILL = 0.9
WANTED_RATE = 5000  # examples a second of the input pipeline
POOL = packing.POOL
# Examples that a turn of the input pipeline takes: many beside pools made ahead.
DRAWN = 8 * POOL


def run(options: timing.Options) -> dict:
    """Measures, prints the tables, returns what goes into the JSON file."""
    unknown = set(options.only) - set(SYSTEMS)
    if unknown:
        raise ValueError(f"only={sorted(unknown)}, expected some of {list(SYSTEMS)}")
    data = input_suite.open_mixture(options, "en_mix")
    systems = [name for name in SYSTEMS if name in options.only or not options.only]
    operations, fills = {}, {}
    for length in SHAPES:
        made = {mode: dataset(*data, options, length, mode) for mode in (None, *MODES)}
        fills[length] = {m: fill(*data, options, length, m) for m in MODES}
        for system in systems:
            in_a_row = {m: of.examples_per_row for m, of in fills[length].items()}
            rows = measure(system, made, in_a_row, data[0].num_tasks, options)
            operation = f"{system}, {length} tokens a row"
            operations[operation] = rows
            ratios = (timing.times(r["ratio"], r["error"]) for r in rows.values())
            print(f"{operation}: {', '.join(ratios)} x padded", flush=True)
            gc.collect()  # a model and its functions refer to each other
    answered = answering.measure(*data, options)
    rates = pipeline(*data, options)
    report(operations, fills, rates)
    answering.report(answered)
    return {
        "size": options.size,
        "vocabulary": options.vocabulary,
        "tasks": [task.name for task in data[0].tasks],
        "shapes": {str(length): shape for length, shape in SHAPES.items()},
        "operations": {**operations, "evaluation": answered},
        "fill": {
            str(length): {mode: share(of) for mode, of in by_mode.items()}
            for length, by_mode in fills.items()
        },
        "input": rates,
    }


def dataset(
    mixture: Mixture,
    vocabulary: Vocabulary,
    options: timing.Options,
    length: int,
    mode: str | None,
    batch_size: int | None = None,
) -> tf.data.Dataset:
    """Batches of a step, packed in a mode or, if it is None, one example a row."""
    rows, padded, packed = SHAPES[length]
    return mixture.dataset(
        vocabulary=vocabulary,
        batch_size=batch_size or rows,
        inputs_length=length,
        targets_length=packed if mode else padded,
        packing=packing.Packing(mode, pool=POOL) if mode else None,
        data_dir=options.data_dir,
        check_lengths=False,
    )


def fill(
    mixture: Mixture,
    vocabulary: Vocabulary,
    options: timing.Options,
    length: int,
    mode: str,
) -> Fill:
    """What packed rows hold."""
    return mixture.fill(
        packing.Packing(mode, pool=POOL),
        vocabulary=vocabulary,
        inputs_length=length,
        targets_length=SHAPES[length][2],
        data_dir=options.data_dir,
    )


def share(fill: Fill) -> dict:
    """A fill as numbers for the JSON file."""
    return {
        "examples_per_row": fill.examples_per_row,
        "inputs": fill.inputs / (fill.rows * fill.room.inputs),
        "targets": fill.targets / (fill.rows * fill.room.targets),
    }


def measure(
    system: str,
    made: dict[str | None, tf.data.Dataset],
    in_a_row: dict[str, float],
    num_tasks: int,
    options: timing.Options,
) -> dict[str, dict]:
    """Times the training steps of one method: {"padded", "task", "mixed": row}.

    A row's "ratio" is how many times the examples a second of padded rows it has.
    How many examples a packed row has in the mean is `in_a_row`: a step takes as long
    whatever its rows hold.
    """
    config = hypertf.T5Config.from_name(options.size)
    conditioner = hypertf.conditioning.create(system, config, num_tasks)
    model = hypertf.T5(config, conditioner=conditioner)
    step = TrainStep(model, hypertf.Adafactor(), num_tasks)
    cases, examples = {}, {}
    for mode, data in made.items():
        name = mode or "padded"
        (batch,) = data.take(1)
        rows = len(batch["encoder_tokens"])
        examples[name] = rows * (in_a_row[mode] if mode else 1)
        cases[name] = _taking(step, batch)
    seconds = timing.in_turns(cases, options.rounds, system)
    rows = {}
    for name, values in seconds.items():
        of_one = [value / examples[name] for value in values]
        padded = [value / examples["padded"] for value in seconds["padded"]]
        ratio, error = timing.ratio_of(padded, of_one)
        median = sorted(values)[len(values) // 2]
        rows[name] = {
            "median_ms": 1e3 * median,
            "examples": examples[name],
            "examples_per_second": examples[name] / median,
            "ratio": ratio,
            "error": error,
        }
    return rows


def _taking(step: TrainStep, batch: dict) -> Callable[[], object]:
    return lambda: step.one(batch, 0)


def pipeline(
    mixture: Mixture, vocabulary: Vocabulary, options: timing.Options
) -> dict[str, float]:
    """Measures the examples a second of the input pipeline: {mode: rate}."""
    length = min(SHAPES)
    cases, drawn = {}, {}
    for mode in (None, *MODES):
        name = mode or "padded"
        data = dataset(mixture, vocabulary, options, length, mode, batch_size=128)
        drawn[name] = []
        cases[name] = _drawing(iter(data), drawn[name])
    seconds = timing.in_turns(cases, options.rounds, "input")
    # The turns that are not timed come first.
    return {
        name: sum(drawn[name][-len(values) :]) / sum(values)
        for name, values in seconds.items()
    }


def _drawing(batches, drawn):
    def draw():
        count = 0
        while count < DRAWN:
            count += int((next(batches)["index"].numpy() >= 0).sum())
        drawn.append(count)

    return draw


def report(operations: dict, fills: dict, rates: dict[str, float]) -> None:
    """Prints the tables, and what was wanted."""
    table = []
    for operation, rows in operations.items():
        wanted = WANTED[int(operation.split(", ")[1].split()[0])]
        for name, row in rows.items():
            verdict = "ok" if row["ratio"] >= wanted else "MISSED"
            table.append(
                (
                    operation,
                    name,
                    f"{row['median_ms']:.0f}",
                    f"{row['examples']:.1f}",
                    f"{row['examples_per_second']:.1f}",
                    timing.times(row["ratio"], row["error"]),
                    "" if name == "padded" else f"{wanted:g}",
                    "" if name == "padded" else verdict,
                )
            )
    headings = ("training step", "rows", "median ms", "examples", "examples/s")
    print("\n" + aligned((*headings, "x padded", "wanted", ""), table) + "\n")
    for length, by_mode in fills.items():
        for mode, of in by_mode.items():
            verdict = "ok" if share(of)["inputs"] > WANTED_FILL else "MISSED"
            print(f"{length} tokens a row, {mode}: {of}: {verdict}")
    for name, rate in rates.items():
        verdict = "ok" if rate >= WANTED_RATE else "MISSED"
        print(f"input pipeline, {name}: {rate:,.0f} examples/s: {verdict}")
