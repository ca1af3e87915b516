"""Models made ready to serve."""

from hypertf.export.bake import bake
from hypertf.export.loading import Loaded, load
from hypertf.export.saving import save
from hypertf.export.served import SIGNATURES

__all__ = ["SIGNATURES", "Loaded", "bake", "load", "save"]
