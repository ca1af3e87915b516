"""Several runs of one system that differ in the seed only: mean, deviation, a test."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy import stats

ENOUGH = 3  # runs of each system, for a test of their difference
LEVEL = 0.05


@dataclasses.dataclass(frozen=True)
class Summary:
    """Mean and standard deviation (of a sample; None for one run) over runs.

    >>> print(Summary.of([84.0, 86.0]))
    85.00 ± 1.41
    >>> print(Summary.of([84.0]))
    84.00
    """

    mean: float
    deviation: float | None
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary":
        """Summarises a value of each run."""
        if not len(values):
            raise ValueError("values=[]: expected that of a run at least")
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return cls(float(np.mean(values)), deviation, len(values))

    def __str__(self) -> str:
        if self.deviation is None:
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} ± {self.deviation:.2f}"


def p_value(ours: Sequence[float], others: Sequence[float]) -> float | None:
    """Returns the p of Welch's t-test, two-sided; None with fewer than 3 runs of one.

    Runs of two systems are not paired: a seed draws other weights in each.

    >>> round(p_value([84.0, 85.0, 86.0], [80.0, 81.0, 82.0]), 3)
    0.008
    >>> p_value([84.0, 85.0], [80.0, 81.0, 82.0])
    """
    if min(len(ours), len(others)) < ENOUGH:
        return None
    if np.ptp(ours) == np.ptp(others) == 0:  # no deviation: the test is undefined
        return 1.0 if ours[0] == others[0] else 0.0
    return float(stats.ttest_ind(ours, others, equal_var=False).pvalue)


def p_text(ours: Sequence[float], others: Sequence[float]) -> str:
    """Writes the p of two systems, with a star where it is significant.

    >>> p_text([84.0, 85.0, 86.0], [80.0, 81.0, 82.0])
    '0.008 *'
    >>> p_text([84.0], [80.0])
    'too few runs'
    """
    p = p_value(ours, others)
    if p is None:
        return "too few runs"
    return f"{p:.3f} *" if p < LEVEL else f"{p:.3f}"
