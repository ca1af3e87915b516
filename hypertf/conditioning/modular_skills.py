"""Modular skills (Ponti et al., 2022), a baseline of Hyperdecoders' Table 1.

An inventory of skills, each a low-rank addition (LoRA) to T5's frozen kernels, and
a task-skill allocation matrix Z that is learned with them. A task's addition is the
mean of its active skills' factors:

    x W + x (sum_s z_s A_s) (sum_s z_s B_s) / rank,    z = Z[task] / sum(Z[task])

Z is soft: sigmoid(logits), and in training a draw of the relaxed Bernoulli with these
logits (Gumbel-sigmoid), its own for each example.

The authors' code adapts q, k, v and o of all attention, that to the encoder's output
(`cross_q` and so on) among it.
"""

import dataclasses
import math
from typing import Any

import keras
import tensorflow as tf
from keras import initializers, ops

from hypertf.conditioning import base
from hypertf.conditioning.registry import register
from hypertf.t5 import Sites, StackSites
from hypertf.t5.layer import Layer
from hypertf.t5.products import project
from hypertf.t5.weights import add_weight

SELF_ATTENTION = ("q", "k", "v", "o")
CROSS_ATTENTION = ("cross_q", "cross_k", "cross_v", "cross_o")  # in the decoder only
KERNELS = (*SELF_ATTENTION, *CROSS_ATTENTION, "wi", "wo")
EPSILON = 1e-12  # keeps the mean of no skill at all finite


@dataclasses.dataclass(frozen=True)
class Options(base.Options):
    """`skills` in the inventory, each of `rank`, on `kernels` (some of `KERNELS`).

    `wi` stands for both of a gated FFN. `temperature` is that of the draws in
    training; None draws nothing. `finegrained` gives every kernel of every block an
    allocation matrix of its own, where the paper has one for all.
    """

    skills: int = 4
    rank: int = 16
    kernels: tuple = (*SELF_ATTENTION, *CROSS_ATTENTION)
    temperature: float | None = 1.0
    finegrained: bool = False

    def __post_init__(self):
        super().__post_init__()
        self.require_positive("skills", "rank")
        names = self.kernels
        known = isinstance(names, (list, tuple)) and all(n in KERNELS for n in names)
        once = known and names and len(set(names)) == len(names)
        self.require("kernels", once, f"some of {', '.join(KERNELS)}, each once")
        object.__setattr__(self, "kernels", tuple(names))
        t = self.temperature
        number = isinstance(t, (int, float)) and not isinstance(t, bool)
        self.require("temperature", t is None or (number and t > 0), "> 0 or None")
        flag = isinstance(self.finegrained, bool)
        self.require("finegrained", flag, "True or False")


@dataclasses.dataclass(frozen=True, eq=False)
class SkilledKernels(Sites):
    """The additions to the kernels of one block, each example's own."""

    down: dict  # {kernel: A [batch, in, rank]}
    up: dict  # {kernel: B [batch, rank, out]}, divided by the rank
    kernels: Any = dataclasses.field(metadata={"shared": True})

    def project(self, name, x, kernel, observed):
        if name not in self.kernels:  # attention asks for q, k and v together
            return project(x, kernel)
        low = ops.matmul(x, self.down[name])
        return project(x, kernel) + ops.matmul(low, self.up[name])


class Skills(Layer):
    """The inventory of one kernel: A and B of every skill, and logits if its own."""

    def __init__(self, inputs, outputs, num_tasks, options, **kwargs):
        super().__init__(**kwargs)
        self.inputs, self.outputs = inputs, outputs
        self.num_tasks, self.options = num_tasks, options

    def build(self, input_shape=None):
        skills, rank = {"skills": self.options.skills}, {"rank": self.options.rank}
        bound = 1 / math.sqrt(3 * math.prod(self.inputs.values()))
        values = initializers.RandomUniform(-bound, bound)
        self.down = add_weight(self, "down", {**skills, **self.inputs, **rank}, values)
        up = {**skills, **rank, **self.outputs}
        self.up = add_weight(self, "up", up, "zeros")  # the plain T5 at first
        if self.options.finegrained:
            self.logits = add_logits(self, self.num_tasks, self.options.skills)
        self.built = True


def add_logits(layer, num_tasks, skills):
    """The allocation matrix: all skills about half active at first."""
    dims = {"tasks": num_tasks, "skills": skills}
    values = initializers.RandomUniform(-1e-3, 1e-3)
    return add_weight(layer, "skill_logits", dims, values)


