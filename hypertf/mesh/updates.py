"""Updates of weights on a mesh: an optimizer's arithmetic, without its own state.

All of it goes element by element, but for Adafactor's means and norms. So slots lie as
their weights do, and each device updates what it holds.
"""

from collections.abc import Mapping

import keras
import tensorflow as tf

from hypertf.keras_internals import decays, micro_steps
from hypertf.mesh.tensors import Named, full_slots, slots
from hypertf.optimizers import Adafactor, AdamW
from hypertf.types import Tensor

Slots = Mapping[str, Tensor]  # by the ends of their names, such as "vr"


class Updates:
    """How one weight and its slots change; of `optimizer`, which keeps no state here.

    Args:
        optimizer: an `Adafactor` or an `AdamW`.
    """

    def __init__(self, optimizer: keras.optimizers.Optimizer) -> None:
        self.optimizer = optimizer

    def slots(self, weight: Named) -> list[Named]:
        """The slots of a weight, by the optimizer that there is."""
        return slots_of(self.optimizer, weight)

    def rate(self, step: Tensor) -> Tensor:
        """The learning rate after so many updates, as the optimizer's schedule says."""
        steps = micro_steps(self.optimizer)
        state = [(steps, tf.cast(step, steps.dtype))]
        with keras.StatelessScope(state_mapping=state):
            return tf.cast(self.optimizer.learning_rate, tf.float32)

    def updated(
        self,
        weight: keras.Variable,
        value: Tensor,
        gradient: Tensor,
        slots: Slots,
        step: Tensor,
        rate: Tensor,
    ) -> tuple[Tensor, Slots]:
        """The next value of a weight, and its next slots, all of them in float32.

        Args:
            weight: the model's own, for its name and what the optimizer says of it.
            step: the number of updates that were made, in float32.
            rate: the learning rate of all weights.
        """
        if decays(self.optimizer, weight):
            value = value - value * self.optimizer.weight_decay * rate
        rate = rate * self.optimizer.rate_factors.of(weight)
        if isinstance(self.optimizer, AdamW):
            change, new = _by_adam(self.optimizer, gradient, slots, step, rate)
        else:
            change, new = self._by_adafactor(weight, value, gradient, slots, step, rate)
        return value - change, new

    def _by_adafactor(self, weight, value, gradient, slots, step, rate):
        """One weight at a time: DTensor goes wrong on stacks of several processes."""
        changes, new = self.optimizer.compute_changes(
            [gradient],
            [value],
            {name: [slot] for name, slot in slots.items()},
            step,
            rate,
            self.optimizer.takes_relative_steps(weight),
        )
        return changes[0], {name: slot for name, (slot,) in new.items()}


def slots_of(optimizer: keras.optimizers.Optimizer, weight: Named) -> list[Named]:
    """The slots that an optimizer has of a weight, laid out like it."""
    if isinstance(optimizer, Adafactor):
        return slots(weight, optimizer.min_dim_size_to_factor)
    return full_slots(weight)


def slot_name(slot: Named) -> str:
    """What a slot is called by its optimizer: "vr" of "encoder/q_slot_vr"."""
    return slot.name.rpartition("_slot_")[2]


def _by_adam(optimizer, gradient, slots, step, rate):
    """Keras's arithmetic, in its order."""
    m = slots["m"] + (gradient - slots["m"]) * (1 - optimizer.beta_1)
    v = slots["v"] + (tf.square(gradient) - slots["v"]) * (1 - optimizer.beta_2)
    kept_1 = tf.pow(optimizer.beta_1, step + 1)
    kept_2 = tf.pow(optimizer.beta_2, step + 1)
    rate = rate * tf.sqrt(1 - kept_2) / (1 - kept_1)
    return m * rate / (tf.sqrt(v) + optimizer.epsilon), {"m": m, "v": v}
