"""Learning rates that depend on the step."""

from typing import Any

import keras
from keras import ops

from hypertf.types import Array, Tensor


@keras.saving.register_keras_serializable("hypertf")
class LinearSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises to `rate` in `warmup_steps`, stays, falls to `final` in a straight line.

    >>> schedule = LinearSchedule(1.0, warmup_steps=2, decay_start=4, steps=8)
    >>> [round(float(schedule(step)), 2) for step in range(9)]
    [0.0, 0.5, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]

    Args:
        rate: the highest rate.
        warmup_steps: steps in which it rises from 0.
        decay_start: the step at which it begins to fall; None for never.
        steps: the step at which it has fallen to `final`.
    """

    def __init__(
        self,
        rate: float,
        warmup_steps: int = 0,
        decay_start: int | None = None,
        steps: int | None = None,
        final: float = 0.0,
    ) -> None:
        super().__init__()
        if decay_start is not None and (steps is None or steps <= decay_start):
            raise ValueError(f"steps={steps}, expected more than {decay_start=}")
        self.rate, self.warmup_steps = rate, warmup_steps
        self.decay_start, self.steps, self.final = decay_start, steps, final

    def __call__(self, step: Array) -> Tensor:
        """Computes the rate of a step, counted from 0."""
        step = ops.cast(step, "float32")
        rate = ops.ones_like(step) * self.rate
        if self.warmup_steps:
            rate = rate * ops.minimum(step / self.warmup_steps, 1.0)
        if self.decay_start is not None:
            length = self.steps - self.decay_start
            gone = ops.clip((step - self.decay_start) / length, 0.0, 1.0)
            rate = rate + gone * (self.final - rate)
        return rate

    def get_config(self) -> dict[str, Any]:
        return {
            "rate": self.rate,
            "warmup_steps": self.warmup_steps,
            "decay_start": self.decay_start,
            "steps": self.steps,
            "final": self.final,
        }
