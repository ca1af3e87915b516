"""Checkpoints of other libraries: Mesh TensorFlow, Hugging Face, KerasHub."""

from hypertf.checkpoints.loading import Report, load, open_checkpoint, read_config
from hypertf.checkpoints.saving import save

__all__ = ["Report", "load", "open_checkpoint", "read_config", "save"]
