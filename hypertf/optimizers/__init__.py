"""Optimizers: Adafactor as Mesh TensorFlow computes it."""

from hypertf.optimizers.adafactor import Adafactor

__all__ = ["Adafactor"]
