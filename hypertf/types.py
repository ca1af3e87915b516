"""Names for the values that functions take and give, for type hints."""

from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

# A tensor with values, or one without them as Keras and tf.function trace with.
Tensor = tf.Tensor | keras.KerasTensor

# A weight, as Keras or as TensorFlow has it.
Variable = keras.Variable | tf.Variable

# Whatever converts to a tensor.
Array = Tensor | Variable | np.ndarray | np.generic | Sequence | float

# The model's inputs by name; `hypertf.t5.inputs` lists the names.
Batch = Mapping[str, Array]
