"""Models made ready to serve."""

from hypertf.export.bake import bake

__all__ = ["bake"]
