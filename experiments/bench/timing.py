"""Timing in turns, and tables of what came out."""

import dataclasses
import os
import platform
import random
import statistics
import time

import tensorflow as tf
from tqdm import tqdm


@dataclasses.dataclass(frozen=True)
class Options:
    """What the flags ask of a suite."""

    size: str = "t5-small"
    rounds: int = 7
    only: tuple[str, ...] = ()
    data_dir: str | None = None
    vocabulary: str = "nano"


def in_turns(cases, rounds, title):
    """Seconds per call of each case: `{name: [seconds of every round]}`.

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


def summary(seconds, reference):
    """Median milliseconds, and how many times as long as the reference it takes.

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


def ratio_of(seconds, others):
    """The median ratio within rounds and its standard error, None of one round."""
    ratios = [mine / theirs for mine, theirs in zip(seconds, others, strict=True)]
    median = statistics.median(ratios)
    if len(ratios) < 2:
        return median, None
    # From quartiles, not squares: a round beside which something else ran is far off.
    lower, _, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    deviation = (upper - lower) / 1.349
    return median, 1.253 * deviation / len(ratios) ** 0.5


def times(ratio, error):
    """For a table: "1.034 ± 0.012"."""
    return f"{ratio:.3f}" if error is None else f"{ratio:.3f} ± {error:.3f}"


def matmul_peak(rounds, size=2048):
    """GFLOP/s of one large float32 product: the best this machine does."""
    a = tf.random.normal((size, size))
    product = tf.function(lambda: tf.linalg.matmul(a, a))
    seconds = in_turns({"matmul": product}, rounds, "matmul peak")["matmul"]
    return 2 * size**3 / statistics.median(seconds) / 1e9


def table(headings, rows):
    """Plain text, columns lined up."""
    cells = [headings, *rows]
    widths = [max(len(str(row[i])) for row in cells) for i in range(len(headings))]
    lines = []
    for row in cells:
        first, *rest = (str(cell) for cell in row)
        line = first.ljust(widths[0])
        for cell, width in zip(rest, widths[1:], strict=True):
            line += "  " + cell.rjust(width)
        lines.append(line)
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)


def machine():
    return {
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
    }
