"""The shape of a mesh of devices, in Mesh TensorFlow's words.

parse_shape("batch:2,model:4")                # by name and size
parse_shape("v3-32", cores_per_replica=8)     # by TPU, as T5's runs name it
parse_shape("4x4", cores_per_replica=8)
"""

import dataclasses
import math
import re
from collections.abc import Iterator

SEPARATORS = r"[\s,.;]+"
EXPECTED = 'expected pairs such as "batch:2,model:4"'


@dataclasses.dataclass(frozen=True)
class MeshShape:
    """Names and sizes of a mesh's dimensions, outermost first.

    >>> shape = parse_shape("batch:2,model:4")
    >>> shape.size, shape["model"], str(shape)
    (8, 4, 'batch:2,model:4')
    """

    dims: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        for name, size in self.dims:
            if not name or size < 1:
                raise ValueError(
                    f'mesh shape "{self}": "{name}:{size}", expected a name and a '
                    "size of at least 1"
                )
        repeated = [name for name in self.names if self.names.count(name) > 1]
        if repeated:
            raise ValueError(
                f'mesh shape "{self}": dimension {repeated[0]!r} is there '
                f"{len(repeated)} times, expected once"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions' names."""
        return tuple(name for name, _ in self.dims)

    @property
    def size(self) -> int:
        """How many devices the mesh has."""
        return math.prod(size for _, size in self.dims)

    def __getitem__(self, name: str) -> int:
        return dict(self.dims)[name]

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self.dims)

    def __str__(self) -> str:
        return ",".join(f"{name}:{size}" for name, size in self.dims)


def parse_pairs(text: str, kind: str, expected: str) -> list[tuple[str, str]]:
    """Reads "a:b" pairs; between them come spaces, commas, dots or semicolons."""
    pairs = []
    for word in filter(None, re.split(SEPARATORS, text)):
        pair = tuple(word.split(":"))
        if len(pair) != 2 or not all(pair):
            raise ValueError(f'{kind} "{text}": "{word}", {expected}')
        pairs.append(pair)
    return pairs


def parse_shape(
    text: str, cores_per_replica: int = 1, cores_per_chip: int = 2
) -> MeshShape:
    """Reads the shape of a mesh: pairs of name and size, or a TPU's name.

    >>> str(parse_shape("batch:2;model:4"))
    'batch:2,model:4'
    >>> str(parse_shape("4x4", cores_per_replica=8))  # 16 chips of 2 cores
    'batch:4,model:8'

    Args:
        text: pairs, or `v3-8` (a TPU with its number of cores), or `4x4` (its chips).
        cores_per_replica: over how many devices the model is split, where a TPU is
            named; T5 calls it model parallelism.
        cores_per_chip: of a TPU that is given by its chips; 1 from v4 on.
    """
    cores = _cores(text.strip(), cores_per_chip)
    if cores is not None:
        return _of_cores(text, cores, cores_per_replica)
    dims = []
    for name, size in parse_pairs(text, "mesh shape", EXPECTED):
        try:
            dims.append((name, int(size)))
        except ValueError:
            raise ValueError(
                f'mesh shape "{text}": "{name}:{size}", {EXPECTED}'
            ) from None
    return MeshShape(tuple(dims))


def _cores(text, cores_per_chip):
    """The number of cores of a TPU by its name or chips, None for other words."""
    if re.fullmatch(r"v\w+-\d+", text):
        return int(text.split("-")[1])
    chips = re.split("_twisted|_untwisted", text)[0]
    if re.fullmatch(r"\d+(x\d+)+", chips):
        return math.prod(map(int, chips.split("x"))) * cores_per_chip
    return None


def _of_cores(text, cores, per_replica):
    if per_replica < 1 or cores % per_replica:
        raise ValueError(
            f"mesh shape {text!r}: cores_per_replica={per_replica} does not divide "
            f"its {cores} cores; {_nearest_divisors(cores, per_replica)} would"
        )
    dims = (("batch", cores // per_replica), ("model", per_replica))
    return MeshShape(tuple((name, size) for name, size in dims if size > 1))


def _nearest_divisors(whole, part):
    return " or ".join(map(str, nearest_divisors(whole, part)))


def nearest_divisors(whole: int, part: int) -> list[int]:
    """The largest divisor up to `part` and the smallest from it on.

    >>> nearest_divisors(12, 8)
    [6, 12]
    """
    divisors = [n for n in range(1, whole + 1) if whole % n == 0]
    below = [n for n in divisors if n <= part][-1:]
    above = [n for n in divisors if n >= part][:1]
    return sorted({*below, *above})
