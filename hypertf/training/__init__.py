"""Training: the loss. It sees token ids and task ids, never a data set's name."""

from hypertf.training.loss import T5Loss, token_losses

__all__ = ["T5Loss", "token_losses"]
