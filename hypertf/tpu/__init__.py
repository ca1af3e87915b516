"""What a TPU would run, compiled on a machine without one, by Google's own compiler."""

from hypertf.tpu.chips import CHIPS, Chip, parse_topology
from hypertf.tpu.compiler import Compiled, compile_hlo
from hypertf.tpu.lowering import Program, lower

__all__ = [
    "CHIPS",
    "Chip",
    "Compiled",
    "Program",
    "compile_hlo",
    "lower",
    "parse_topology",
]
