"""What is not carried out on a mesh, refused before it is begun."""

import keras

from hypertf.optimizers import Adafactor
from hypertf.t5 import T5

# Options of every Keras optimizer.
_OF_OPTIMIZERS = (
    "weight_decay",
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "use_ema",
    "gradient_accumulation_steps",
    "loss_scale_factor",
)


def check_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Refuses an optimizer, and options of it, that a mesh does not carry out."""
    if not isinstance(optimizer, Adafactor):
        raise ValueError(
            f"optimizer {type(optimizer).__name__}: only hypertf.Adafactor runs on a "
            "mesh"
        )
    if optimizer.beta1:
        raise ValueError(f"Adafactor beta1={optimizer.beta1}: expected 0 on a mesh")
    for option in _OF_OPTIMIZERS:
        value = getattr(optimizer, option, None)
        if value:
            raise ValueError(f"Adafactor {option}={value!r}: not carried out on a mesh")


def check_model(model: T5) -> None:
    """Refuses ways of running a model that a mesh does not carry out."""
    # DTensor has no lists of tensors, and blocks that are run again would read the
    # model's own weights in place of those that are laid out.
    for option in ("loop_layers", "rematerialize"):
        if getattr(model, option):
            raise ValueError(f"{option}=True: expected False on a mesh")
