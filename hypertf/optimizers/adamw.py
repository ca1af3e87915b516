"""AdamW whose state has names, so that checkpoints hold it beside each weight."""

from collections.abc import Callable
from typing import Any

import keras

from hypertf.keras_internals import adam_moments, check_known, micro_steps
from hypertf.types import Variable


@keras.saving.register_keras_serializable("hypertf")
class AdamW(keras.optimizers.AdamW):
    """Keras's AdamW, with the slots of `hypertf.Adafactor`: `m` and `v`.

    The default of epsilon is that of PyTorch and Hugging Face.
    """

    def __init__(
        self,
        learning_rate: float | Callable = 1e-3,
        weight_decay: float = 0.0,
        epsilon: float = 1e-8,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            epsilon=epsilon,
            **kwargs,
        )

    def slots(self, variable: Variable) -> dict[str, Variable]:
        """Returns a variable's state: its momentum `m` and velocity `v`."""
        check_known(self, variable)
        return adam_moments(self, variable)

    def set_step(self, step: int) -> None:
        """Sets the number of updates made, as of a restored checkpoint."""
        micro_steps(self).assign(step * (self.gradient_accumulation_steps or 1))
