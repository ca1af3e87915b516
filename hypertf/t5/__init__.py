"""The plain T5 of the papers. It knows no method; see `sites` for where they go."""

from hypertf.t5.conditioner import Conditioner
from hypertf.t5.config import T5Config
from hypertf.t5.model import T5
from hypertf.t5.sites import Sites, StackSites, map_tensors, shared
from hypertf.t5.weights import Unallocated, named_weights

__all__ = [
    "T5",
    "Conditioner",
    "Sites",
    "StackSites",
    "T5Config",
    "Unallocated",
    "map_tensors",
    "named_weights",
    "shared",
]
