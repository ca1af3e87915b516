"""Adapters (Houlsby et al., 2019): a small trained network after each sublayer.

By `adapters`, every task has its own, and its own T5 norms; by `adapters-shared-norm`
(the dagger of HyperFormer's paper), the tasks share all norms. `adapter_sites.py` says
where they sit, and what they compute.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning.adapter_sites import (
    POSITIONS,
    AdapterMethod,
    AdapterOptions,
    declared_adapter,
    declared_norms,
)
from hypertf.conditioning.parts import Declared, Weights
from hypertf.conditioning.registry import register
from hypertf.t5 import T5, StackSites
from hypertf.t5.layer import Layer
from hypertf.t5.sites import SUBLAYERS
from hypertf.types import Tensor


@dataclasses.dataclass(frozen=True)
class Options(AdapterOptions):
    """`norms` says whose the norms are, T5's and the adapters': each task's own
    (`"task"`) or all tasks' together (`"shared"`)."""

    norms: str = "task"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_one_of("norms", ("task", "shared"))


class AdapterBlock(Layer):
    """The adapters of one block, and each task's T5 norms where tasks have them.

    Tasks come first in every weight of theirs.
    """

    def __init__(
        self, method: "Adapters", sublayers: tuple[str, ...], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        policy = {"dtype": self.dtype_policy}
        d_model, tasks = method.config.d_model, {"task_num": method.num_tasks}
        own_norms = method.options.norms == "task"

        def of_tasks(declared: Declared) -> Declared:
            return {
                k: ({**tasks, **dims}, init) for k, (dims, init) in declared.items()
            }

        norms = declared_norms(d_model, method.options)
        adapters = of_tasks(declared_adapter(d_model, method.bottleneck))
        adapters |= of_tasks(norms) if own_norms else norms
        self.adapters = [Weights(adapters, name=name, **policy) for name in POSITIONS]
        scale = {"scale": ({"d_model": d_model}, "ones")}
        self.rms_norms = [
            Weights(of_tasks(scale), name=f"{name}_norm", **policy)
            for name in (sublayers if own_norms else ())
        ]

    def fields(self, task_ids: Tensor) -> dict[str, Tensor]:
        """Task ids [batch] -> `{field of AdapterSites: [batch, ...]}`."""

        def of_examples(weight: keras.Variable) -> Tensor:
            if weight.dims[0] == "task_num":
                return tf.gather(weight.value, task_ids)
            batch = ops.shape(task_ids)[0]
            return tf.broadcast_to(weight.value, (batch, *weight.shape))

        def stacked(layers: list[Weights], name: str) -> Tensor:
            return ops.stack([of_examples(getattr(w, name)) for w in layers], axis=1)

        names = self.adapters[0].declared
        fields = {name: stacked(self.adapters, name) for name in names}
        if self.rms_norms:
            fields["norm_scales"] = stacked(self.rms_norms, "scale")
        return fields


class AdapterStack(Layer):
    """The blocks of one stack and, where tasks have their own, its final norm."""

    def __init__(self, method: "Adapters", stack: str, **kwargs: Any) -> None:
        super().__init__(name=stack, **kwargs)
        policy = {"dtype": self.dtype_policy}
        self.blocks = [
            AdapterBlock(method, SUBLAYERS[stack], name=f"block_{i:03d}", **policy)
            for i in range(method.num_layers(stack))
        ]
        self.final_norm = None
        if method.options.norms == "task":
            dims = {"task_num": method.num_tasks, "d_model": method.config.d_model}
            scale = {"scale": (dims, "ones")}
            self.final_norm = Weights(scale, name="final_norm", **policy)


@keras.saving.register_keras_serializable("hypertf")
class Adapters(AdapterMethod):
    """Adapters of each task, with its own norms or shared ones.

    A task's own T5 norms start from the model's: `initialize_from` copies them, and
    is to be called once pretrained weights are loaded.
    """

    Options = Options

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.trains = "task+norms" if self.options.norms == "shared" else "task"
        policy = {"dtype": self.dtype_policy}
        self.stacks = self.each_stack(lambda s: AdapterStack(self, s, **policy))

    def stack_sites(
        self, stack: str, task_ids: Tensor, training: bool = False
    ) -> StackSites:
        ours = self.of_stack(self.stacks, stack)
        blocks = [block.fields(task_ids) for block in ours.blocks]
        norm_scale = None
        if ours.final_norm is not None:
            norm_scale = tf.gather(ours.final_norm.scale.value, task_ids)
            norm_scale = ops.expand_dims(norm_scale, 1)
        return StackSites(
            blocks=tuple(self.block_sites(self.cast(fields)) for fields in blocks),
            norm_scale=norm_scale,
        )

    def on_built(self, model: T5) -> None:
        for _, unused in self.norm_scales(model):
            unused.trainable = False
        if all(_is_one(scale) for scale, _ in self.norm_scales(model)):
            self.initialize_from(model)

    def initialize_from(self, model: T5) -> None:
        """Gives every task the norms of a `hypertf.T5`, such as a pretrained one."""
        for scale, of_model in self.norm_scales(model):
            scale.assign(ops.broadcast_to(of_model, scale.shape))

    def norm_scales(self, model: T5) -> Iterator[tuple]:
        """Pairs of each task's scales [tasks, d_model] and the scale they replace."""
        if self.options.norms == "shared":
            return
        stacks = self.each_stack(lambda stack: getattr(model, stack))
        for ours, stack in zip(self.stacks, stacks, strict=True):
            for norms, block in zip(ours.blocks, stack.blocks, strict=True):
                for norm in norms.rms_norms:
                    sublayer = getattr(block, norm.name.removesuffix("_norm"))
                    yield norm.scale, sublayer.rms_norm.scale
            yield ours.final_norm.scale, stack.rms_norm.scale


def _is_one(scale: Tensor) -> bool:
    return bool(ops.all(ops.equal(scale, 1.0)))


register(Adapters, "adapters", norms="task")
register(Adapters, "adapters-shared-norm", norms="shared")
