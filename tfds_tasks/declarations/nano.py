"""The embedded tasks; their text names the task only where the style asks for it."""

from typing import Any

from tfds_tasks.formats import (
    Format,
    Row,
    Tensors,
    classification,
    indices,
    keyed,
    similarity,
)
from tfds_tasks.nano import TASKS, text_keys
from tfds_tasks.registry import register
from tfds_tasks.scores import Number, Text, accuracy, multirc, pearson_corrcoef
from tfds_tasks.style import Style
from tfds_tasks.task import Task


def _referent(name: str) -> Format:
    def format(row: Row, style: Style) -> Tensors:
        return {
            "inputs": keyed(name, text_keys(name), row, style),
            "targets": row["referent"],
            **indices(row),
        }

    return format


def _options(name: str, words: tuple[str, ...] | None) -> dict[str, Any]:
    if name == "similarity":
        return {
            "format": similarity(name, TASKS[name].keys),
            "metrics": (pearson_corrcoef,),
            "reader": Number(),
        }
    if name == "coreference":
        return {
            "format": _referent(name),
            "metrics": (accuracy,),
            "reader": Text(),
        }
    return {
        "format": classification(name, text_keys(name), words),
        "metrics": (multirc,) if name == "multi_answer" else (accuracy,),
        "classes": words,
    }


for _name, (_, _words) in TASKS.items():
    register(
        Task(
            name=f"nano/{_name}",
            source=f"nano/{_name}:1.0.0",
            prefix=False,
            mixture="nano",
            **_options(_name, _words),
        )
    )
