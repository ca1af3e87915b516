"""Low-rank additions to kernels, each example's own: x W + x A B."""

import dataclasses
from typing import Self

from keras import ops

from hypertf.t5 import Sites, shared
from hypertf.t5.packing import Segments
from hypertf.t5.products import project
from hypertf.t5.sites import OF_MEMORY
from hypertf.types import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class LowRankSites(Sites):
    """The additions to the kernels of one block."""

    down: dict[str, Tensor]  # {kernel: A [batch, in, rank]}
    up: dict[str, Tensor]  # {kernel: B [batch, rank, out]}, scaled
    kernels: frozenset[str] = shared()
    segments: Segments | None = shared(default=None)  # in packed rows

    def project(self, name: str, x: Tensor, kernel: Tensor, observed: object) -> Tensor:
        if name not in self.kernels:  # attention asks for q, k and v together
            return project(x, kernel)
        low = ops.matmul(x, self.down[name])
        if self.segments is not None:
            low = self.segments.only_own(low, memory=name in OF_MEMORY)
        return project(x, kernel) + ops.matmul(low, self.up[name])

    def folded(self, name: str, kernel: Tensor) -> Tensor:
        return kernel + ops.matmul(self.down[name], self.up[name])[0]

    def by_segment(self, segments: Segments) -> Self:
        return LowRankSites(
            down={name: segments.inward(x) for name, x in self.down.items()},
            up={name: segments.outward(x) for name, x in self.up.items()},
            kernels=self.kernels,
            segments=segments,
        )
