"""A SavedModel of ours in Python: what a server would answer."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hypertf.export import model_card


@dataclasses.dataclass(frozen=True)
class Classified:
    """What `classify` found of one text: its label, and the share of each."""

    label: str
    probabilities: dict[str, float]


class Loaded:
    """A version of an export; `load` makes one."""

    def __init__(self, folder: str) -> None:
        import tensorflow_text  # noqa: F401 (registers the ops of tokenizers)

        self.folder = folder
        self._loaded = tf.saved_model.load(folder)  # owns what the signatures read
        self.signatures = dict(self._loaded.signatures)
        self.card = model_card.read(folder)

    @property
    def tasks(self) -> list[str]:
        """The names of its tasks."""
        return [task["name"] for task in self.card.get("tasks", ())]

    def run(self, signature: str, **inputs: Any) -> dict[str, np.ndarray]:
        """Runs a signature on arrays; those that it does not take are left out."""
        if signature not in self.signatures:
            known = ", ".join(self.signatures)
            raise ValueError(f"signature {signature!r}, expected one of {known}")
        function = self.signatures[signature]
        specs = function.structured_input_signature[1]
        given = {
            key: tf.constant(value, specs[key].dtype)
            for key, value in inputs.items()
            if key in specs
        }
        return {name: value.numpy() for name, value in function(**given).items()}

    def answer(self, texts: Sequence[str], task: str | Sequence[str] = "") -> list[str]:
        """Answers texts, of one task or of a task each."""
        if not texts:
            return []
        outputs = self.run("serving_default", text=texts, task=_each(task, texts))
        return [text.decode("utf-8", "replace") for text in outputs["output_text"]]

    def classify(
        self, texts: Sequence[str], task: str | Sequence[str] = ""
    ) -> list[Classified]:
        """Finds the label of texts, of one task or of a task each."""
        if not texts:
            return []
        outputs = self.run("classify", text=texts, task=_each(task, texts))
        rows = zip(
            outputs["label"], outputs["labels"], outputs["probabilities"], strict=True
        )
        return [
            Classified(
                label.decode(),
                {n.decode(): float(p) for n, p in zip(names, shares, strict=True) if n},
            )
            for label, names, shares in rows
        ]


def _each(task, texts):
    return [task] * len(texts) if isinstance(task, str) else list(task)


def load(path: str | os.PathLike) -> Loaded:
    """Loads a version of an export, the newest if the folder has several.

    ```python
    model = hypertf.export.load("export")
    model.answer(["the old dog sleeps."], task="nano/sentiment")
    model.classify(["the old dog sleeps."], task="nano/sentiment")[0].probabilities
    ```
    """
    path = os.fspath(path)
    if tf.saved_model.contains_saved_model(path):
        return Loaded(path)
    listed = tf.io.gfile.listdir(path) if tf.io.gfile.isdir(path) else []
    versions = [int(v) for v in (n.rstrip("/") for n in listed) if v.isdigit()]
    if not versions:
        raise FileNotFoundError(
            f"{path}: expected a SavedModel, or a folder with one in 1/, 2/, ..."
        )
    return Loaded(os.path.join(path, str(max(versions))))