@keras.saving.register_keras_serializable("hypertf")
class ModularSkills(base.Method):
    """A mixture of skills per task, on the kernels of every block."""

    Options = Options
    trains = "task"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.encoder_skills = self._skills("encoder")
        self.decoder_skills = self._skills("decoder")

    def _names(self, stack):
        """The kernels that change in a stack, by the names of the sites."""
        gated = {"wi": ("wi_0", "wi_1")} if self.config.gated else {}
        absent = CROSS_ATTENTION if stack == "encoder" else ()
        kernels = (k for k in self.options.kernels if k not in absent)
        return tuple(name for k in kernels for name in gated.get(k, (k,)))

    def _skills(self, stack):
        """The inventories of a stack, kernel by kernel and in each block by block."""
        rest = {"options": self.options, "dtype": self.dtype_policy}
        return [
            Skills(*self._dims(name), self.num_tasks, name=name, **rest)
            for name in self._names(stack)
            for _ in range(self.num_layers(stack))
        ]

    def _dims(self, name):
        """Inputs and outputs of a kernel."""
        c, d_model = self.config, {"d_model": self.config.d_model}
        attention = name in (*SELF_ATTENTION, *CROSS_ATTENTION)
        inner = {"heads": c.d_heads} if attention else {"d_ff": c.d_ff}
        return (inner, d_model) if name.endswith("o") else (d_model, inner)

    def build(self, input_shape=None):
        if not self.options.finegrained:
            self.logits = add_logits(self, self.num_tasks, self.options.skills)
        for stack in ("encoder", "decoder"):
            num_layers = self.num_layers(stack)
            for i, skills in enumerate(getattr(self, f"{stack}_skills")):
                block = f"block_{i % num_layers:03d}"
                with keras.name_scope(stack), keras.name_scope(block):
                    skills.build()
        self.built = True

    def encoder(self, task_ids, training=False, first_pass=None):
        seed = None
        if training:
            # The decoder takes the same seed: an example has one Z for both stacks.
            generator = self.seed_generator
            own = self.options.finegrained
            seed = generator.next() if own else generator.state.value
        return self._sites("encoder", self.encoder_skills, task_ids, seed)

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        seed = self.seed_generator.next() if training else None
        return self._sites("decoder", self.decoder_skills, task_ids, seed)

    def _sites(self, stack, skills, task_ids, seed):
        names, num_layers = self._names(stack), self.num_layers(stack)
        if not names:
            return StackSites.plain(num_layers)
        z = self.allocation(skills, task_ids, seed)
        down, up = {}, {}
        for k, name in enumerate(names):
            blocks = slice(k * num_layers, (k + 1) * num_layers)
            down[name] = self._mix(z[blocks], [s.down for s in skills[blocks]])
            scaled = z[blocks] / self.options.rank
            up[name] = self._mix(scaled, [s.up for s in skills[blocks]])
        return StackSites(
            tuple(
                SkilledKernels(
                    down={name: made[i] for name, made in down.items()},
                    up={name: made[i] for name, made in up.items()},
                    kernels=frozenset(names),
                )
                for i in range(num_layers)
            )
        )

    def _mix(self, z, weights):
        """Mixes z [blocks, batch, skills] of one kernel's weights in every block."""
        stacked = ops.cast(ops.stack([w.value for w in weights]), self.compute_dtype)
        mixed = tf.einsum("nbs,nsio->nbio", ops.cast(z, self.compute_dtype), stacked)
        return ops.unstack(mixed, len(weights))

    def allocation(self, skills, task_ids, seed=None):
        """How much of each skill examples get: [inventories, batch, skills].

        Rows add up to 1. A `seed` draws them, as in training.
        """
        o = self.options
        own = [s.logits.value for s in skills] if o.finegrained else None
        logits = tf.gather(ops.stack(own or [self.logits.value]), task_ids, axis=1)
        if seed is not None and o.temperature is not None:
            logits = (logits + logistic_noise(ops.shape(logits), seed)) / o.temperature
        z = ops.sigmoid(logits)
        z = z / (ops.sum(z, axis=-1, keepdims=True) + EPSILON)
        return ops.broadcast_to(z, (len(skills), *ops.shape(z)[1:]))


def logistic_noise(shape, seed):
    """What added to logits makes their sigmoid a draw of the relaxed Bernoulli."""
    uniform = tf.random.stateless_uniform(
        shape, ops.cast(seed, "int32"), minval=1e-6, maxval=1.0 - 1e-6
    )
    return ops.log(uniform) - ops.log(1.0 - uniform)


register(ModularSkills, "modular-skills")
