"""How often each task of a mixture is drawn."""

import dataclasses
from collections.abc import Mapping

KINDS = ("proportional", "equal")


@dataclasses.dataclass(frozen=True)
class Rates:
    """Proportional to the examples of a task, or the same for all.

    In SeqIO's order: examples times `scale`, at most `cap`, to the power of
    1 / `temperature`. Temperature 1 is proportional, a large one nearly equal.

    >>> Rates(cap=1000, temperature=2).of(4000)
    31.622776601683793
    """

    kind: str = "proportional"
    scale: float = 1.0
    cap: float | None = None
    temperature: float = 1.0

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"rates={self.kind!r}, expected one of {', '.join(KINDS)}")
        for name in ("scale", "temperature"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ValueError(f"{name}={value}, expected a number > 0")
        if self.cap is not None and not self.cap >= 1:
            raise ValueError(f"cap={self.cap}, expected a number >= 1, or None")
        changed = (self.scale, self.cap, self.temperature) != (1.0, None, 1.0)
        if self.kind == "equal" and changed:
            raise ValueError(
                f"scale={self.scale}, cap={self.cap}, temperature={self.temperature} "
                "change nothing with rates='equal'; use rates='proportional'"
            )

    def of(self, num_examples: int) -> float:
        """Returns the rate of a task of that many examples."""
        if self.kind == "equal":
            return 1.0 if num_examples else 0.0
        rate = num_examples * self.scale
        if self.cap is not None:
            rate = min(rate, self.cap)
        return float(rate ** (1 / self.temperature))


def nested(
    rates: Mapping[str, float], mixtures: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Returns rates of tasks from {name: rate} where some names are mixtures.

    A mixture's rate is shared out among its tasks, and added to what they have.

    >>> nested({"pair": 2.0, "a": 0.25}, {"pair": {"a": 1.0, "b": 3.0}})
    {'a': 0.75, 'b': 1.5}
    """
    flat = {}
    for name, rate in rates.items():
        inner = mixtures.get(name, {name: 1.0})
        total = sum(inner.values())
        for task, share in inner.items():
            flat[task] = flat.get(task, 0.0) + rate * share / total
    return flat
