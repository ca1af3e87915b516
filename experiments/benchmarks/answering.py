"""Evaluation by parts of like length beside rows padded to the longest.

The examples are of the validation sets of tasks whose data is prepared, in the parts in
which `experiments.evaluate` answers them. A model that has learned nothing ends no row,
so that each writes as many tokens as a label has.
"""

import gc
from collections.abc import Callable, Mapping, Sequence

import hypertf
from experiments.benchmarks import timing
from hypertf.training import Predictor
from tfds_tasks import Mixture, Vocabulary, buckets

PADDED, BY_LENGTH = "padded", "by length"
INPUTS, TARGETS, BATCH = 128, 4, 64
EXAMPLES = 1024  # spread evenly over those of all tasks
WANTED = 3.0  # times the examples a second of padded rows


def measure(mixture: Mixture, vocabulary: Vocabulary, options: timing.Options) -> dict:
    """Times answering: {"padded", "by length": row}; a row's "ratio" is of examples."""
    examples = some(
        mixture.only([t.name for t in mixture.tasks if "validation" in t.parts]),
        vocabulary,
        options.data_dir,
    )
    model = hypertf.T5(hypertf.T5Config.from_name(options.size))
    predictor = Predictor(model, TARGETS)
    cases = {
        name: _answering(predictor, mixture, vocabulary, examples, most)
        for name, most in ((PADDED, None), (BY_LENGTH, buckets.MOST))
    }
    seconds = timing.in_turns(cases, options.rounds, "evaluation")
    count = sum(map(len, examples.values()))
    rows = timing.summary(seconds, reference=PADDED)
    for name, row in rows.items():
        row["ratio"], row["error"] = timing.ratio_of(seconds[PADDED], seconds[name])
        row["examples_per_second"] = 1e3 * count / row["median_ms"]
    gc.collect()  # a model and its functions refer to each other
    return rows


def some(
    mixture: Mixture, vocabulary: Vocabulary, data_dir: str | None
) -> dict[str, list[Mapping]]:
    """Takes `EXAMPLES` of the validation sets, in proportion to their sizes."""
    every = mixture.examples(
        "validation", vocabulary=vocabulary, inputs_length=INPUTS, data_dir=data_dir
    )
    each = max(1, sum(map(len, every.values())) // EXAMPLES)
    return {name: of_task[::each] for name, of_task in every.items()}


def _answering(
    predictor: Predictor,
    mixture: Mixture,
    vocabulary: Vocabulary,
    examples: Mapping[str, Sequence[Mapping]],
    most: int | None,
) -> Callable[[], object]:
    """Answers all examples, in at most so many parts or, if None, as long as may be."""
    parts = [(INPUTS, examples)]
    if most is not None:
        split = buckets.split(examples, vocabulary, INPUTS, most)
        parts = [(part.length, part.of(examples)) for part in split]
    lengths = {"batch_size": BATCH, "targets_length": TARGETS}

    def answer():
        for length, given in parts:
            batches = mixture.batches_of(
                given, vocabulary=vocabulary, inputs_length=length, **lengths
            )
            predictor.generate(lambda data=batches, **_: data)

    return answer


def report(rows: Mapping[str, Mapping]) -> None:
    """Prints how much faster parts of like length are answered."""
    row = rows[BY_LENGTH]
    verdict = "ok" if row["ratio"] >= WANTED else "MISSED"
    print(
        f"evaluation by length: {row['examples_per_second']:.0f} examples/s, "
        f"{timing.times(row['ratio'], row['error'])} x padded (wanted {WANTED:g}): "
        f"{verdict}"
    )
