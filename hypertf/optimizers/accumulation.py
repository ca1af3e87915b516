"""Gradient accumulation that also works under a tf.distribute strategy."""

import keras
import tensorflow as tf


class AccumulatingOptimizer(keras.optimizers.Optimizer):
    """A Keras optimizer whose `gradient_accumulation_steps` works with replicas.

    Keras decides in each replica, inside `tf.cond`, whether to update, and updates
    where replicas meet. MirroredStrategy refuses to let them meet inside a branch.
    Here they meet first, decide together, and continue as replicas in the branch.
    """

    def _backend_apply_gradients(self, grads, trainable_variables):
        if not self.gradient_accumulation_steps or not _replicas_must_meet():
            super()._backend_apply_gradients(grads, trainable_variables)
            return
        if self.use_ema:
            raise ValueError(
                "use_ema=True: not supported together with "
                f"gradient_accumulation_steps={self.gradient_accumulation_steps} "
                f"under {type(tf.distribute.get_strategy()).__name__}"
            )
        accumulators = [
            self._accumulated_gradients[self._get_variable_index(variable)]
            for variable in trainable_variables
        ]

        def accumulate(grads):
            self._backend_increment_gradient_accumulators(grads, accumulators)

        def update(grads):
            pairs = zip(grads, accumulators, strict=True)
            grads = [
                (g + total) / self.gradient_accumulation_steps for g, total in pairs
            ]
            grads = self._clip_gradients(grads)
            self._apply_weight_decay(trainable_variables)
            self._backend_update_step(grads, trainable_variables, self.learning_rate)
            self._backend_reset_gradient_accumulators()

        def decide(strategy, grads):
            position = (self._iterations + 1) % self.gradient_accumulation_steps
            tf.cond(
                tf.equal(position, 0),
                lambda: _run(strategy, update, grads),
                lambda: _run(strategy, accumulate, grads),
            )

        tf.distribute.get_replica_context().merge_call(decide, args=(grads,))


def _replicas_must_meet():
    return (
        tf.distribute.has_strategy()
        and not tf.__internal__.distribute.strategy_supports_no_merge_call()
    )


def _run(strategy, function, grads):
    strategy.run(function, args=(grads,))
