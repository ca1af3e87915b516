"""`load_run`: a trained model by its folder, to be asked."""

import importlib
import os

import tensorflow as tf

from hypertf.export.answerer import Answerer
from hypertf.export.loading import Loaded, newest_version
from hypertf.training import RunFolder


def load_run(
    path: str | os.PathLike,
    *,
    checkpoint: str | int = "best",
    bake: bool = True,
    beam_size: int | None = None,
) -> Answerer:
    """Loads a run, or an export of one, to ask it about texts; both answer alike.

    ```python
    run = hypertf.load_run("RUN")
    run.tasks  # the names of its tasks
    run.answer(["the old dog sleeps."], task="nano/sentiment")  # ["negative"]
    run.classify(["the old dog sleeps."], task="nano/sentiment")[0].probabilities
    ```

    Args:
        path: the model_dir of `experiments.train`, or a folder of SavedModels.
        checkpoint: "best" on the validation sets (the newest where none is scored),
            "latest", or a step.
        bake: whether what depends on the task alone is computed once.
        beam_size: beams; by default as the run was configured, 1 is greedy.
    """
    run = open_run(path, checkpoint=checkpoint, bake=bake, beam_size=beam_size)
    run.load()
    return run


def open_run(
    path: str | os.PathLike,
    *,
    checkpoint: str | int = "best",
    bake: bool = True,
    beam_size: int | None = None,
) -> Answerer:
    """Finds what `load_run` loads; weights are read by `load`, or when asked."""
    path = os.path.expanduser(os.fspath(path))
    options = {"checkpoint": checkpoint, "bake": bake, "beam_size": beam_size}
    if tf.io.gfile.exists(RunFolder(path, writes=False).config_file):
        # A run is a thing of `experiments`, which knows its tasks: the one place where
        # this library reaches up, and not before it is asked to.
        return importlib.import_module("experiments.runs.asking").Run(path, **options)
    folder = newest_version(path)
    if folder is None:
        raise FileNotFoundError(
            f"{path}: {_what_is_there(path)}; expected a model_dir of "
            "experiments.train, which has config.json, or a SavedModel, itself or in "
            "1/, 2/, ..."
        )
    fixed = {"checkpoint": "best", "bake": True, "beam_size": None}
    for name, value in options.items():
        if value != fixed[name]:
            raise ValueError(
                f"{name}={value!r}: {folder} is an export, which has its own; expected "
                f"{name}={fixed[name]!r}, or the run"
            )
    return Loaded(folder)


def _what_is_there(path: str) -> str:
    """Says what a folder is that is no run; the runs in it may have been meant."""
    if not tf.io.gfile.isdir(path):
        return "no such folder"
    inside = [os.path.join(path, name) for name in sorted(tf.io.gfile.listdir(path))]
    runs = [
        p for p in inside if tf.io.gfile.exists(RunFolder(p, writes=False).config_file)
    ]
    hint = f", but {' or '.join(runs)} is a run" if runs else ""
    return f"neither a run nor an export{hint}"
