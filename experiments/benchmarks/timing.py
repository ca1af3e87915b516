"""Timing in turns, and what came out."""

import dataclasses
import random
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence

from tqdm import tqdm


@dataclasses.dataclass(frozen=True)
class Options:
    """What is asked of a suite."""

    size: str = "t5-small"
    rounds: int = 7
    only: tuple[str, ...] = ()
    data_dir: str | None = None
    vocabulary: str = "nano"
    folder: str = "out"  # of what is drawn


def in_turns(
    cases: Mapping[Hashable, Callable[[], object]], rounds: int, title: str
) -> dict[Hashable, list[float]]:
    """Measures the seconds of each case: `{name: [seconds of every round]}`.

    The cases take turns, so that what else the machine does falls on all of them;
    in another order each round, so that none always comes after the same.
    The first call (tracing, compiling) and one more are not counted.
    """
    for run in cases.values():
        run()
        run()
    seconds, order = {name: [] for name in cases}, list(cases.items())
    shuffle = random.Random(0).shuffle
    for _ in tqdm(range(rounds), desc=title, leave=False, disable=None):
        shuffle(order)
        for name, run in order:
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def summary(
    seconds: Mapping[Hashable, Sequence[float]], reference: Hashable
) -> dict[Hashable, dict]:
    """Gives median milliseconds, and how many times the reference's each case takes.

    The ratio is the median over the rounds of ratios within a round; `error` is what
    such a median is off by as a rule (one standard error).
    """
    rows = {}
    for name, values in seconds.items():
        ratio, error = ratio_of(values, seconds[reference])
        rows[name] = {
            "median_ms": 1e3 * statistics.median(values),
            "min_ms": 1e3 * min(values),
            "ratio": ratio,
            "error": error,
        }
    return rows


def ratio_of(
    seconds: Sequence[float], others: Sequence[float]
) -> tuple[float, float | None]:
    """Gives the median ratio within rounds and its standard error (None of one)."""
    ratios = [mine / theirs for mine, theirs in zip(seconds, others, strict=True)]
    median = statistics.median(ratios)
    if len(ratios) < 2:
        return median, None
    # From quartiles, not squares: a round beside which something else ran is far off.
    lower, _, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    deviation = (upper - lower) / 1.349
    return median, 1.253 * deviation / len(ratios) ** 0.5


def times(ratio: float, error: float | None) -> str:
    """Writes a ratio for a table: "1.034 ± 0.012"."""
    return f"{ratio:.3f}" if error is None else f"{ratio:.3f} ± {error:.3f}"
