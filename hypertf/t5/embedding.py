"""The embedding table, which is the head too where T5 ties them."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.t5.config import T5Config
from hypertf.t5.layer import Layer
from hypertf.t5.products import project, project_on_rows
from hypertf.t5.target import custom_gradient
from hypertf.t5.weights import add_weight, kept_weight, normal
from hypertf.types import Tensor


@custom_gradient
def _embed(table, tokens):
    """Rows of the table, with a dense gradient.

    The sparse one that TensorFlow would make is joined with the head's dense one
    as a sparse one of all rows, which is slower than adding them.
    """

    def gradient(upstream):
        rows = tf.reshape(upstream, [-1, table.shape[1]])
        tokens_of_rows = tf.reshape(tokens, [-1])
        return tf.math.unsorted_segment_sum(rows, tokens_of_rows, table.shape[0]), None

    return tf.gather(table, tokens), gradient


class Embedding(Layer):
    """The table that encoder and decoder share, and the head too when tied."""

    def __init__(self, config: T5Config, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.__dict__["head"] = None  # a kernel of its own, past Keras's tracking

    def add_weights(self) -> None:
        dims = {"vocab": self.config.vocab_size, "d_model": self.config.d_model}
        self.embedding = add_weight(self, "embedding", dims, normal(1.0))

    def call(self, tokens: Tensor) -> Tensor:
        """Looks up tokens [batch, length]: [batch, length, d_model]."""
        x = _embed(self.embedding.value, ops.cast(tokens, "int32"))
        return ops.cast(x, self.compute_dtype)

    def logits(self, x: Tensor) -> Tensor:
        """Multiplies x [batch, length, d_model] by the table, scaled as T5 1.0 does."""
        x = x * ops.cast(self.config.d_model**-0.5, x.dtype)
        if self.head is not None:
            return project(x, self.head)
        return project_on_rows(x, self.embedding)

    def keep_head(self) -> keras.Variable:
        """Lays the table out as a kernel [d_model, vocab], which is read faster.

        For a copy whose weights no longer change.
        """
        kernel = ops.transpose(self.embedding)
        self.__dict__["head"] = kept_weight(f"{self.path}/head", kernel)
        return self.head
