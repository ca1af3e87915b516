"""The plain T5 with a choice of what trains: `create("none", ..., trains=...)`.

HyperGrid's multi-task baseline is one: it freezes the token embeddings (section 6.3).
"""

import dataclasses

import keras

from hypertf.conditioning import options
from hypertf.conditioning.method import Method
from hypertf.t5 import StackSites
from hypertf.t5.packing import MODES
from hypertf.types import Tensor


@dataclasses.dataclass(frozen=True)
class Options(options.Options):
    """Only `trains`: "all", "all-but-embeddings" or "task+norms", T5's norms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_unset("stacks", because="the plain T5")
        some = self.trains not in ("task", "task-vectors")
        self.require("trains", some, "some weights: the plain T5 has none of a method")


@keras.saving.register_keras_serializable("hypertf")
class Plain(Method):
    """Does nothing but to freeze what does not train; it has no weights."""

    Options = Options
    packs = MODES

    def stack_sites(
        self, stack: str, task_ids: Tensor, training: bool = False
    ) -> StackSites:
        return StackSites.plain(self.num_layers(stack))
