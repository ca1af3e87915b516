"""Adafactor (Shazeer and Stern, 2018) as Mesh TensorFlow computes it.

It differs from `keras.optimizers.Adafactor`: a matrix costs one row and one column
of state and no full-size velocity, the two largest dimensions are factored instead
of the last two, small variables are not factored, and the rate is not capped.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from hypertf.keras_internals import (
    check_known,
    micro_steps,
    strategy_of,
    trained_variables,
    variable_index,
)
from hypertf.optimizers.accumulation import AccumulatingOptimizer
from hypertf.optimizers.adafactor_update import (
    Changes,
    factored_changes,
    full_changes,
    groups_of,
    slot_shapes,
)
from hypertf.optimizers.rate_factors import RateFactors, path_of
from hypertf.optimizers.reductions import rms
from hypertf.types import Array, Tensor, Variable


@keras.saving.register_keras_serializable("hypertf")
class Adafactor(AccumulatingOptimizer):
    """Adafactor with Mesh TensorFlow's arithmetic, slots and defaults.

    Update t (counted from 0) of a variable x with gradient g:

        beta2 = 1 - (t + 1) ** -decay_exponent
        vr = beta2 * vr + (1 - beta2) * mean(g ** 2 + epsilon1, largest dimension)
        vc = beta2 * vc + (1 - beta2) * mean(g ** 2 + epsilon1, second largest)
        u = g / sqrt(vr * vc / mean(vr))
        u = u / max(1, RMS(u) / clipping_threshold)
        x = x - learning_rate * max(epsilon2, RMS(x)) * u

    A variable without two dimensions of `min_dim_size_to_factor` keeps the average
    of g ** 2 + epsilon1 itself: u = g / sqrt(v). Everything is computed and kept in
    float32, whatever the variable's type. Sparse gradients give the same result as
    dense ones.

    Example:

    >>> import keras
    >>> from hypertf.optimizers import Adafactor
    >>> kernel = keras.Variable(keras.ops.ones((256, 128)), name="kernel")
    >>> optimizer = Adafactor(learning_rate=1e-3)
    >>> optimizer.apply([keras.ops.ones((256, 128))], [kernel])
    >>> round(float(kernel[0, 0]), 4)
    0.999
    >>> {name: tuple(slot.shape) for name, slot in optimizer.slots(kernel).items()}
    {'vr': (128,), 'vc': (256,)}

    Args:
        learning_rate: A float, a schedule, or a callable that returns a float.
        decay_exponent: How fast beta2 approaches 1.
        clipping_threshold: Largest RMS of an update, or None not to clip.
        epsilon1: Added to the squared gradient.
        epsilon2: Smallest parameter scale; lets zero-initialized variables move.
        min_dim_size_to_factor: Smallest dimension worth factoring.
        multiply_by_parameter_scale: Whether steps are relative to RMS(x).
        exclude_from_parameter_scale: Regular expressions; a variable with a match
            in its path takes absolute steps.
        beta1: Momentum of the steps; 0 keeps no slot for it.
        rate_factors: `{regular expression: factor}` on the learning rate of variables
            with a match in their path.
        **kwargs: Those of every Keras optimizer: `weight_decay`, `clipnorm`,
            `gradient_accumulation_steps`, `use_ema`, `name`, ... With accumulation
            t counts updates; schedules see micro-steps, as always in Keras.
    """

    def __init__(
        self,
        learning_rate: float | Callable = 1e-3,
        decay_exponent: float = 0.8,
        clipping_threshold: float | None = 1.0,
        epsilon1: float = 1e-30,
        epsilon2: float = 1e-3,
        min_dim_size_to_factor: int = 128,
        multiply_by_parameter_scale: bool = True,
        exclude_from_parameter_scale: Sequence[str] = (),
        beta1: float = 0.0,
        rate_factors: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        _check("learning_rate", learning_rate)
        self.decay_exponent = decay_exponent
        self.clipping_threshold = clipping_threshold
        self.epsilon1 = epsilon1
        self.epsilon2 = epsilon2
        self.min_dim_size_to_factor = min_dim_size_to_factor
        self.multiply_by_parameter_scale = multiply_by_parameter_scale
        self.exclude_from_parameter_scale = exclude_from_parameter_scale
        self.beta1 = beta1
        self.rate_factors = RateFactors(rate_factors, self.weight_decay)
        for option in ("weight_decay", *_OWN_OPTIONS):
            _check(option, getattr(self, option))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.update({option: getattr(self, option) for option in _OWN_OPTIONS})
        config["exclude_from_parameter_scale"] = list(self.exclude_from_parameter_scale)
        config["rate_factors"] = dict(self.rate_factors.factors)
        return config

    def build(self, variables: Sequence[Variable]) -> None:
        """Creates the slots of every variable; `apply` does it if nobody has."""
        if self.built:
            return
        self.rate_factors.check(variables)
        super().build(variables)
        self._slots = [self._create_slots(variable) for variable in variables]
        self._is_relative = [self.takes_relative_steps(v) for v in variables]
        self._factors = [self.rate_factors.of(v) for v in variables]

    def slots(self, variable: Variable) -> dict[str, Variable]:
        """Returns a variable's state: `vr` and `vc`, or `v`; `m` with momentum."""
        if not self.built:
            raise ValueError("Adafactor has no slots before build(variables)")
        check_known(self, variable)
        return dict(self._slots[variable_index(self, variable)])

    def set_step(self, step: int) -> None:
        """Sets t, for example to the step of an imported checkpoint.

        Unlike `iterations.assign` this also holds with gradient accumulation, where
        `iterations` is computed from a count of micro-steps.
        """
        micro_steps(self).assign(step * (self.gradient_accumulation_steps or 1))

    def apply(
        self,
        grads: Sequence[Tensor],
        trainable_variables: Sequence[Variable] | None = None,
    ) -> None:
        """Updates the variables, after making sparse gradients dense."""
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        variables = trainable_variables or trained_variables(self)
        if len(grads) == len(variables):
            pairs = zip(grads, variables, strict=True)
            grads = [_dense(gradient, variable) for gradient, variable in pairs]
        super().apply(grads, trainable_variables)

    def update_all(
        self,
        strategy: tf.distribute.Strategy,
        pairs: Sequence[tuple],
        learning_rate: Array,
    ) -> None:
        """Updates the variables of the pairs, those of one shape together."""
        groups = groups_of(
            pairs,
            lambda pair: tuple(pair[1].shape),
            lambda pair: (
                self._is_relative_step(pair[1]),
                self._factors[variable_index(self, pair[1])],
                pair[1].device,
            ),
            self.min_dim_size_to_factor,
        )
        for group in groups:
            gradients, variables = zip(*group, strict=True)
            strategy.extended.update(
                variables[0],
                lambda first, *args: self._update_group(*args),
                args=(gradients, variables, learning_rate),
                group=False,
            )

    def update_step(
        self, gradient: Tensor, variable: Variable, learning_rate: Array
    ) -> None:
        """Updates one variable and its slots."""
        self._update_group([gradient], [variable], learning_rate)

    def _update_group(self, gradients, variables, learning_rate):
        """Updates variables of one shape and one rate, and their slots."""
        slots = [self._slots[variable_index(self, v)] for v in variables]
        values = [tf.cast(variable, "float32") for variable in variables]
        changes, new_slots = self.compute_changes(
            [tf.cast(gradient, "float32") for gradient in gradients],
            values,
            {n: [tf.convert_to_tensor(s[n]) for s in slots] for n in slots[0]},
            tf.cast(self.iterations, "float32"),
            tf.cast(learning_rate, "float32")
            * self._factors[variable_index(self, variables[0])],
            self._is_relative_step(variables[0]),
        )
        for name, new in new_slots.items():
            for old, value in zip(slots, new, strict=True):
                self.assign(old[name], value)
        for variable, value, change in zip(variables, values, changes, strict=True):
            if tf.as_dtype(variable.dtype).size < 4:
                # Half precision: round the result once, not the change and the result.
                self.assign(variable, value - change)
            else:
                self.assign_sub(variable, change)

    def compute_changes(
        self,
        gradients: list[Tensor],
        values: list[Tensor],
        slots: dict[str, list[Tensor]],
        step: Tensor,
        learning_rate: Tensor,
        is_relative: bool = True,
    ) -> Changes:
        """Computes what to subtract from n values of one shape, and their next slots.

        Gradients, values and each of the slots are lists of n tensors in float32.
        Reads and writes no variable: for those who keep the state themselves.
        """
        decay = 1.0 - tf.pow(step + 1.0, -self.decay_exponent)
        learning_rates = tf.fill([len(values)], learning_rate)
        if is_relative:
            learning_rates *= tf.maximum(rms(values), self.epsilon2)
        compute = full_changes if "v" in slots else factored_changes
        changes, new_slots = compute(gradients, slots, decay, learning_rates, self)
        if "m" in slots:
            new_slots["m"] = changes = [
                self.beta1 * m + (1 - self.beta1) * change
                for m, change in zip(slots["m"], changes, strict=True)
            ]
        return changes, new_slots

    def _is_relative_step(self, variable):
        return self._is_relative[variable_index(self, variable)]

    def takes_relative_steps(self, variable: Variable) -> bool:
        """Tells whether the steps of a variable are relative to its size."""
        return self.multiply_by_parameter_scale and not any(
            re.search(pattern, path_of(variable))
            for pattern in self.exclude_from_parameter_scale
        )

    def _create_slots(self, variable):
        if getattr(variable, "overwrite_with_gradient", False):
            return {}
        shapes = slot_shapes(tuple(variable.shape), self.min_dim_size_to_factor)
        if self.beta1:
            shapes["m"] = tuple(variable.shape)
        # Mesh's slot names, with the path in one piece as Keras has it.
        prefix = re.sub("[/:]", "_", path_of(variable))
        if isinstance(variable, keras.Variable):
            variable = variable.value
        with strategy_of(self).extended.colocate_vars_with(variable):
            return {
                slot: self.add_variable(
                    shape, dtype="float32", name=f"{prefix}_slot_{slot}"
                )
                for slot, shape in shapes.items()
            }


