"""The base of this package's layers."""

from typing import Any

import keras

from hypertf.keras_internals import children


class BuildsChildren:
    """Builds a layer: its own weights, then the layers it holds, as they were set."""

    def add_weights(self) -> None:
        """Makes the layer's own weights; those of its layers are theirs to make."""

    def build(self, input_shape: Any = None) -> None:
        self.add_weights()
        for layer in children(self):
            if not layer.built:
                layer.build()
        self.built = True


class Layer(BuildsChildren, keras.layers.Layer):
    """A layer that is handed its tensors as they are.

    Keras would cast every floating input to the compute type, the float32 attention
    bias among them. Here each product casts its kernel to its input instead.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
