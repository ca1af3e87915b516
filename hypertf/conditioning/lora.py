"""LoRA (Hu et al., 2022), one set per task: low-rank additions to frozen kernels.

    x W + (alpha / rank) x A B        A [in, rank], B [rank, out]

A starts uniform within 1 / sqrt(in), as the authors' code has it, and B at 0, so that
training starts from the plain T5. All tasks may be in one batch. What a task adds can
be folded into the kernels: `hypertf.export.bake(model, tasks=[3], fold=True)`.

Parameters per kernel: T * rank * (in + out).
"""

import dataclasses
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning import options
from hypertf.conditioning.kernels import KERNELS, kernel_dims, site_names
from hypertf.conditioning.low_rank import LowRankSites
from hypertf.conditioning.method import Method
from hypertf.conditioning.parts import Weights, uniform
from hypertf.conditioning.registry import register
from hypertf.t5 import StackSites
from hypertf.t5.layer import Layer
from hypertf.t5.packing import MODES
from hypertf.types import Tensor


@dataclasses.dataclass(frozen=True)
class Options(options.Options):
    """The `rank` of the additions, their weight `alpha`, and the `kernels` they go to.

    Kernels are some of `kernels.KERNELS`; `wi` stands for both of a gated FFN. The
    default is PEFT's for T5, queries and values of all attention.
    """

    rank: int = 8
    alpha: float = 8.0
    kernels: tuple[str, ...] = ("q", "v", "cross_q", "cross_v")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_positive("rank")
        self.require_number("alpha")
        self.require_some_of("kernels", KERNELS)


class BlockLoRA(Layer):
    """A and B of every task for the kernels of one block, by kernel."""

    def __init__(self, method: "LoRA", stack: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        tasks, rank = {"task_num": method.num_tasks}, {"rank": method.options.rank}
        self.of = {}
        for name in site_names(method.options.kernels, method.config, stack):
            inputs, outputs = kernel_dims(name, method.config)
            (size,) = inputs.values()
            declared = {
                "down": ({**tasks, **inputs, **rank}, uniform(size**-0.5)),
                "up": ({**tasks, **rank, **outputs}, "zeros"),
            }
            self.of[name] = Weights(declared, name=name, dtype=self.dtype_policy)


class StackLoRA(Layer):
    """The blocks of one stack."""

    def __init__(self, method: "LoRA", stack: str, **kwargs: Any) -> None:
        super().__init__(name=stack, **kwargs)
        self.blocks = [
            BlockLoRA(method, stack, name=f"block_{i:03d}", dtype=self.dtype_policy)
            for i in range(method.num_layers(stack))
        ]


@keras.saving.register_keras_serializable("hypertf")
class LoRA(Method):
    """Low-rank additions of each task, on the kernels of every block."""

    Options = Options
    trains = "task"
    packs = MODES

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        policy = {"dtype": self.dtype_policy}
        self.stacks = self.each_stack(lambda s: StackLoRA(self, s, **policy))

    def stack_sites(
        self, stack: str, task_ids: Tensor, training: bool = False
    ) -> StackSites:
        blocks = self.of_stack(self.stacks, stack).blocks
        if not blocks[0].of:  # cross-attention only, in the encoder
            return StackSites.plain(len(blocks))
        return StackSites(tuple(self._block(b.of, task_ids) for b in blocks))

    def _block(self, kernels: dict[str, Weights], task_ids: Tensor) -> LowRankSites:
        def of_examples(weight: keras.Variable, scale: float = 1.0) -> Tensor:
            rows = tf.gather(weight.value, task_ids)
            return ops.cast(scale * rows, self.compute_dtype)

        scale = self.options.alpha / self.options.rank
        return LowRankSites(
            down={name: of_examples(w.down) for name, w in kernels.items()},
            up={name: of_examples(w.up, scale) for name, w in kernels.items()},
            kernels=frozenset(kernels),
        )


register(LoRA, "lora")
