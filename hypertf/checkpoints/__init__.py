"""Checkpoints of other libraries: Mesh TensorFlow, Hugging Face, KerasHub."""

from hypertf.checkpoints.loading import Report, load, read_config
from hypertf.checkpoints.saving import save

__all__ = ["Report", "load", "read_config", "save"]
