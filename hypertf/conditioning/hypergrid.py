"""HyperGrid (Tay et al., 2021): a grid of gates over the FFN's kernels.

A trained vector per task stands before the sequence. What self-attention makes of it
in a block, T' = MHSA([T; X])[0] (eq. 6), is what the block's hypernetwork reads. The
hypernetwork writes d_r x d_c gates, each for one cell of a kernel:

    W' = (1 + psi(sigmoid(row column^T))) * W         (eq. 3-5, with eq. 7's residual)

where psi repeats a gate over its cell. Row (fan-in) and column (fan-out) are local,
made of T', or global, a trained vector. Nothing is shared between layers.
"""

import dataclasses
from typing import Any, Self

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning import options
from hypertf.conditioning.grids import gated_by_segment, gated_product
from hypertf.conditioning.kernels import kernel_dims, site_names
from hypertf.conditioning.method import Method
from hypertf.conditioning.registry import register
from hypertf.t5 import Sites, StackSites, shared
from hypertf.t5.layer import Layer
from hypertf.t5.packing import MODES, Segments
from hypertf.t5.sites import OF_MEMORY
from hypertf.t5.weights import add_weight, normal
from hypertf.types import Tensor

# Where rows and columns of the grid come from: T' (local) or a vector (global).
SOURCES = {
    "L2": ("local", "local"),
    "LG": ("local", "global"),
    "GL": ("global", "local"),
    "scalar": ("local", "local"),
    "max": ("local", "local"),
}
ONE_SIDED = ("L", "output")
D_R, D_C = 32, 128
PLACEMENTS = {
    "second": ("wo",),
    "first": ("wi",),
    "both": ("wi", "wo"),
    "all": ("q", "k", "v", "wi", "wo"),
}
ATTENTION = ("q", "k", "v")
CROSS_ATTENTION = ("cross_q", "cross_k", "cross_v")


@dataclasses.dataclass(frozen=True)
class Options(options.Options):
    """The choices of the paper.

    `variant`: `"LG"`, `"GL"`, `"L2"`, or `"L"`, which scales whole rows (eq. 2);
    the ablations `"scalar"` (the gates of L2 pooled into one), `"max"` (L2 with a gate
    per entry of the kernel) and `"output"` (eq. 8: gates on the activations that enter
    the kernel).
    `d_r`, `d_c`: rows (fan-in) and columns (fan-out) of the grid, for LG, GL, L2 and
    scalar; None is the paper's 32 x 128.
    `cells`: gates of L and output; None is one per row, the paper's plain form. The
    paper has output gating with 16, 32 and 64.
    `axis`: what L scales, `"rows"` (fan-in) or `"columns"` (fan-out); None is rows.
    `pool`: what scalar averages, `"gates"` or the `"logits"` before the sigmoid; None
    is gates.
    `residual`: adds the ungated product (eq. 7); None is True, and False for output,
    since eq. 8 has none.
    `placement`: which kernels, `"second"` (wo), `"first"` (wi), `"both"`, or `"all"`
    (q, k, v of self-attention too; with `cross_attention` those of attention to the
    encoder's output as well, which makes it all of Table 7's QKV).
    `task_embedding`: one vector per task `"shared"` by encoder and decoder, or one
    `"per-stack"`.
    `local_std`: local weights start normal with this deviation over sqrt(d_model).
    Small, because the stream that they read is not normed and a sigmoid far from 0
    does not learn. The global vectors and the task vectors start normal(1).
    """

    variant: str = "LG"
    d_r: int | None = None
    d_c: int | None = None
    cells: int | None = None
    axis: str | None = None
    pool: str | None = None
    residual: bool | None = None
    placement: str = "second"
    cross_attention: bool = False
    task_embedding: str = "shared"
    local_std: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_one_of("variant", ("L", *SOURCES, "output"))
        self.require_one_of("placement", PLACEMENTS)
        self.require_one_of("task_embedding", ("shared", "per-stack"))
        self.require_number("local_std")
        self.require_flags("residual", "cross_attention")
        if self.placement != "all":
            because = f"placement={self.placement!r}"
            self.require_unset("cross_attention", because=because)
        expected = "'decoder' or 'both' with cross_attention, which is the decoder's"
        fits = self.stacks != "encoder" or not self.cross_attention
        self.require("stacks", fits, expected)
        self._require_only_for("d_r", ("LG", "GL", "L2", "scalar"))
        self._require_only_for("d_c", ("LG", "GL", "L2", "scalar"))
        self._require_only_for("cells", ONE_SIDED)
        self._require_only_for("axis", ("L",), ("rows", "columns"))
        self._require_only_for("pool", ("scalar",), ("gates", "logits"))

    def _require_only_for(
        self, name: str, variants: tuple[str, ...], choices: tuple[str, ...] = ()
    ) -> None:
        """An option that the variant would ignore is an error."""
        if getattr(self, name) is None:
            return
        fits = f"None with variant={self.variant!r} (it is for {', '.join(variants)})"
        self.require(name, self.variant in variants, fits)
        if choices:
            self.require_one_of(name, choices)
        else:
            self.require_positive(name)

    @property
    def sources(self) -> tuple[str | None, str | None]:
        """Where rows and columns come from; None for a side that is not divided."""
        if self.variant in SOURCES:
            return SOURCES[self.variant]
        return (None, "local") if self.axis == "columns" else ("local", None)

    @property
    def pooled(self) -> str | None:
        """What is averaged into one gate, None for nothing."""
        return (self.pool or "gates") if self.variant == "scalar" else None

    @property
    def adds_ungated(self) -> bool:
        """Whether the ungated product is added (eq. 7)."""
        return self.variant != "output" if self.residual is None else self.residual

    def grid(self, fan_in: int, fan_out: int) -> tuple[int, int]:
        """Rows and columns of the gates over a kernel, before any pooling."""
        if self.variant == "max":
            return fan_in, fan_out
        if self.variant in SOURCES:
            return self.d_r or D_R, self.d_c or D_C
        if self.axis == "columns":
            return 1, self.cells or fan_out
        return self.cells or fan_in, 1


