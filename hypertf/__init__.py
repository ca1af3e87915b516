"""hypertf: one T5, every task."""

from hypertf import (
    analysis,
    checkpoints,
    conditioning,
    export,
    optimizers,
    testing,
    training,
)
from hypertf.optimizers import Adafactor
from hypertf.runs import load_run
from hypertf.t5 import T5, T5Config

__all__ = [
    "T5",
    "Adafactor",
    "T5Config",
    "analysis",
    "checkpoints",
    "conditioning",
    "export",
    "load_run",
    "optimizers",
    "testing",
    "training",
]
