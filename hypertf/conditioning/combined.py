"""Several methods in one model: `create("hyperprompt-global+hypergrid", ...)`.

Each does at its sites what it does alone; where two use the same site:

- extra keys and values, and extra tokens, of the first method come first;
- adapters after a sublayer follow one another, what is beside the FFN adds up;
- a kernel, or the scale of a norm, can be changed by one method only.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Self

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning.method import Method, freeze
from hypertf.conditioning.options import TRAINS
from hypertf.conditioning.registry import create_one, method_options
from hypertf.names import unknown
from hypertf.t5 import T5, Conditioner, Sites, StackSites, T5Config, shared
from hypertf.t5.layer import BuildsChildren
from hypertf.t5.packing import MODES, Segments
from hypertf.t5.products import project
from hypertf.t5.sites import STACKS, SUBLAYERS
from hypertf.types import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class CombinedSites(Sites):
    """The sites of several methods in one block.

    `first_tokens` says how many extra tokens come before each method's own.
    """

    members: tuple[Sites, ...]
    first_tokens: tuple[int, ...] = shared()

    @property
    def kernels(self) -> frozenset[str]:
        return frozenset().union(*(member.kernels for member in self.members))

    def uses(self, site: str) -> bool:
        return any(member.uses(site) for member in self.members)

    def keys_values(self) -> tuple[Tensor, Tensor] | None:
        extra = [member.keys_values() for member in self.members]
        extra = [pair for pair in extra if pair is not None]
        if len(extra) < 2:
            return extra[0] if extra else None
        keys, values = zip(*extra, strict=True)
        return ops.concatenate(keys, axis=2), ops.concatenate(values, axis=2)

    def observe(self, x: Tensor, place: str) -> tuple | None:
        """What each member observes, its own tokens first."""
        seen = tuple(
            member.observe(x[:, first:] if first else x, place)
            for member, first in zip(self.members, self.first_tokens, strict=True)
        )
        return None if all(each is None for each in seen) else seen

    def project(self, name: str, x: Tensor, kernel: Tensor, observed: Any) -> Tensor:
        owner = self._owner(name)
        if owner is None:  # attention asks for q, k and v together
            return project(x, kernel)
        seen = None if observed is None else observed[owner]
        return self.members[owner].project(name, x, kernel, seen)

    def folded(self, name: str, kernel: Tensor) -> Tensor | None:
        return self.members[self._owner(name)].folded(name, kernel)

    def _owner(self, name: str) -> int | None:
        owners = [i for i, m in enumerate(self.members) if name in m.kernels]
        return owners[0] if owners else None

    def after_attention(self, y: Tensor, training: bool) -> Tensor:
        for member in self.members:
            y = member.after_attention(y, training)
        return y

    def after_ffn(self, y: Tensor, training: bool) -> Tensor:
        for member in self.members:
            y = member.after_ffn(y, training)
        return y

    def beside_ffn(self, x: Tensor, normed: Tensor, training: bool) -> Tensor | None:
        added = [m.beside_ffn(x, normed, training) for m in self.members]
        added = [each for each in added if each is not None]
        return sum(added[1:], added[0]) if added else None

    def norm_scale(self, sublayer: str) -> Tensor | None:
        return _one([member.norm_scale(sublayer) for member in self.members])

    def by_segment(self, segments: Segments) -> Self:
        return CombinedSites(
            tuple(member.by_segment(segments) for member in self.members),
            tuple(first * segments.count for first in self.first_tokens),
        )


def combine(stacks: list[StackSites]) -> StackSites:
    """What several methods do in a stack, together."""
    tokens = [stack.tokens for stack in stacks if stack.tokens is not None]
    counts = [stack.num_tokens for stack in stacks]
    first = tuple(sum(counts[:i]) for i in range(len(stacks)))
    return StackSites(
        blocks=tuple(
            CombinedSites(members, first)
            for members in zip(*(stack.blocks for stack in stacks), strict=True)
        ),
        tokens=ops.concatenate(tokens, axis=1) if tokens else None,
        num_keys=sum(stack.num_keys for stack in stacks),
        norm_scale=_one([stack.norm_scale for stack in stacks]),
    )


def _one(values: list) -> Any:
    """The one value that is not None, None if all are."""
    return next((value for value in values if value is not None), None)


def conflict(stack: str, methods: list[str], sites: list[StackSites]) -> str | None:
    """Why methods cannot be combined in a stack, None if they can."""
    owners: dict[str, list[str]] = {}
    for method, each in zip(methods, sites, strict=True):
        block = each.blocks[0]
        for kernel in sorted(block.kernels):
            owners.setdefault(f"change the kernel {kernel}", []).append(method)
        norms = [n for n in SUBLAYERS[stack] if block.norm_scale(n) is not None]
        for place in norms + ["the end"] * (each.norm_scale is not None):
            owners.setdefault(f"set the norm's scale of {place}", []).append(method)
    for what, who in owners.items():
        if len(who) > 1:
            return f"{' and '.join(who)} both {what} of the {stack}"
    return None


def _by_method(
    name: str, methods: list[str], options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """`{"method.option": value}` to `{method: {option: value}}`."""
    own = {method: {} for method in methods}
    for key, value in options.items():
        method, dot, option = key.rpartition(".")
        if key == "trains":
            for each in own.values():
                each["trains"] = value
        elif not dot or method not in own:
            known = [f"{m}.{o}" for m in methods for o in method_options(m)]
            raise ValueError(f"{name}: {unknown('option', key, ['trains', *known])}")
        else:
            own[method][option] = value
    return own


@keras.saving.register_keras_serializable("hypertf")
class Combined(BuildsChildren, Conditioner):
    """Several methods, each with its own options and weights.

    Args:
        methods: their names, in the order in which they act.
        options: `{"method.option": value}`, and `trains` for all of them; by default
            what the method that trains most trains.
    """

    def __init__(
        self,
        config: T5Config | dict,
        num_tasks: int,
        methods: list[str],
        options: Mapping[str, Any],
        **kwargs: Any,
    ) -> None:
        name = "+".join(methods)
        super().__init__(config, num_tasks, method=name, **kwargs)
        self.methods, self.given = list(methods), dict(options)
        if len(set(methods)) < len(methods) or "none" in methods:
            raise ValueError(
                f"conditioner {name!r}: expected different methods, none of them 'none'"
            )
        own = _by_method(name, methods, options)
        self.members: list[Method] = [
            create_one(
                method,
                self.config,
                num_tasks,
                own[method],
                name=method.replace("+", "_plus"),  # no scope's name may have one
                dtype=self.dtype_policy,
            )
            for method in methods
        ]
        for member in self.members:
            if member.needs_first_pass:
                raise ValueError(
                    f"conditioner {name!r}: {member.method} runs the encoder twice to "
                    "condition it on the input, and the first time the other methods "
                    "would have no part; expected another kind of encoder"
                )

    @property
    def reads_input(self) -> tuple[str, ...]:
        reads = {stack for member in self.members for stack in member.reads_input}
        return tuple(stack for stack in STACKS if stack in reads)

    @property
    def packs(self) -> tuple[str, ...]:
        """What all members pack; one that reads the input asks all by segment."""
        modes = [m for m in MODES if all(m in each.packs for each in self.members)]
        return tuple(modes) if "mixed" in modes or not self.reads_input else ()

    @property
    def what_trains(self) -> str:
        """The key of `options.TRAINS` that holds: the most that a member trains."""
        return min((m.what_trains for m in self.members), key=list(TRAINS).index)

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        self._refuse_conflicts()

    def _refuse_conflicts(self) -> None:
        """Traces what the members do, without computing it, and compares."""

        @tf.function(autograph=False)
        def trace() -> None:
            task_ids = tf.zeros([1], tf.int32)
            encoded = tf.zeros([1, 1, self.config.d_model], self.compute_dtype)
            mask = tf.ones([1, 1], tf.bool)
            encoder = [m.encoder(task_ids) for m in self.members]
            decoder = [m.decoder(task_ids, encoded, mask) for m in self.members]
            for stack, sites in zip(STACKS, (encoder, decoder), strict=True):
                reason = conflict(stack, self.methods, sites)
                if reason is not None:
                    raise ValueError(f"conditioner {self.method!r}: {reason}")

        trace.get_concrete_function()

    def encoder(
        self,
        task_ids: Tensor,
        training: bool = False,
        first_pass: Callable | None = None,
    ) -> StackSites:
        return combine([m.encoder(task_ids, training) for m in self.members])

    def decoder(
        self,
        task_ids: Tensor,
        encoder_output: Tensor,
        encoder_mask: Tensor,
        training: bool = False,
    ) -> StackSites:
        encoded = (encoder_output, encoder_mask)
        return combine([m.decoder(task_ids, *encoded, training) for m in self.members])

    def choose_trainable(self, model: T5) -> None:
        freeze(model, self.what_trains, self.weights, self.method)
        for member in self.members:
            member.on_built(model)

    def initialize_from(self, model: T5) -> None:
        for member in self.members:
            member.initialize_from(model)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "num_tasks": self.num_tasks,
            "methods": self.methods,
            "options": self.given,
        }
