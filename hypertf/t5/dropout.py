"""Dropout whose mask is shared along the length, as Mesh TensorFlow's T5 has it."""

import keras
from keras import ops

from hypertf.t5.layer import Layer


class Dropout(Layer):
    """One draw serves the whole axis before the last.

    That is the length of [batch, length, d_model] and the queries of attention
    weights [batch, heads, query, key]. `seed_generator` is the model's own, so that
    one state holds all its randomness.
    """

    def __init__(self, rate, seed_generator, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.seed_generator = seed_generator
        self.built = True

    def call(self, x, training=False):
        if not training or not self.rate:
            return x
        *outer, _, last = ops.shape(x)
        return keras.random.dropout(
            x, self.rate, (*outer, 1, last), seed=self.seed_generator
        )
