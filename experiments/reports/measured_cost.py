"""Memory and time of training, measured, beside HyperFormer's Tables 5 and 6.

Each system runs in a process of its own, whose largest size says what it needed; what
Python and TensorFlow take before there is a model is subtracted.
"""

import multiprocessing
import resource
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from experiments.benchmarks.peers import Hypertf, Workload
from experiments.configs import get_config
from experiments.reports.tables import aligned
from hypertf.t5 import T5Config

# HyperFormer, Tables 5 and 6 (T5 base): GB of memory, minutes of 1,000 steps.
PRINTED = {
    "hyperformer_base_t5": (7.76, 5.51),
    "hyperformer_base_adapters_shared_norm": (5.95, 10.19),
    "hyperformer_base": (7.60, 7.92),
    "hyperformer_plus_plus_base": (5.81, 7.19),
}
PLAIN = "hyperformer_base_t5"
TASKS, STEPS = 8, 10
SIZE, BATCH, INPUTS = "t5-small", 16, 128
HEADINGS = (
    *("system", "GB", "x plain", "paper's", "minutes of 1,000 steps", "x plain"),
    "paper's",
)


class Measured(NamedTuple):
    """What a system took: bytes of memory, and seconds of a step."""

    memory: float
    seconds: float


def measured_table(size: str = SIZE, batch: int = BATCH, steps: int = STEPS) -> str:
    """Measures the systems one after the other, and makes the table.

    Args:
        size: of the T5; the paper's is t5-base.
        batch: examples of a step; the paper's is 32.
        steps: that are timed, after two that are not.
    """
    found = {}
    with _fresh_processes() as pool:
        for row in PRINTED:
            found[row] = pool.submit(measure, row, size, batch, steps).result()
    return table(found, size, batch)


def _fresh_processes():
    return ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    )


def measure(row: str, size: str, batch: int, steps: int) -> Measured:
    """Trains the system of a row for some steps, in this process."""
    before = _largest()
    config = get_config(row)
    workload = Workload(T5Config.from_name(size), batch, INPUTS)
    options = config.conditioner_options
    system = Hypertf(workload, config.conditioner, TASKS, **options)
    step = system.training_step()
    step()
    step()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return Measured(_largest() - before, statistics.median(seconds))


def _largest():
    """The largest size of this process so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def table(found: dict[str, Measured], size: str, batch: int) -> str:
    """Writes what was measured, in ratio to the plain T5, beside the paper."""
    plain, rows = found[PLAIN], []
    for row, measured in found.items():
        memory, minutes = PRINTED[row]
        method = get_config(row).conditioner
        rows.append(
            (
                "plain" if method == "none" else method,
                f"{measured.memory / 1e9:.2f}",
                f"{measured.memory / plain.memory:.2f}",
                f"{memory / PRINTED[PLAIN][0]:.2f}",
                f"{measured.seconds * 1000 / 60:.2f}",
                f"{measured.seconds / plain.seconds:.2f}",
                f"{minutes / PRINTED[PLAIN][1]:.2f}",
            )
        )
    note = (
        f"Measured on this machine: {size}, {batch} examples of {INPUTS} tokens in a "
        "step. "
        "The paper's are HyperFormer's Tables 5 and 6, T5 base on a GPU."
    )
    return aligned(HEADINGS, rows) + "\n" + note