def _dense(gradient, variable):
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(
        gradient.values, gradient.indices, variable.shape[0]
    )


def _are_patterns(patterns):
    return not isinstance(patterns, str) and all(re.compile(p) for p in patterns)


def _is_size(x):
    return x >= 1 and x == int(x)


_EXPECTED = {
    "learning_rate": ("at least 0", lambda x: callable(x) or x >= 0),
    "weight_decay": ("None or at least 0", lambda x: x is None or x >= 0),
    "decay_exponent": ("above 0 and at most 1", lambda x: 0 < x <= 1),
    "clipping_threshold": ("None or above 0", lambda x: x is None or x > 0),
    "epsilon1": ("above 0", lambda x: x > 0),
    "epsilon2": ("at least 0", lambda x: x >= 0),
    "min_dim_size_to_factor": ("an integer of at least 1", _is_size),
    "multiply_by_parameter_scale": ("True or False", lambda x: x in (True, False)),
    "exclude_from_parameter_scale": ("a list of regular expressions", _are_patterns),
    "beta1": ("at least 0 and below 1", lambda x: 0 <= x < 1),
}
_OWN_OPTIONS = [o for o in _EXPECTED if o not in ("learning_rate", "weight_decay")]


def _check(option, value):
    expected, accepts = _EXPECTED[option]
    try:
        accepted = accepts(value)
    except (TypeError, re.error):
        accepted = False
    if not accepted:
        raise ValueError(f"Adafactor {option}={value!r}: expected {expected}")
