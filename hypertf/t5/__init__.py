"""The plain T5 of the papers. It knows no method; see `sites` for where they go."""

from hypertf.t5.config import T5Config
from hypertf.t5.model import T5
from hypertf.t5.sites import Conditioner, Sites, StackSites
from hypertf.t5.weights import Unallocated, named_weights

__all__ = [
    "T5",
    "Conditioner",
    "Sites",
    "StackSites",
    "T5Config",
    "Unallocated",
    "named_weights",
]
