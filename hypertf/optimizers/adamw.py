"""AdamW whose state has names, so that checkpoints hold it beside each weight."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from hypertf.keras_internals import (
    adam_moments,
    check_known,
    micro_steps,
    trained_variables,
    variable_index,
)
from hypertf.optimizers.rate_factors import RateFactors
from hypertf.types import Array, Tensor, Variable


@keras.saving.register_keras_serializable("hypertf")
class AdamW(keras.optimizers.AdamW):
    """Keras's AdamW, with the slots of `hypertf.Adafactor`: `m` and `v`.

    The default of epsilon is that of PyTorch and Hugging Face. `rate_factors` is
    `{regular expression: factor}` on the rate of variables with a match in their path.
    """

    def __init__(
        self,
        learning_rate: float | Callable = 1e-3,
        weight_decay: float = 0.0,
        epsilon: float = 1e-8,
        rate_factors: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            epsilon=epsilon,
            **kwargs,
        )
        self.rate_factors = RateFactors(rate_factors, weight_decay)

    def get_config(self) -> dict[str, Any]:
        factors = dict(self.rate_factors.factors)
        return {**super().get_config(), "rate_factors": factors}

    def build(self, variables: Sequence[Variable]) -> None:
        """Creates the slots of every variable; `apply` does it if nobody has."""
        if not self.built:
            self.rate_factors.check(variables)
        super().build(variables)

    def update_step(
        self, gradient: Tensor, variable: Variable, learning_rate: Array
    ) -> None:
        """Updates one variable and its slots, by the rate of its group."""
        own = trained_variables(self)[variable_index(self, variable)]
        factor = self.rate_factors.of(own)
        if factor != 1.0:
            learning_rate = learning_rate * factor
        super().update_step(gradient, variable, learning_rate)

    def slots(self, variable: Variable) -> dict[str, Variable]:
        """Returns a variable's state: its momentum `m` and velocity `v`."""
        check_known(self, variable)
        return adam_moments(self, variable)

    def set_step(self, step: int) -> None:
        """Sets the number of updates made, as of a restored checkpoint."""
        micro_steps(self).assign(step * (self.gradient_accumulation_steps or 1))
