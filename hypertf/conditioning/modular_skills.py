"""Modular skills (Ponti et al., 2022), a baseline of Hyperdecoders' Table 1.

An inventory of skills, each a low-rank addition (LoRA) to T5's frozen kernels, and
a task-skill allocation matrix Z that is learned with them. A task's addition is the
mean of its active skills' factors:

    x W + x (sum_s z_s A_s) (sum_s z_s B_s) / rank,    z = Z[task] / sum(Z[task])

Z is soft: sigmoid(logits), and in training a draw of the relaxed Bernoulli with these
logits (Gumbel-sigmoid), its own for each example, or for each packed row of one task.

The authors' code adapts q, k, v and o of all attention, that to the encoder's output
(`cross_q` and so on) among it.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning import options
from hypertf.conditioning.kernels import (
    CROSS_ATTENTION,
    KERNELS,
    SELF_ATTENTION,
    kernel_dims,
    site_names,
)
from hypertf.conditioning.low_rank import LowRankSites
from hypertf.conditioning.method import Method
from hypertf.conditioning.parts import uniform
from hypertf.conditioning.registry import register
from hypertf.t5 import StackSites
from hypertf.t5.dropout import drawn
from hypertf.t5.layer import Layer
from hypertf.t5.packing import MODES
from hypertf.t5.products import unstack
from hypertf.t5.weights import add_weight
from hypertf.types import Tensor

EPSILON = 1e-12  # keeps the mean of no skill at all finite


@dataclasses.dataclass(frozen=True)
class Options(options.Options):
    """`skills` in the inventory, each of `rank`, on `kernels` (some of `KERNELS`).

    `wi` stands for both of a gated FFN. `temperature` is that of the draws in
    training; None draws nothing. `finegrained` gives every kernel of every block an
    allocation matrix of its own, where the paper has one for all.
    """

    skills: int = 4
    rank: int = 16
    kernels: tuple[str, ...] = (*SELF_ATTENTION, *CROSS_ATTENTION)
    temperature: float | None = 1.0
    finegrained: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_positive("skills", "rank")
        self.require_some_of("kernels", KERNELS)
        if self.temperature is not None:
            self.require_number("temperature")
        self.require_flags("finegrained")


class Skills(Layer):
    """The inventory of one kernel: A and B of every skill, and logits if its own."""

    def __init__(
        self,
        inputs: dict[str, int],
        outputs: dict[str, int],
        num_tasks: int,
        options: Options,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs, self.outputs = inputs, outputs
        self.num_tasks, self.options = num_tasks, options

    def add_weights(self) -> None:
        skills, rank = {"skills": self.options.skills}, {"rank": self.options.rank}
        bound = 1 / math.sqrt(3 * math.prod(self.inputs.values()))
        values = uniform(bound)
        self.down = add_weight(self, "down", {**skills, **self.inputs, **rank}, values)
        up = {**skills, **rank, **self.outputs}
        self.up = add_weight(self, "up", up, "zeros")  # the plain T5 at first
        if self.options.finegrained:
            self.logits = add_logits(self, self.num_tasks, self.options.skills)


def add_logits(layer: Layer | Method, num_tasks: int, skills: int) -> keras.Variable:
    """The allocation matrix: all skills about half active at first."""
    dims = {"task_num": num_tasks, "skills": skills}
    return add_weight(layer, "skill_logits", dims, uniform(1e-3))


class BlockSkills(Layer):
    """The inventories of one block, by kernel."""

    def __init__(self, method: "ModularSkills", stack: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        config, rest = method.config, (method.num_tasks, method.options)
        self.of = {
            name: Skills(
                *kernel_dims(name, config), *rest, name=name, dtype=self.dtype_policy
            )
            for name in site_names(method.options.kernels, config, stack)
        }


class StackSkills(Layer):
    """The inventories of a stack, block by block."""

    def __init__(self, method: "ModularSkills", stack: str, **kwargs: Any) -> None:
        super().__init__(name=stack, **kwargs)
        self.blocks = [
            BlockSkills(method, stack, name=f"block_{i:03d}", dtype=self.dtype_policy)
            for i in range(method.num_layers(stack))
        ]

    def by_kernel(self) -> dict[str, list[Skills]]:
        """The inventories of a kernel in every block, by kernel."""
        return {
            name: [block.of[name] for block in self.blocks]
            for name in self.blocks[0].of
        }


@keras.saving.register_keras_serializable("hypertf")
class ModularSkills(Method):
    """A mixture of skills per task, on the kernels of every block."""

    Options = Options
    trains = "task"
    packs = MODES

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.encoder_skills = self._skills("encoder")
        self.decoder_skills = self._skills("decoder")

    def _skills(self, stack: str) -> StackSkills | None:
        if not self.has(stack):
            return None
        return StackSkills(self, stack, dtype=self.dtype_policy)

    def add_weights(self) -> None:
        if not self.options.finegrained:
            self.logits = add_logits(self, self.num_tasks, self.options.skills)

    def encoder(
        self,
        task_ids: Tensor,
        training: bool = False,
        first_pass: Callable | None = None,
    ) -> StackSites:
        seed = None
        if training:
            # The decoder takes the same seed: an example has one Z for both stacks.
            generator = self.seed_generator
            own = self.options.finegrained or not self.has("decoder")
            seed = generator.next() if own else generator.state.value
        return self._sites("encoder", self.encoder_skills, task_ids, seed)

    def decoder(
        self,
        task_ids: Tensor,
        encoder_output: Tensor,
        encoder_mask: Tensor,
        training: bool = False,
    ) -> StackSites:
        seed = self.seed_generator.next() if training else None
        return self._sites("decoder", self.decoder_skills, task_ids, seed)

    def _sites(
        self,
        name: str,
        stack: StackSkills | None,
        task_ids: Tensor,
        seed: Tensor | None,
    ) -> StackSites:
        num_layers = self.num_layers(name)
        by_kernel = {} if stack is None else stack.by_kernel()
        if not by_kernel:
            return StackSites.plain(num_layers)
        down, up = {}, {}
        z = self.allocation(stack, task_ids, seed)
        for k, (name, skills) in enumerate(by_kernel.items()):
            blocks = slice(k * num_layers, (k + 1) * num_layers)
            down[name] = self._mix(z[blocks], [s.down for s in skills])
            scaled = z[blocks] / self.options.rank
            up[name] = self._mix(scaled, [s.up for s in skills])
        return StackSites(
            tuple(
                LowRankSites(
                    down={name: made[i] for name, made in down.items()},
                    up={name: made[i] for name, made in up.items()},
                    kernels=frozenset(by_kernel),
                )
                for i in range(num_layers)
            )
        )

    def _mix(self, z: Tensor, weights: list[keras.Variable]) -> list[Tensor]:
        """Mixes z [blocks, batch, skills] of one kernel's weights in every block."""
        stacked = ops.cast(ops.stack([w.value for w in weights]), self.compute_dtype)
        mixed = tf.einsum("nbs,nsio->nbio", ops.cast(z, self.compute_dtype), stacked)
        return unstack(mixed)

    def allocation(
        self, stack: StackSkills, task_ids: Tensor, seed: Tensor | None = None
    ) -> Tensor:
        """How much of each skill examples get: [inventories, batch, skills].

        Inventories are in order of kernels, then blocks. Rows add up to 1. A `seed`
        draws them, as in training.
        """
        o = self.options
        skills = [s for of_kernel in stack.by_kernel().values() for s in of_kernel]
        own = [s.logits.value for s in skills] if o.finegrained else None
        logits = tf.gather(ops.stack(own or [self.logits.value]), task_ids, axis=1)
        if seed is not None and o.temperature is not None:
            logits = (logits + logistic_noise(ops.shape(logits), seed)) / o.temperature
        z = ops.sigmoid(logits)
        z = z / (ops.sum(z, axis=-1, keepdims=True) + EPSILON)
        return ops.broadcast_to(z, (len(skills), *ops.shape(z)[1:]))


def logistic_noise(shape: tuple[int, ...], seed: Tensor) -> Tensor:
    """What added to logits makes their sigmoid a draw of the relaxed Bernoulli."""
    uniform = drawn(
        tf.random.stateless_uniform(
            shape, ops.cast(seed, "int32"), minval=1e-6, maxval=1.0 - 1e-6
        )
    )
    return ops.log(uniform) - ops.log(1.0 - uniform)


register(ModularSkills, "modular-skills")
