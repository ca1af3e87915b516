"""Optimizers: Adafactor as Mesh TensorFlow computes it, and AdamW."""

from hypertf.optimizers.adafactor import Adafactor
from hypertf.optimizers.adamw import AdamW

__all__ = ["Adafactor", "AdamW"]
