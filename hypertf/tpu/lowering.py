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
        given: how many arguments the function was given; captured ones follow.
        captured: the handles of the variables that it reads, argument by argument.
    """

    hlo: bytes
    batch: tuple[int, ...]
    given: int = 0
    captured: tuple[tf.Tensor, ...] = dataclasses.field(default=(), repr=False)


def lower(function: Callable, batch: dict[str, tf.Tensor], *others: Any) -> Program:
    """Lowers a compiled `tf.function` of a batch, and of what else it takes.

    It is traced for a TPU, whatever this machine has.
    """
    with target.tracing_for("TPU"):
        make = function.experimental_get_compiler_ir(batch, *others)
        hlo = make(stage="hlo_serialized")
        captured = function.get_concrete_function(batch, *others).captured_inputs
    number = len(tf.nest.flatten(batch))
    given = number + len(tf.nest.flatten(others))
    return Program(hlo, tuple(range(number)), given, tuple(captured))
