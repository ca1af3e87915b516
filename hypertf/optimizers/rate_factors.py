"""Learning rates of their own for groups of weights, as factors on the common rate."""

import re
from collections.abc import Mapping, Sequence

from hypertf.types import Variable


class RateFactors:
    """`{regular expression: factor}`; a weight has that of the first match in its path.

    Args:
        factors: the dictionary, None for an empty one.
        weight_decay: of the optimizer: decay goes by the common rate, so it is refused.
    """

    def __init__(
        self,
        factors: Mapping[str, float] | None = None,
        weight_decay: float | None = None,
    ) -> None:
        self.factors = dict(factors or {})
        for pattern, factor in self.factors.items():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(
                    f"rate_factors: {pattern!r}, expected a regular expression "
                    f"({error})"
                ) from error
            if not factor >= 0:
                raise ValueError(
                    f"rate_factors: {pattern!r} has {factor!r}, expected a number >= 0"
                )
        if self.factors and weight_decay:
            raise ValueError(
                f"rate_factors={self.factors} with weight_decay={weight_decay}: "
                "expected no decay, which goes by the common rate"
            )

    def of(self, variable: Variable) -> float:
        """Returns the factor of a weight, 1 where nothing matches."""
        path = path_of(variable)
        matches = (f for pattern, f in self.factors.items() if re.search(pattern, path))
        return next(matches, 1.0)

    def check(self, variables: Sequence[Variable]) -> None:
        """Raises ValueError unless every expression matches one of the weights."""
        paths = [path_of(variable) for variable in variables]
        for pattern in self.factors:
            if not any(re.search(pattern, path) for path in paths):
                raise ValueError(
                    f"rate_factors: {pattern!r} matches none of {len(paths)} trained "
                    f"weights, such as {', '.join(paths[:3])}"
                )


def path_of(variable: Variable) -> str:
    """Returns the path of a Keras variable, the name of TensorFlow's."""
    return getattr(variable, "path", variable.name)
