"""Training: loss, step, loop, a run's folder, devices.

It sees token ids and task ids, never a data set's name.
"""

from hypertf.training.evaluation import Predictor
from hypertf.training.loop import Loop, NotANumber
from hypertf.training.loss import T5Loss, token_losses
from hypertf.training.run_folder import RunFolder, checkpoint_steps, read_log
from hypertf.training.schedules import LinearSchedule
from hypertf.training.step import TrainStep
from hypertf.training.strategies import (
    STRATEGIES,
    check_batch_size,
    distribute,
    is_chief,
    make_strategy,
)

__all__ = [
    "STRATEGIES",
    "LinearSchedule",
    "Loop",
    "NotANumber",
    "Predictor",
    "RunFolder",
    "T5Loss",
    "TrainStep",
    "check_batch_size",
    "checkpoint_steps",
    "distribute",
    "is_chief",
    "make_strategy",
    "read_log",
    "token_losses",
]
