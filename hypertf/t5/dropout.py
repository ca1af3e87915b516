"""Dropout whose mask is shared along the length, as Mesh TensorFlow's T5 has it."""

import keras
from keras import ops

from hypertf.t5.layer import Layer


class Dropout(Layer):
    """One draw serves a whole axis: by default the length of [batch, length, d_model].

    `seed_generator` is the model's own, so that one state holds all its randomness.
    """

    def __init__(self, rate, seed_generator, shared_axis=-2, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.shared_axis = shared_axis
        self.seed_generator = seed_generator
        self.built = True

    def call(self, x, training=False):
        if not training or not self.rate:
            return x
        shape = list(ops.shape(x))
        shape[self.shared_axis] = 1
        return keras.random.dropout(
            x, self.rate, tuple(shape), seed=self.seed_generator
        )
