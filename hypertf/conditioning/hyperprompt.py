"""HyperPrompt (He, Zheng et al., 2022): task prompts in every self-attention.

Each task has a global prompt P [length, d_model] per stack. In block m, two local
hypernetworks make of it the hyper-prompts that come before the keys and the values
(eqs. 1 to 6):

    P_k = relu(P D_k) U_k        D [d_model, b], U [b, heads, d_kv], no biases

    hyperprompt-share   one D and U per block, for all tasks
    hyperprompt-sep     one D and U per block and task
    hyperprompt-global  D and U written for task and block by one hypernetwork per
                        stack, D = I W^D, U = I W^U, from the layer-aware task
                        embedding I = MLP([task; block]) (eqs. 7 and 8)

The authors' code adds what their equations leave out, and so do the defaults here:
layer norms on P and on I, each with a scale and a bias per block, and dropout on P,
on both bottlenecks and inside the MLP. Unlike that code, keys at padding are masked.

Parameters per stack with M blocks and T tasks, d = heads * d_kv:

    share   d l T + 4 b d M
    sep     d l T + 4 b d M T
    global  d l T + 4 b d t + T t' + M t' + (2 t' + t) e
    norms   2 d M more, in global 2 (d + t) M more
"""

import dataclasses
from typing import Any, Self

import keras

from hypertf.conditioning import options
from hypertf.conditioning.method import Method
from hypertf.conditioning.prompts import GlobalPrompts, SepPrompts, SharePrompts
from hypertf.conditioning.registry import register
from hypertf.t5 import Sites, StackSites
from hypertf.t5.packing import MODES, Segments
from hypertf.t5.products import unstack
from hypertf.t5.sites import STACKS
from hypertf.types import Tensor

REDUCTION = 32


@dataclasses.dataclass(frozen=True)
class Options(options.Options):
    """Options of all three forms; defaults are the paper's best on T5 base.

    `encoder_length` and `decoder_length` are the lengths l of the prompts; 0 leaves
    that stack as T5 has it, as `stacks` does. The bottleneck b is `bottleneck`, or
    d_model divided by `reduction` (32 unless given). `norms` and `dropout` are those
    of the authors' code; without both it is the bare form of the paper's equations.
    """

    encoder_length: int = 16
    decoder_length: int = 6
    bottleneck: int | None = None
    reduction: int | None = None
    norms: bool = True
    dropout: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_count("encoder_length", "decoder_length", of="prompts")
        some = any(self.length(stack) for stack in STACKS)
        expected = "prompts in at least one stack; none are left by "
        expected += f"encoder_length={self.encoder_length}, stacks={self.stacks!r}"
        self.require("decoder_length", some, expected)
        self.require_positive("bottleneck", "reduction")
        self.require_either("reduction", "bottleneck")
        self.require_flags("norms", "dropout")

    def length(self, stack: str) -> int:
        """The length of the prompts in a stack."""
        of_stack = {"encoder": self.encoder_length, "decoder": self.decoder_length}
        return of_stack[stack] if stack in self.chosen_stacks else 0

    def bottleneck_size(self, d_model: int) -> int:
        """The bottleneck's size b in a model of size `d_model`."""
        reduction = self.reduction or REDUCTION
        if self.bottleneck is None and d_model < reduction:
            raise ValueError(
                f"reduction={reduction}, expected at most d_model={d_model}; "
                "or give the bottleneck itself"
            )
        return self.bottleneck or d_model // reduction


@dataclasses.dataclass(frozen=True)
class GlobalOptions(Options):
    """Adds the sizes of the layer-aware task embedding.

    `embedding_size` is t, `raw_embedding_size` t' (task and block alike) and
    `hidden_size` e. Of these the paper prints t only, as a choice of 32, 64 and 128;
    64 gives the parameter counts of its tables. The others are those of HyperFormer++,
    whose recipe it says it follows.
    """

    embedding_size: int = 64
    raw_embedding_size: int = 64
    hidden_size: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_positive("embedding_size", "raw_embedding_size", "hidden_size")


@dataclasses.dataclass(frozen=True)
class PromptSites(Sites):
    """The hyper-prompts of a block: each [batch, heads, length, d_kv]."""

    keys: Tensor
    values: Tensor

    def keys_values(self) -> tuple[Tensor, Tensor]:
        return self.keys, self.values

    def by_segment(self, segments: Segments) -> Self:
        pair = (segments.extra_keys(x) for x in (self.keys, self.values))
        return PromptSites(*pair)


class HyperPrompt(Method):
    """What the three forms share: prompts in the encoder, the decoder or both."""

    Options = Options
    packs = MODES
    Prompts = None  # the layer that holds one stack's weights

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        try:
            self.options.bottleneck_size(self.config.d_model)
        except ValueError as error:
            raise ValueError(f"{self.method}: {error}") from None
        self.encoder_prompts = self._prompts("encoder")
        self.decoder_prompts = self._prompts("decoder")

    def _prompts(self, stack: str) -> SharePrompts | None:
        length = self.options.length(stack)
        if not length:
            return None
        return self.Prompts(
            self.config,
            self.num_tasks,
            self.options,
            length,
            self.num_layers(stack),
            name=stack,
            dtype=self.dtype_policy,
        )

    def stack_sites(
        self, stack: str, task_ids: Tensor, training: bool = False
    ) -> StackSites:
        prompts = getattr(self, f"{stack}_prompts")
        if prompts is None:
            return StackSites.plain(self.num_layers(stack))
        made = self.per_example(
            prompts.generate,
            task_ids,
            axis=1,
            training=training and self.options.dropout,
        )
        keys, values = (unstack(x) for x in made)
        blocks = tuple(PromptSites(k, v) for k, v in zip(keys, values, strict=True))
        return StackSites(blocks, num_keys=prompts.length)


@keras.saving.register_keras_serializable("hypertf")
class HyperPromptShare(HyperPrompt):
    """All tasks share the local hypernetworks (eqs. 3 and 4)."""

    Prompts = SharePrompts


@keras.saving.register_keras_serializable("hypertf")
class HyperPromptSep(HyperPrompt):
    """Every task has its own local hypernetworks (eqs. 5 and 6)."""

    Prompts = SepPrompts


@keras.saving.register_keras_serializable("hypertf")
class HyperPromptGlobal(HyperPrompt):
    """A global hypernetwork writes the local ones (eqs. 7 and 8)."""

    Options = GlobalOptions
    Prompts = GlobalPrompts


register(HyperPromptShare, "hyperprompt-share")
register(HyperPromptSep, "hyperprompt-sep")
register(HyperPromptGlobal, "hyperprompt-global")
