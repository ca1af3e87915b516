"""Gradient accumulation that also works under a tf.distribute strategy."""

from collections.abc import Sequence

import tensorflow as tf

from hypertf.keras_internals import Optimizer, micro_steps, replicas_must_meet
from hypertf.types import Tensor, Variable


class AccumulatingOptimizer(Optimizer):
    """A Keras optimizer whose `gradient_accumulation_steps` works with replicas.

    Keras decides in each replica, inside `tf.cond`, whether to update, and updates
    where replicas meet. MirroredStrategy refuses to let them meet inside a branch.
    Here they meet first, decide together, and continue as replicas in the branch.
    """

    def apply_in_replica(
        self, gradients: Sequence[Tensor], variables: Sequence[Variable]
    ) -> None:
        """Accumulates gradients, or updates the variables by their means."""
        if not self.gradient_accumulation_steps or not replicas_must_meet():
            super().apply_in_replica(gradients, variables)
            return
        if self.use_ema:
            raise ValueError(
                "use_ema=True: not supported together with "
                f"gradient_accumulation_steps={self.gradient_accumulation_steps} "
                f"under {type(tf.distribute.get_strategy()).__name__}"
            )
        accumulators = self.accumulators(variables)

        def accumulate(gradients):
            self.accumulate(gradients, accumulators)

        def update(gradients):
            pairs = zip(gradients, accumulators, strict=True)
            means = [
                (g + total) / self.gradient_accumulation_steps for g, total in pairs
            ]
            self.update_from_accumulated(means, variables)

        def decide(strategy, gradients):
            position = (micro_steps(self) + 1) % self.gradient_accumulation_steps
            tf.cond(
                tf.equal(position, 0),
                lambda: _run(strategy, update, gradients),
                lambda: _run(strategy, accumulate, gradients),
            )

        tf.distribute.get_replica_context().merge_call(decide, args=(gradients,))


def _run(strategy, function, gradients):
    strategy.run(function, args=(gradients,))
