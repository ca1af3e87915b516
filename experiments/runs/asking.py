"""A run's model in this process, with the answers that its export would give."""

import contextlib
import functools
import os
import random
from collections.abc import Callable, Iterator, Mapping

import keras
import numpy as np

import hypertf
from experiments.runs import components, config_file, transfer
from experiments.runs.checkpoint_choice import chosen_step
from hypertf.export.answerer import Answerer
from hypertf.export.served import Form, Served
from hypertf.t5.decoding import Options
from hypertf.training import RunFolder
from tfds_tasks import Task


class Run(Answerer):
    """A checkpoint of a run, to be asked; `hypertf.load_run` makes one.

    Args:
        model_dir: folder of the run.
        checkpoint: "best", "latest" or a step.
        bake: whether what depends on the task alone is computed once.
        beam_size: beams; by default as the run was configured, 1 is greedy.
    """

    def __init__(
        self,
        model_dir: str | os.PathLike,
        *,
        checkpoint: str | int = "best",
        bake: bool = True,
        beam_size: int | None = None,
    ) -> None:
        folder = components.expand(model_dir)
        try:
            self.config = config_file.read(folder)
        except ValueError as error:
            raise ValueError(
                f"{folder}: {error}; expected a model_dir of experiments.train"
            ) from None
        components.check_writes(self.config)
        self.mixture = components.make_mixture(self.config)
        self.step, why = chosen_step(folder, checkpoint)
        if beam_size is None:
            beam_size = self.config.beam_size if self.config.decoding == "beam" else 1
        self._form = Form(
            inputs_length=self.config.inputs_length,
            decoding=Options(
                max_length=self.config.targets_length,
                beam_size=beam_size,
                return_scores=True,
            ),
            in_process=True,
        )
        self._bake = bake
        prefix = RunFolder(folder, writes=False).prefix(self.step)
        super().__init__(folder, self._card(folder, why), prefix + ".index")

    def _card(self, folder: str, why: str) -> dict:
        """As much of an export's card as is known without a model."""
        return {
            "source": f"{folder}, step {self.step}",
            "selection": why,
            "inputs_length": self._form.inputs_length,
            "targets_length": self._form.decoding.max_length,
            "beam_size": self._form.decoding.beam_size,
            "signatures": list(self._form.signatures),
            "tasks": [
                {"name": t.name, "labels": list(t.choices) if t.choices else None}
                for t in self.mixture.tasks
            ],
        }

    def __repr__(self) -> str:
        return f"Run({self.folder!r}, step={self.step}, tasks={self.tasks})"

    def task(self, name: str) -> Task:
        """Returns the task of a name."""
        (task,) = (t for t in self.mixture.tasks if t.name == self.known_task(name))
        return task

    @functools.cached_property
    def signatures(self) -> "Signatures":
        """The functions by name, with the weights that they read."""
        pairs = [(t, self.mixture.task_id(t)) for t in self.mixture.tasks]
        vocabulary = components.make_vocabulary(self.config)
        with _settings_kept():
            model = components.make_model(self.config, self.mixture)
            hypertf.checkpoints.load(model, self._index.removesuffix(".index"))
            transfer.fill_untrained(model, self.mixture)
            if self._bake:
                ids = sorted({task_id for _, task_id in pairs})
                model = hypertf.export.bake(model, tasks=ids)
        return Signatures(Served(model, vocabulary, pairs, self._form))


class Signatures(Mapping):
    """The functions of a model by name, each traced when it is first asked for."""

    def __init__(self, served: Served) -> None:
        self._served, self._traced = served, {}

    def __getitem__(self, name: str) -> Callable:
        if name not in self:
            raise KeyError(name)
        if name not in self._traced:
            self._traced[name] = self._served.function(name)
        return self._traced[name]

    def __contains__(self, name: object) -> bool:
        return name in self._served.offered

    def __iter__(self) -> Iterator[str]:
        return iter(self._served.offered)

    def __len__(self) -> int:
        return len(self._served.offered)


@contextlib.contextmanager
def _settings_kept() -> Iterator[None]:
    """Gives back what making a run's model sets for the whole process.

    The seeds of TensorFlow and Keras cannot be read, and stay as they were set.
    """
    policy, python, numpy = (
        keras.config.dtype_policy(),
        random.getstate(),
        np.random.get_state(),
    )
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)
        random.setstate(python)
        np.random.set_state(numpy)
