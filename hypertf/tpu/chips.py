"""TPU chips: memory, bandwidth and speed of what TensorFlow calls a device."""

import dataclasses
import math
import re

from hypertf.names import unknown

GB = 1e9


@dataclasses.dataclass(frozen=True)
class Chip:
    """A device as a replica sees it: of v3 a core, of later ones the whole chip.

    Attributes:
        memory: bytes of HBM.
        bandwidth: bytes a second from and to it.
        flops: multiplications and additions a second, in bfloat16.
        dimensions: of a topology: 2 for "4x4", 3 for "2x2x1".
    """

    name: str
    memory: float
    bandwidth: float
    flops: float
    dimensions: int = 2

    def roofline(self, flops: float, accessed: float) -> float:
        """Returns the least seconds in which a program can run.

        >>> CHIPS["v5e"].roofline(flops=197e12, accessed=819e9 / 2)
        1.0
        """
        return max(flops / self.flops, accessed / self.bandwidth)


CHIPS = {
    chip.name: chip
    for chip in (
        Chip("v3", 16 * GB, 450 * GB, 61.5e12),
        Chip("v4", 32 * GB, 1228 * GB, 275e12, dimensions=3),
        Chip("v5e", 16 * GB, 819 * GB, 197e12),
        Chip("v5p", 95 * GB, 2765 * GB, 459e12, dimensions=3),
        Chip("v6e", 32 * GB, 1640 * GB, 918e12),
    )
}


def parse_topology(topology: str) -> tuple[Chip, int]:
    """Reads a topology such as "v5e:4x4": the chip, and how many there are.

    >>> chip, count = parse_topology("v4:2x2x1")
    >>> chip.name, count
    ('v4', 4)
    """
    name, colon, shape = topology.partition(":")
    if name not in CHIPS:
        raise ValueError(unknown("TPU", name, CHIPS))
    chip = CHIPS[name]
    example = "x".join(["2"] * chip.dimensions)
    right = rf"\d+(x\d+){{{chip.dimensions - 1}}}"
    if not colon or not re.fullmatch(right, shape) or "0" in shape.split("x"):
        raise ValueError(f"topology={topology!r}, expected such as {name}:{example}")
    return chip, math.prod(map(int, shape.split("x")))
