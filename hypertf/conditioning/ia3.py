"""(IA)^3 (Liu et al., 2022), one set per task: learned scales inside every block.

Keys, values and the FFN's hidden units are multiplied by trained vectors:

    k = l_k * (x W_k),    v = l_v * (x W_v),    FFN = (l_ff * hidden) W_o

in self-attention and in attention to the encoder's output alike. The vectors start at
1, the plain T5. All tasks may be in one batch. A task's scales can be folded into the
kernels: `hypertf.export.bake(model, tasks=[3], fold=True)`.

Parameters per task: 2 d_heads for each attention and d_ff for each block.
"""

import dataclasses
from typing import Any, Self

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning import options
from hypertf.conditioning.kernels import KERNELS, kernel_dims, site_names
from hypertf.conditioning.method import Method
from hypertf.conditioning.parts import Weights
from hypertf.conditioning.registry import register
from hypertf.t5 import Sites, StackSites, shared
from hypertf.t5.layer import Layer
from hypertf.t5.packing import MODES, Segments
from hypertf.t5.products import project
from hypertf.t5.sites import OF_MEMORY
from hypertf.types import Tensor

INPUT_SCALED = ("wo",)  # what enters is scaled; of the other kernels, what comes out


@dataclasses.dataclass(frozen=True)
class Options(options.Options):
    """The `kernels` whose product is scaled: some of `kernels.KERNELS`.

    Of `wo` what enters is scaled, the hidden units; of the others what comes out.
    """

    kernels: tuple[str, ...] = ("k", "v", "cross_k", "cross_v", "wo")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_some_of("kernels", KERNELS)


@dataclasses.dataclass(frozen=True, eq=False)
class ScaledKernels(Sites):
    """The scales of one block, each example's own."""

    scales: dict[str, Tensor]  # {kernel: [batch, 1, in or out]}
    kernels: frozenset[str] = shared()

    def project(self, name: str, x: Tensor, kernel: Tensor, observed: object) -> Tensor:
        if name not in self.kernels:  # attention asks for q, k and v together
            return project(x, kernel)
        if name in INPUT_SCALED:
            return project(x * self.scales[name], kernel)
        return project(x, kernel) * self.scales[name]

    def folded(self, name: str, kernel: Tensor) -> Tensor:
        scale = ops.reshape(self.scales[name], (-1,))
        return kernel * (scale[:, None] if name in INPUT_SCALED else scale[None])

    def by_segment(self, segments: Segments) -> Self:
        scales = {
            name: segments.choose(scale, memory=name in OF_MEMORY)
            for name, scale in self.scales.items()
        }
        return ScaledKernels(scales, self.kernels)


class StackScales(Layer):
    """The scales of all tasks in one stack, block by block."""

    def __init__(self, method: "IA3", stack: str, **kwargs: Any) -> None:
        super().__init__(name=stack, **kwargs)
        names = site_names(method.options.kernels, method.config, stack)
        declared = {}
        for name in names:
            inputs, outputs = kernel_dims(name, method.config)
            dims = inputs if name in INPUT_SCALED else outputs
            declared[name] = ({"task_num": method.num_tasks, **dims}, "ones")
        self.blocks = [
            Weights(declared, name=f"block_{i:03d}", dtype=self.dtype_policy)
            for i in range(method.num_layers(stack))
        ]


@keras.saving.register_keras_serializable("hypertf")
class IA3(Method):
    """Scales of each task on keys, values and hidden units of every block."""

    Options = Options
    trains = "task"
    packs = MODES

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        policy = {"dtype": self.dtype_policy}
        self.stacks = self.each_stack(lambda s: StackScales(self, s, **policy))

    def stack_sites(
        self, stack: str, task_ids: Tensor, training: bool = False
    ) -> StackSites:
        blocks = self.of_stack(self.stacks, stack).blocks
        names = blocks[0].declared
        if not names:  # cross-attention only, in the encoder
            return StackSites.plain(len(blocks))

        def of_examples(weight: keras.Variable) -> Tensor:
            rows = ops.expand_dims(tf.gather(weight.value, task_ids), 1)
            return ops.cast(rows, self.compute_dtype)

        return StackSites(
            tuple(
                ScaledKernels(
                    {name: of_examples(getattr(block, name)) for name in names},
                    frozenset(names),
                )
                for block in blocks
            )
        )


register(IA3, "ia3")