class Hypernetwork(Layer):
    """Writes the gates of one kernel. A side without a source has one cell."""

    def __init__(
        self, d_model: int, grid: tuple[int, int], options: Options, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.d_model, self.grid, self.options = d_model, grid, options
        self.rows = self.columns = None

    def add_weights(self) -> None:
        rows, columns = self.options.sources
        self.rows = self._add_side("rows", rows, self.grid[0])
        self.columns = self._add_side("columns", columns, self.grid[1])

    def _add_side(
        self, side: str, source: str | None, cells: int
    ) -> keras.Variable | None:
        if source is None:
            return None
        dims = {f"grid_{side}": cells}
        if source == "global":
            return add_weight(self, f"global_{side}", dims, normal(1.0))
        std = self.options.local_std * self.d_model**-0.5
        dims = {"d_model": self.d_model, **dims}
        return add_weight(self, f"local_{side}", dims, normal(std))

    def call(self, token: Tensor) -> Tensor:
        """T' [batch, d_model] -> what to multiply the cells with, [batch, d_r, d_c].

        In float32, like the token: what is rounded here moves whole cells.
        """
        rows, columns = _side(self.rows, token), _side(self.columns, token)
        gates = ops.expand_dims(rows, 2) * ops.expand_dims(columns, 1)
        if self.options.pooled == "logits":
            gates = _mean(gates)
        gates = ops.sigmoid(gates)
        if self.options.pooled == "gates":
            gates = _mean(gates)
        return 1.0 + gates if self.options.adds_ungated else gates


def _side(weight: keras.Variable | None, token: Tensor) -> Tensor:
    """One factor of the logits: [batch, cells], or [1, cells] if global."""
    if weight is None:
        return ops.ones((1, 1), token.dtype)
    if len(weight.shape) == 1:
        return ops.expand_dims(weight, 0)
    return ops.matmul(token, weight)


def _mean(gates: Tensor) -> Tensor:
    return ops.mean(gates, axis=(1, 2), keepdims=True)


@dataclasses.dataclass(frozen=True)
class GridSites(Sites):
    """One block: reads its task token, then gates its kernels.

    The gates of q, k and v come from the token before self-attention, since those of
    cross-attention and the FFN come from what these three make of it.
    """

    gates: dict[str, Hypernetwork] = shared()  # by kernel
    segments: Segments | None = shared(default=None)  # in packed rows

    @property
    def kernels(self) -> frozenset[str]:
        return frozenset(self.gates)

    def observe(self, x: Tensor, place: str) -> dict[str, Tensor] | None:
        if self.segments is None:
            tokens = x[:, 0, :]
        else:
            tokens = ops.reshape(x[:, : self.segments.count, :], (-1, x.shape[2]))
        tokens = ops.cast(tokens, "float32")
        before = place == "input"
        names = [name for name in self.gates if (name in ATTENTION) == before]
        gates = {name: self.gates[name](tokens) for name in names}
        return gates or None

    def project(
        self, name: str, x: Tensor, kernel: Tensor, observed: dict[str, Tensor]
    ) -> Tensor:
        gates = observed[name]
        if self.segments is None:
            return gated_product(x, kernel, gates)
        memory = name in OF_MEMORY
        return gated_by_segment(x, kernel, gates, self.segments, memory)

    def by_segment(self, segments: Segments) -> Self:
        return GridSites(self.gates, segments)


@keras.saving.register_keras_serializable("hypertf")
class HyperGrid(Method):
    """HyperGrid of `hypertf.conditioning.create("hypergrid", ...)`; see `Options`.

    Added per gated kernel: LG d_model * d_r + d_c; GL d_r + d_model * d_c; L2
    d_model * (d_r + d_c); L and output d_model * cells. (The paper counts the local
    column as d_f * d_c, but T' has d_model entries.) And d_model per task.
    """

    Options = Options
    trains = "all-but-embeddings"
    packs = MODES

    @property
    def reads_input(self) -> tuple[str, ...]:
        return self.options.chosen_stacks  # through the task token

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for stack in self.options.chosen_stacks:
            for name in self._kernel_names(stack):
                self._check_grid(name)
        # One flat list per stack, block by block: Keras saves no nested ones.
        self.encoder_networks = self._networks("encoder")
        self.decoder_networks = self._networks("decoder")

    def _kernel_names(self, stack: str) -> tuple[str, ...]:
        kernels = PLACEMENTS[self.options.placement]
        if self.options.cross_attention:
            kernels = (*ATTENTION, *CROSS_ATTENTION, *kernels[len(ATTENTION) :])
        return site_names(kernels, self.config, stack)

    def _kernel_shape(self, name: str) -> tuple[int, int]:
        (fan_in,), (fan_out,) = (d.values() for d in kernel_dims(name, self.config))
        return fan_in, fan_out

    def _check_grid(self, name: str) -> None:
        shape = self._kernel_shape(name)
        sides = ("rows (fan-in)", "columns (fan-out)")
        options = ("d_r", "d_c") if self.options.variant in SOURCES else ("cells",) * 2
        grid = self.options.grid(*shape)
        for option, cells, size, side in zip(options, grid, shape, sides, strict=True):
            if size % cells:
                raise ValueError(
                    f"{self.method}: {option}={cells} does not divide the {size} "
                    f"{side} of the kernel {name}; expected a divisor of {size}"
                )

    def add_weights(self) -> None:
        dims = {"task_num": self.num_tasks, "d_model": self.config.d_model}
        if self.options.task_embedding == "shared":
            shared = add_weight(self, "task_embedding", dims, normal(1.0))
            self.task_embedding = {"encoder": shared, "decoder": shared}
        else:
            self.task_embedding = {
                stack: add_weight(self, f"{stack}_task_embedding", dims, normal(1.0))
                for stack in self.options.chosen_stacks
            }

    def _networks(self, stack: str) -> list[Hypernetwork]:
        if not self.has(stack):
            return []
        return [
            Hypernetwork(
                self.config.d_model,
                self.options.grid(*self._kernel_shape(kernel)),
                self.options,
                name=f"{stack}_block_{i:03d}_{kernel}",
                dtype=self.dtype_policy,
            )
            for i in range(self.num_layers(stack))
            for kernel in self._kernel_names(stack)
        ]

    def stack_sites(
        self, stack: str, task_ids: Tensor, training: bool = False
    ) -> StackSites:
        table, networks = self.task_embedding[stack], getattr(self, f"{stack}_networks")
        kernels = self._kernel_names(stack)
        blocks = tuple(
            GridSites(dict(zip(kernels, networks[first:], strict=False)))
            for first in range(0, len(networks), len(kernels))
        )
        tokens = tf.gather(ops.convert_to_tensor(table), task_ids)
        tokens = ops.expand_dims(ops.cast(tokens, self.compute_dtype), 1)
        return StackSites(blocks, tokens=tokens)  # [batch, 1, d_model]


register(HyperGrid, "hypergrid")
