"""Adafactor (Shazeer and Stern, 2018) as Mesh TensorFlow computes it.

It differs from `keras.optimizers.Adafactor`: a matrix costs one row and one column
of state and no full-size velocity, the two largest dimensions are factored instead
of the last two, small variables are not factored, and the rate is not capped.
"""

import re

import keras
import tensorflow as tf

from hypertf.optimizers.accumulation import AccumulatingOptimizer
from hypertf.optimizers.reductions import mean, rms, weighted_mean


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
        **kwargs: Those of every Keras optimizer: `weight_decay`, `clipnorm`,
            `gradient_accumulation_steps`, `use_ema`, `name`, ... With accumulation
            t counts updates; schedules see micro-steps, as always in Keras.
    """

    def __init__(
        self,
        learning_rate=1e-3,
        decay_exponent=0.8,
        clipping_threshold=1.0,
        epsilon1=1e-30,
        epsilon2=1e-3,
        min_dim_size_to_factor=128,
        multiply_by_parameter_scale=True,
        exclude_from_parameter_scale=(),
        beta1=0.0,
        **kwargs,
    ):
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
        for option in ("weight_decay", *_OWN_OPTIONS):
            _check(option, getattr(self, option))

    def get_config(self):
        config = super().get_config()
        config.update({option: getattr(self, option) for option in _OWN_OPTIONS})
        config["exclude_from_parameter_scale"] = list(self.exclude_from_parameter_scale)
        return config

    def build(self, variables):
        """Creates the slots of every variable; `apply` does it if nobody has."""
        if self.built:
            return
        super().build(variables)
        self._slots = [self._create_slots(variable) for variable in variables]
        self._is_relative = [self._takes_relative_steps(v) for v in variables]

    def slots(self, variable):
        """The state of a variable: `vr` and `vc`, or `v`; `m` if there is momentum."""
        if not self.built:
            raise ValueError("Adafactor has no slots before build(variables)")
        self._check_variables_are_known([variable])
        return dict(self._slots[self._get_variable_index(variable)])

    def set_step(self, step):
        """Sets t, for example to the step of an imported checkpoint.

        Unlike `iterations.assign` this also holds with gradient accumulation, where
        `iterations` is computed from a count of micro-steps.
        """
        self._iterations.assign(step * (self.gradient_accumulation_steps or 1))

    def apply(self, grads, trainable_variables=None):
        """Updates the variables, after making sparse gradients dense."""
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        variables = trainable_variables or self._trainable_variables
        if len(grads) == len(variables):
            pairs = zip(grads, variables, strict=True)
            grads = [_dense(gradient, variable) for gradient, variable in pairs]
        super().apply(grads, trainable_variables)

    def update_step(self, gradient, variable, learning_rate):
        """Updates one variable and its slots."""
        index = self._get_variable_index(variable)
        value = tf.cast(variable, "float32")
        change, new_slots = self.compute_change(
            tf.cast(gradient, "float32"),
            value,
            self._slots[index],
            tf.cast(self.iterations, "float32"),
            tf.cast(learning_rate, "float32"),
            self._is_relative[index],
        )
        for name, slot in self._slots[index].items():
            self.assign(slot, new_slots[name])
        if tf.as_dtype(variable.dtype).size < 4:
            # Half precision: round the result once, not the change and the result.
            self.assign(variable, value - change)
        else:
            self.assign_sub(variable, change)

    def compute_change(
        self, gradient, value, slots, step, learning_rate, is_relative=True
    ):
        """What to subtract from a value, and its next slots, all in float32.

        Reads and writes no variable: for those who keep the state themselves.
        """
        decay = 1.0 - tf.pow(step + 1.0, -self.decay_exponent)
        if is_relative:
            learning_rate *= tf.maximum(rms(value), self.epsilon2)
        compute = self._full_change if "v" in slots else self._factored_change
        change, new_slots = compute(gradient, slots, decay, learning_rate)
        if "m" in slots:
            change = self.beta1 * slots["m"] + (1 - self.beta1) * change
            new_slots["m"] = change
        return change, new_slots

    def _full_change(self, gradient, slots, decay, learning_rate):
        v = _average(slots["v"], tf.square(gradient) + self.epsilon1, decay)
        update = gradient * tf.math.rsqrt(v)
        return update * self._clip(learning_rate, rms(update)), {"v": v}

    def _factored_change(self, gradient, slots, decay, learning_rate):
        # On a CPU, passes over the whole matrix are the cost. So the RMS of the
        # update is found without the update, and scalars go into the short factor.
        largest, second = factored_axes(gradient.shape, self.min_dim_size_to_factor)
        squares = tf.square(gradient)
        vr = _average(slots["vr"], mean(squares, largest) + self.epsilon1, decay)
        vc = _average(slots["vc"], mean(squares, second) + self.epsilon1, decay)
        new_slots = {"vr": vr, "vc": vc}
        vr, vc = tf.expand_dims(vr, largest), tf.expand_dims(vc, second)
        r = tf.math.rsqrt(vr)
        c = tf.math.rsqrt(vc) * tf.sqrt(tf.reduce_mean(vr, second, keepdims=True))
        # One c at a time: the square of a c that never saw a gradient may overflow.
        mean_squares = weighted_mean(squares, second, r * r) * c * c
        r *= self._clip(learning_rate, tf.sqrt(tf.reduce_mean(mean_squares)))
        return gradient * r * c, new_slots

    def _clip(self, learning_rate, update_rms):
        if self.clipping_threshold is None:
            return learning_rate
        return learning_rate / tf.maximum(1.0, update_rms / self.clipping_threshold)

    def _takes_relative_steps(self, variable):
        return self.multiply_by_parameter_scale and not any(
            re.search(pattern, _path(variable))
            for pattern in self.exclude_from_parameter_scale
        )

    def _create_slots(self, variable):
        if self._overwrite_variable_with_gradient(variable):
            return {}
        shapes = self._slot_shapes(tuple(variable.shape))
        # Mesh's slot names, with the path in one piece as Keras has it.
        prefix = re.sub("[/:]", "_", _path(variable))
        if isinstance(variable, keras.Variable):
            variable = variable.value
        with self._distribution_strategy.extended.colocate_vars_with(variable):
            return {
                slot: self.add_variable(
                    shape, dtype="float32", name=f"{prefix}_slot_{slot}"
                )
                for slot, shape in shapes.items()
            }

    def _slot_shapes(self, shape):
        axes = factored_axes(shape, self.min_dim_size_to_factor)
        if axes:
            largest, second = axes
            shapes = {"vr": _without(shape, largest), "vc": _without(shape, second)}
        else:
            shapes = {"v": shape}
        return {**shapes, "m": shape} if self.beta1 else shapes


def factored_axes(shape, min_dim_size_to_factor):
    """Axes of the largest and second largest dimension; None if either is small.

    Of equal dimensions the first counts as the larger.
    """
    axes = sorted(range(len(shape)), key=lambda axis: -shape[axis])[:2]
    if len(axes) < 2 or shape[axes[1]] < min_dim_size_to_factor:
        return None
    return axes


def _average(slot, squares, decay):
    # 1 - decay, not the power itself: so late steps round as in Mesh's runs.
    return slot * decay + squares * (1.0 - decay)


def _dense(gradient, variable):
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(
        gradient.values, gradient.indices, variable.shape[0]
    )


def _without(shape, axis):
    return shape[:axis] + shape[axis + 1 :]


def _path(variable):
    return getattr(variable, "path", variable.name)


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
