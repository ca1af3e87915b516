"""A TensorFlow function as the program that XLA compiles, traced for a TPU."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from hypertf.t5 import target


@dataclasses.dataclass(frozen=True)
class Program:
    """A program for XLA.

    Attributes:
        hlo: serialised.
        batch: which of its arguments are split over replicas, along their rows.
    """

    hlo: bytes
    batch: tuple[int, ...]


def lower(function: Callable, batch: dict[str, tf.Tensor], *others: Any) -> Program:
    """Lowers a compiled `tf.function` of a batch, and of what else it takes.

    It is traced for a TPU, whatever this machine has.
    """
    with target.tracing_for("TPU"):
        make = function.experimental_get_compiler_ir(batch, *others)
        hlo = make(stage="hlo_serialized")
    return Program(hlo, tuple(range(len(tf.nest.flatten(batch)))))
