"""The embedding table, which is the head too where T5 ties them."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.t5 import target
from hypertf.t5.config import T5Config
from hypertf.t5.layer import Layer
from hypertf.t5.products import cast_once, project, project_on_rows
from hypertf.t5.target import custom_gradient
from hypertf.t5.weights import add_weight, kept_weight, normal
from hypertf.types import Tensor


@custom_gradient
def _embed(table, *tokens):
    """Rows of the table for each of the tokens, and the table itself for the head.

    The gradient is dense, as that of a head is: rows are added up in one matrix, and
    that to the head's. TensorFlow alone would make one of each and add them anew.
    """

    def gradient(*upstream):
        *of_rows, of_table = upstream
        rows = [tf.reshape(x, [-1, table.shape[1]]) for x in of_rows]
        ids = [tf.reshape(x, [-1]) for x in tokens]
        if not target.current().mesh:  # where rows may be split in several ways
            rows, ids = [tf.concat(rows, 0)], [tf.concat(ids, 0)]
        for x, i in zip(rows, ids, strict=True):
            of_table += tf.math.unsorted_segment_sum(x, i, table.shape[0])
        return of_table, *[None for _ in tokens]

    return (*[tf.gather(table, x) for x in tokens], tf.identity(table)), gradient


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
        return self.rows_and_table(tokens)[0]

    def rows_and_table(self, *tokens: Tensor) -> tuple[Tensor, ...]:
        """Looks up all tokens that a forward pass needs, and gives `logits` the table.

        Returns the rows of each of the tokens [batch, length], then the table.
        """
        tokens = [ops.cast(each, "int32") for each in tokens]
        *rows, table = _embed(self.embedding.value, *tokens)
        return *[ops.cast(x, self.compute_dtype) for x in rows], table

    def logits(
        self, x: Tensor, table: Tensor | None = None, training: bool = False
    ) -> Tensor:
        """Multiplies x [batch, length, d_model] by the table, scaled as T5 1.0 does."""
        x = x * ops.cast(self.config.d_model**-0.5, x.dtype)
        if self.head is not None:
            return project(x, self.head)
        table = self.embedding if table is None else table
        return project_on_rows(x, cast_once(table, x.dtype) if training else table)

    def keep_head(self) -> keras.Variable:
        """Lays the table out as a kernel [d_model, vocab], which is read faster.

        For a copy whose weights no longer change.
        """
        kernel = ops.transpose(self.embedding)
        self.__dict__["head"] = kept_weight(f"{self.path}/head", kernel)
        return self.head
