"""Every task of the papers as text: TFDS rows in, batches of tokens and scores out."""

# ruff: noqa: E402
from tfds_tasks.quiet_start import start_tensorflow

start_tensorflow()  # before any module imports it

from tfds_tasks.mixtures import Mixture
from tfds_tasks.named_mixtures import get_mixture, mixture_names
from tfds_tasks.packing import Packing
from tfds_tasks.rates import Rates
from tfds_tasks.registry import get_task, register, task_names
from tfds_tasks.scores.named import register_metric
from tfds_tasks.sources import MissingData
from tfds_tasks.style import Style
from tfds_tasks.task import Task
from tfds_tasks.vocabulary import Vocabulary, get_vocabulary

__all__ = [
    "MissingData",
    "Mixture",
    "Packing",
    "Rates",
    "Style",
    "Task",
    "Vocabulary",
    "get_mixture",
    "get_task",
    "get_vocabulary",
    "mixture_names",
    "register",
    "register_metric",
    "task_names",
]
