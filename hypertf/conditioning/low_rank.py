"""Low-rank additions to kernels, each example's own: x W + x A B."""

import dataclasses

from keras import ops

from hypertf.t5 import Sites, shared
from hypertf.t5.products import project
from hypertf.types import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class LowRankSites(Sites):
    """The additions to the kernels of one block."""

    down: dict[str, Tensor]  # {kernel: A [batch, in, rank]}
    up: dict[str, Tensor]  # {kernel: B [batch, rank, out]}, scaled
    kernels: frozenset[str] = shared()

    def project(self, name: str, x: Tensor, kernel: Tensor, observed: object) -> Tensor:
        if name not in self.kernels:  # attention asks for q, k and v together
            return project(x, kernel)
        low = ops.matmul(x, self.down[name])
        return project(x, kernel) + ops.matmul(low, self.up[name])

    def folded(self, name: str, kernel: Tensor) -> Tensor:
        return kernel + ops.matmul(self.down[name], self.up[name])[0]
