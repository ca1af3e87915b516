"""What this machine is, how fast it multiplies, and whether it has time for us."""

import importlib.util
import os
import platform
import re
import statistics
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.python.util import _pywrap_util_port

from experiments.benchmarks.timing import in_turns

BUSY = 0.15  # of a core: what an idle machine does in the background is less


def describe() -> dict:
    """Says what this machine and its TensorFlow are, as values that JSON takes."""
    return {
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "onednn": is_onednn_on(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "busy_cores": busy_cores(),
    }


def in_words(machine: dict) -> str:
    """Writes what `describe` gave for the head of a table.

    >>> print(in_words({"cpu": "A", "cores": 2, "onednn": True, "python": "3.11",
    ...                 "tensorflow": "2.21.0", "busy_cores": 1.2}))
    A, 2 cores, TensorFlow 2.21.0, oneDNN on
    WARNING: other programs keep 1.2 cores busy; read nothing into small differences
    """
    onednn = "on" if machine["onednn"] else "off"
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, TensorFlow "
        f"{machine['tensorflow']}, oneDNN {onednn}"
    ]
    if (busy := machine["busy_cores"] or 0.0) > BUSY:
        lines.append(
            f"WARNING: other programs keep {busy:.1f} cores busy; read nothing into "
            "small differences"
        )
    return "\n".join(lines)


def is_onednn_on() -> bool:
    """Tells whether TensorFlow multiplies by oneDNN.

    By itself it does so on some processors only; `TF_ENABLE_ONEDNN_OPTS=1`, set before
    it is first imported, has it do so on all.
    """
    return bool(_pywrap_util_port.IsMklEnabled())


def busy_cores(seconds: float = 1.0) -> float | None:
    """Measures how many cores other programs use; None where Linux does not tell."""
    before = _ticks()
    if before is None:
        return None
    own = time.process_time()
    time.sleep(seconds)
    used, total = (after - b for after, b in zip(_ticks(), before, strict=True))
    own = (time.process_time() - own) / seconds
    return max(0.0, used / max(total, 1) * (os.cpu_count() or 1) - own)


def _ticks():
    """The time that cores were busy, and all time, since the machine was started."""
    path = Path("/proc/stat")
    if not path.exists():
        return None
    times = [int(x) for x in path.read_text().splitlines()[0].split()[1:9]]
    return sum(times) - times[3] - times[4], sum(times)


def matmul_peak(rounds: int, size: int = 2048) -> tuple[float, str]:
    """Measures the GFLOP/s of large float32 products, and which way is the fastest.

    It is what this machine can do at best, whoever asks: peers multiply otherwise.
    """
    a = np.random.default_rng(0).standard_normal((size, size), np.float32)
    tensor = tf.constant(a)
    ways = {
        "tf.matmul": tf.function(lambda: tf.linalg.matmul(tensor, tensor)),
        "tf.matmul, XLA": tf.function(
            lambda: tf.linalg.matmul(tensor, tensor), jit_compile=True
        ),
        "numpy": lambda: a @ a,
    }
    if importlib.util.find_spec("torch"):
        import torch

        other = torch.from_numpy(a)
        ways["torch"] = lambda: other @ other
    seconds = in_turns(ways, rounds, "matmul peak")
    way = min(seconds, key=lambda name: statistics.median(seconds[name]))
    return 2 * size**3 / statistics.median(seconds[way]) / 1e9, way


def _processor():
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return named[1] if named else platform.processor() or platform.machine()
