"""The base of this package's layers."""

import keras


class Layer(keras.layers.Layer):
    """A layer that is handed its tensors as they are.

    Keras would cast every floating input to the compute type, the float32 attention
    bias among them. Here each product casts its kernel to its input instead.
    """

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)
