"""Every task of the papers as text: TFDS rows in, batches of tokens and scores out."""

from tfds_tasks.mixtures import Mixture, get_mixture, mixture_names
from tfds_tasks.rates import Rates
from tfds_tasks.registry import get_task, task_names
from tfds_tasks.sources import MissingData
from tfds_tasks.style import Style
from tfds_tasks.task import Task
from tfds_tasks.vocabulary import Vocabulary, get_vocabulary

__all__ = [
    "MissingData",
    "Mixture",
    "Rates",
    "Style",
    "Task",
    "Vocabulary",
    "get_mixture",
    "get_task",
    "get_vocabulary",
    "mixture_names",
    "task_names",
]
