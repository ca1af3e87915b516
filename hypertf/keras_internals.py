"""All that this project uses of Keras beyond its public interface.

Nothing else may reach for a name of Keras that begins with an underscore or lies in
`keras.src`. Here each use has a public name and says what it relies on;
`tests/keras_internals_test.py` tries every one, so that a release of Keras that
renames something fails there first. Two names are TensorFlow's own:
`tf.__internal__`, in `replicas_must_meet`, and `tf.Graph._get_function`, in
`called_graph`.
"""

import re
from collections.abc import Sequence

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.backend.common import stateless_scope as scopes

from hypertf.types import Array, Tensor, Variable


def children(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Lists the direct sub-layers of a layer, in the order in which they were set.

    Layers in a list or a dictionary that is an attribute are among them. Relies on
    `Layer._layers`; only models show theirs in public.
    """
    return list(layer._layers)


def called_graph(graph: tf.Graph, name: str) -> tf.Graph:
    """Gives the graph of a function that operations of a graph call by its name.

    Relies on `tf.Graph._get_function`; a `GraphDef`, which is public, has no shapes.
    """
    return graph._get_function(name).graph


def in_stateless_scope() -> bool:
    """Tells whether variables are now made without values, or are read from a scope.

    Relies on the function of this name in Keras's module of `keras.StatelessScope`.
    """
    return scopes.in_stateless_scope()


def pending_variables() -> list[keras.Variable]:
    """Gives Keras's own list of variables that wait for the end of a scope.

    Whoever changes the list changes what Keras allocates then. Relies on Keras's
    global attribute "uninitialized_variables".
    """
    return global_state.get_global_attribute(
        "uninitialized_variables", [], set_to_default=True
    )


def replicas_must_meet() -> bool:
    """Tells whether the current strategy updates variables where all replicas meet.

    Relies on `strategy_supports_no_merge_call` of `tf.__internal__.distribute`, by
    which Keras's optimizers decide the same.
    """
    return (
        tf.distribute.has_strategy()
        and not tf.__internal__.distribute.strategy_supports_no_merge_call()
    )


def has_value(variable: keras.Variable) -> bool:
    """Tells whether a variable has a value, or only an initializer as yet.

    Reading one that has none draws its initial value anew, the same every time. Relies
    on `Variable._value`, None until then.
    """
    return variable._value is not None


def decays(optimizer: keras.optimizers.Optimizer, variable: keras.Variable) -> bool:
    """Tells whether `weight_decay` applies to a variable.

    One that has no value is in no list of variables that are left out, but may have the
    name of one. Relies on `Optimizer._use_weight_decay`, which asks the value who it
    is, and on the pattern of names that it reads.
    """
    if optimizer.weight_decay is None:
        return False
    if has_value(variable):
        return optimizer._use_weight_decay(variable)
    names = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    return names is None or re.search(names, variable.name) is None


def trained_variables(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Lists the variables that an optimizer was built for; none before that.

    Relies on `Optimizer._trainable_variables`.
    """
    return list(optimizer._trainable_variables)


def variable_index(optimizer: keras.optimizers.Optimizer, variable: Variable) -> int:
    """Gives the place of a variable among those that the optimizer was built for.

    The variable may be Keras's, TensorFlow's, or one replica's part of it. Relies on
    `Optimizer._get_variable_index`.
    """
    return optimizer._get_variable_index(variable)


def check_known(optimizer: keras.optimizers.Optimizer, variable: Variable) -> None:
    """Raises ValueError unless the optimizer was built for the variable.

    Relies on `Optimizer._check_variables_are_known`.
    """
    optimizer._check_variables_are_known([variable])


def micro_steps(optimizer: keras.optimizers.Optimizer) -> keras.Variable:
    """Gives the count of all calls of `apply`, which `iterations` is computed from.

    With gradient accumulation there are several of them to an update. Relies on
    `Optimizer._iterations`.
    """
    return optimizer._iterations


def strategy_of(optimizer: keras.optimizers.Optimizer) -> tf.distribute.Strategy:
    """Gives the strategy under which an optimizer was made.

    Relies on `Optimizer._distribution_strategy` of the TensorFlow backend.
    """
    return optimizer._distribution_strategy


def adam_moments(
    optimizer: keras.optimizers.Adam, variable: Variable
) -> dict[str, Variable]:
    """Gives the state of a variable in Adam, `{"m": momentum, "v": velocity}`.

    Relies on `Adam._momentums` and `Adam._velocities`.
    """
    index = variable_index(optimizer, variable)
    return {"m": optimizer._momentums[index], "v": optimizer._velocities[index]}


class Optimizer(keras.optimizers.Optimizer):
    """A Keras optimizer that gives its inner steps public names.

    A subclass may override `apply_in_replica` and `update_all`; the others are to
    be called. Relies on `apply` calling `_backend_apply_gradients`, and on that
    calling `_backend_update_step`, which calls `_distributed_tf_update_step` where
    replicas have met.
    """

    def apply_in_replica(
        self, gradients: Sequence[Tensor], variables: Sequence[Variable]
    ) -> None:
        """Accumulates gradients, or clips them and updates the variables."""
        super()._backend_apply_gradients(gradients, variables)

    def update_all(
        self,
        strategy: tf.distribute.Strategy,
        pairs: Sequence[tuple],
        learning_rate: Array,
    ) -> None:
        """Updates each variable of pairs (gradient summed over replicas, variable)."""
        super()._distributed_tf_update_step(strategy, pairs, learning_rate)

    def accumulators(self, variables: Sequence[Variable]) -> list[keras.Variable]:
        """Lists the sums of gradients of these variables.

        Relies on `Optimizer._accumulated_gradients`.
        """
        return [
            self._accumulated_gradients[variable_index(self, variable)]
            for variable in variables
        ]

    def accumulate(
        self, gradients: Sequence[Tensor], accumulators: Sequence[Variable]
    ) -> None:
        """Adds gradients to the accumulators.

        Relies on `Optimizer._backend_increment_gradient_accumulators`.
        """
        self._backend_increment_gradient_accumulators(gradients, accumulators)

    def update_from_accumulated(
        self, gradients: Sequence[Tensor], variables: Sequence[Variable]
    ) -> None:
        """Updates variables by means of accumulated gradients, and clears the sums.

        Does what Keras does at the last of several micro-steps. Relies on
        `_clip_gradients`, `_apply_weight_decay`, `_backend_update_step` and
        `_backend_reset_gradient_accumulators` of `Optimizer`.
        """
        gradients = self._clip_gradients(gradients)
        self._apply_weight_decay(variables)
        self._backend_update_step(gradients, variables, self.learning_rate)
        self._backend_reset_gradient_accumulators()

    def _backend_apply_gradients(self, grads, trainable_variables):
        self.apply_in_replica(grads, trainable_variables)

    def _distributed_tf_update_step(self, distribution, grads_and_vars, learning_rate):
        self.update_all(distribution, grads_and_vars, learning_rate)
