"""MPT, multitask prompt tuning (Wang et al., 2023): one prompt, bent by each task.

A prompt P* [length, d_model] that all tasks share comes before the embedded input of
the encoder, multiplied element by element with the task's low-rank part (eq. 1):

    P_t = P* * W_t,    W_t = sum_r u_r v_r^T        u_r [length], v_r [d_model]

The paper has one u and v per task (`rank` 1). Its first stage, the distillation of P*
from prompts of the single tasks, is a way to train; here P* and all parts are trained
together, as in its multitask stage. u and v start so that W_t is near 1.

Parameters: length * d_model + T * rank * (length + d_model).
"""

import dataclasses

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning import options
from hypertf.conditioning.method import Method
from hypertf.conditioning.registry import register
from hypertf.t5 import StackSites
from hypertf.t5.packing import MODES
from hypertf.t5.weights import add_weight, normal
from hypertf.types import Tensor


@dataclasses.dataclass(frozen=True)
class Options(options.Options):
    """The `length` of the prompt and the `rank` of what a task multiplies it with.

    `initial_std` is how far the entries of u and v start from `rank ** -0.5`, where
    all tasks have the shared prompt itself; they must differ for tasks to part.
    """

    length: int = 100
    rank: int = 1
    initial_std: float = 0.02

    stacks: str = "encoder"

    def __post_init__(self) -> None:
        super().__post_init__()
        only = "'encoder': prompts come before its input"
        self.require("stacks", self.stacks == "encoder", only)
        self.require_positive("length", "rank")
        self.require_number("initial_std")


@keras.saving.register_keras_serializable("hypertf")
class MPT(Method):
    """A shared prompt before the encoder's input, times a low-rank part per task."""

    Options = Options
    trains = "task"
    packs = MODES

    def add_weights(self) -> None:
        o, d_model = self.options, {"d_model": self.config.d_model}
        part = {"task_num": self.num_tasks, "rank": o.rank}
        start = keras.initializers.RandomNormal(o.rank**-0.5, o.initial_std)
        length = {"prompt": o.length}
        self.prompt = add_weight(self, "prompt", {**length, **d_model}, normal(1.0))
        self.rows = add_weight(self, "rows", {**part, **length}, start)
        self.columns = add_weight(self, "columns", {**part, **d_model}, start)

    def stack_sites(
        self, stack: str, task_ids: Tensor, training: bool = False
    ) -> StackSites:
        plain = StackSites.plain(self.num_layers(stack))
        tokens = self.per_example(lambda ids, _: self.prompts(ids), task_ids)
        tokens = ops.cast(tokens, self.compute_dtype)
        return dataclasses.replace(plain, tokens=tokens)

    def prompts(self, task_ids: Tensor) -> Tensor:
        """Task ids [n] -> their prompts [n, length, d_model]."""
        rows = tf.gather(self.rows.value, task_ids)  # [n, rank, length]
        columns = tf.gather(self.columns.value, task_ids)  # [n, rank, d_model]
        part = tf.matmul(rows, columns, transpose_a=True)
        return ops.expand_dims(self.prompt, 0) * part


register(MPT, "mpt")
