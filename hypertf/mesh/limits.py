"""What is not carried out on a mesh, refused before it is begun."""

import keras

from hypertf.optimizers import Adafactor, AdamW
from hypertf.t5 import T5

# Options of Keras optimizers.
_OF_OPTIMIZERS = (
    "beta1",
    "amsgrad",
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "use_ema",
    "gradient_accumulation_steps",
    "loss_scale_factor",
)


def check_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Refuses an optimizer, and options of it, that a mesh does not carry out."""
    name = type(optimizer).__name__
    if not isinstance(optimizer, Adafactor | AdamW):
        raise ValueError(
            f"optimizer {name}: only hypertf.Adafactor and hypertf.optimizers.AdamW "
            "run on a mesh"
        )
    for option in _OF_OPTIMIZERS:
        value = getattr(optimizer, option, None)
        if value:
            raise ValueError(f"{name} {option}={value!r}: not carried out on a mesh")


def check_model(model: T5) -> None:
    """Refuses ways of running a model that a mesh does not carry out."""
    # DTensor has no lists of tensors, and blocks that are run again would read the
    # model's own weights in place of those that are laid out.
    for option in ("loop_layers", "rematerialize"):
        if getattr(model, option):
            raise ValueError(f"{option}=True: expected False on a mesh")
