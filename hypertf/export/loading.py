"""A SavedModel of ours in Python: what a server would answer."""

import functools
import os
from collections.abc import Callable

import tensorflow as tf

from hypertf.export import model_card
from hypertf.export.answerer import Answerer


class Loaded(Answerer):
    """A version of an export; `load` makes one."""

    def __init__(self, folder: str) -> None:
        index = os.path.join(folder, "variables", "variables.index")
        super().__init__(folder, model_card.read(folder), index)

    @functools.cached_property
    def signatures(self) -> dict[str, Callable]:
        """The functions by name, with the weights that they read."""
        import tensorflow_text  # noqa: F401 (registers the ops of tokenizers)

        self._loaded = tf.saved_model.load(self.folder)  # owns what they read
        return dict(self._loaded.signatures)


def load(path: str | os.PathLike) -> Loaded:
    """Loads a version of an export, the newest if the folder has several.

    ```python
    model = hypertf.export.load("export")
    model.answer(["the old dog sleeps."], task="nano/sentiment")
    model.classify(["the old dog sleeps."], task="nano/sentiment")[0].probabilities
    ```
    """
    folder = newest_version(path)
    if folder is None:
        raise FileNotFoundError(
            f"{os.fspath(path)}: expected a SavedModel, or a folder with one in 1/, "
            "2/, ..."
        )
    loaded = Loaded(folder)
    loaded.load()
    return loaded


def newest_version(path: str | os.PathLike) -> str | None:
    """Finds the SavedModel of a folder, itself or of its newest version."""
    path = os.fspath(path)
    if tf.saved_model.contains_saved_model(path):
        return path
    listed = tf.io.gfile.listdir(path) if tf.io.gfile.isdir(path) else []
    versions = [int(v) for v in (n.rstrip("/") for n in listed) if v.isdigit()]
    for version in sorted(versions, reverse=True):
        folder = os.path.join(path, str(version))
        if tf.saved_model.contains_saved_model(folder):
            return folder
    return None
