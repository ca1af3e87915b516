"""T5's training loss: cross entropy in float32, with z-loss and a choice of mean."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.t5 import target
from hypertf.types import Array, Tensor

NORMALIZATIONS = ("target_size", "tokens", "sum")


def token_losses(
    logits: Array, targets: Array, z_loss: float = 0.0, label_smoothing: float = 0.0
) -> Tensor:
    """Computes the loss of each target token, [batch, length].

    logits are [batch, length, vocab]. The loss is 0 where the target is padding.
    `z_loss` adds `z_loss * log(Z)^2`, which keeps the logits from drifting; label
    smoothing spreads its mass over the vocabulary.
    """
    targets = ops.cast(targets, "int32")
    asked = target.current()
    if asked.device != "CPU" or asked.mesh:
        loss = _lean_losses(logits, targets, z_loss, label_smoothing)
        return ops.where(targets > 0, loss, 0.0)
    logits = ops.cast(logits, "float32")
    # One fused pass over the logits; log Z follows from it without another.
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
    chosen = _chosen(logits, targets)
    log_z = loss + chosen
    if label_smoothing:
        loss = loss + label_smoothing * (chosen - ops.mean(logits, axis=-1))
    if z_loss:
        loss = loss + z_loss * ops.square(log_z)
    return ops.where(targets > 0, loss, 0.0)


@target.custom_gradient
def _chosen(logits: Tensor, targets: Tensor) -> tuple:
    """The logit of each target, logits [batch, length, vocab] -> [batch, length].

    TensorFlow's own gradient adds up single numbers one by one, for longer than the
    cross entropy takes.
    """

    def gradient(upstream):
        is_target = tf.one_hot(targets, logits.shape[-1], dtype=upstream.dtype)
        return is_target * tf.expand_dims(upstream, -1), None

    return tf.gather(logits, targets, batch_dims=2), gradient


def _lean_losses(
    logits: Array, targets: Tensor, z_loss: float, label_smoothing: float
) -> Tensor:
    """The same for devices that wait for memory: no logits are kept in float32.

    The gradient is computed anew from the logits as they came, without the scatter
    that a look-up would leave.
    """
    logits = tf.convert_to_tensor(logits)
    vocabulary = logits.shape[-1]
    is_target = tf.equal(tf.range(vocabulary), tf.expand_dims(targets, -1))

    @tf.custom_gradient
    def losses(logits):
        scores = tf.cast(logits, tf.float32)
        log_z = tf.reduce_logsumexp(scores, axis=-1)
        chosen = tf.reduce_sum(tf.where(is_target, scores, 0.0), axis=-1)
        loss = log_z - chosen + z_loss * tf.square(log_z)
        if label_smoothing:
            loss += label_smoothing * (chosen - tf.reduce_mean(scores, axis=-1))

        def gradient(upstream):
            scores = tf.cast(logits, tf.float32)
            share = tf.exp(scores - tf.expand_dims(log_z, -1))
            share *= tf.expand_dims(1 + 2 * z_loss * log_z, -1)
            wanted = tf.where(is_target, 1 - label_smoothing, 0.0)
            slope = share - wanted - label_smoothing / vocabulary
            return tf.cast(tf.expand_dims(upstream, -1) * slope, logits.dtype)

        return loss, gradient

    return losses(logits)


@keras.saving.register_keras_serializable("hypertf")
class T5Loss(keras.losses.Loss):
    """The loss for `model.compile`; targets are token ids, 0 is padding.

    `normalization="target_size"` divides the sum by batch times length, padding
    included, as Mesh TensorFlow does (the papers' setting: the effective rate then
    depends on padding); `"tokens"` divides by the number of real tokens.

    ```python
    targets = np.array([[5, 1, 0]])  # [batch, length]
    logits = np.zeros((1, 3, 8), "float32")  # [batch, length, vocab]
    hypertf.training.T5Loss(z_loss=0.0)(targets, logits)  # 2 / 3 * log(8)
    ```
    """

    def __init__(
        self,
        z_loss: float = 1e-4,
        label_smoothing: float = 0.0,
        normalization: str = "target_size",
        name: str = "t5_loss",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if normalization not in NORMALIZATIONS:
            raise ValueError(
                f"T5Loss: normalization={normalization!r}, expected one of "
                f"{', '.join(NORMALIZATIONS)}"
            )
        for option, value in (("z_loss", z_loss), ("label_smoothing", label_smoothing)):
            if not 0.0 <= value < 1.0:
                raise ValueError(f"T5Loss: {option}={value}, expected 0 <= value < 1")
        self.z_loss = z_loss
        self.label_smoothing = label_smoothing
        self.normalization = normalization

    def call(self, targets: Array, logits: Array) -> Tensor:
        # Keras takes the mean over batch and length of what is returned here.
        losses = token_losses(logits, targets, self.z_loss, self.label_smoothing)
        if self.normalization == "target_size":
            return losses
        if self.normalization == "sum":
            return losses * ops.cast(ops.size(losses), losses.dtype)
        real = ops.mean(ops.cast(targets > 0, "float32"))
        return losses / ops.maximum(real, 1e-9)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "z_loss": self.z_loss,
            "label_smoothing": self.label_smoothing,
            "normalization": self.normalization,
        }
