"""AdamW whose state has names, so that checkpoints hold it beside each weight."""

import keras

from hypertf.keras_internals import adam_moments, check_known, micro_steps


@keras.saving.register_keras_serializable("hypertf")
class AdamW(keras.optimizers.AdamW):
    """Keras's AdamW, with the slots of `hypertf.Adafactor`: `m` and `v`.

    The default of epsilon is that of PyTorch and Hugging Face.
    """

    def __init__(self, learning_rate=1e-3, weight_decay=0.0, epsilon=1e-8, **kwargs):
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            epsilon=epsilon,
            **kwargs,
        )

    def slots(self, variable):
        """The state of a variable: its momentum `m` and velocity `v`."""
        check_known(self, variable)
        return adam_moments(self, variable)

    def set_step(self, step):
        """Sets the number of updates made, as of a restored checkpoint."""
        micro_steps(self).assign(step * (self.gradient_accumulation_steps or 1))
