"""A run as analysis looks at it: its model at a step, and examples of its tasks."""

import functools
import os

import numpy as np

import hypertf
from experiments.runs import components, config_file, transfer
from experiments.runs.checkpoint_choice import chosen_step
from experiments.runs.config import Config
from hypertf.t5 import T5
from hypertf.t5.inputs import DECODER_TOKENS, ENCODER_TOKENS, INDEX, TASK_IDS
from hypertf.training import RunFolder
from hypertf.types import Batch

BATCH = 128


class LookedAt:
    """A checkpoint of a run, loaded when first asked for.

    Args:
        model_dir: folder of the run.
        checkpoint: "latest", "best" or a step.
        split: whose examples are looked at.
        examples: of each task, at most.
        data_dir: folder of the TFDS data.
    """

    def __init__(
        self,
        model_dir: str | os.PathLike,
        checkpoint: str | int = "latest",
        split: str = "validation",
        examples: int = 100,
        data_dir: str | os.PathLike | None = None,
    ) -> None:
        self.folder = components.expand(model_dir).rstrip("/")
        self.name = os.path.basename(self.folder)
        self.config: Config = config_file.read(self.folder)
        self.step, _ = chosen_step(self.folder, checkpoint)
        self.split, self.limit = split, examples
        self._data_dir = components.expand(data_dir)
        self.mixture = components.make_mixture(self.config)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, by their ids."""
        return tuple(self.mixture.identities)

    @functools.cached_property
    def model(self) -> T5:
        """The model with the weights of the step."""
        config = self.config.replace(rematerialize=False, loop_layers=False)
        model = components.make_model(config, self.mixture)
        hypertf.checkpoints.load(
            model, RunFolder(self.folder, writes=False).prefix(self.step)
        )
        transfer.fill_untrained(model, self.mixture)
        return model

    @functools.cached_property
    def batches(self) -> list[Batch]:
        """Batches of examples, at most `examples` of each task, task after task."""
        names = [t.name for t in self.mixture.tasks if self.split in t.parts]
        if not names:
            raise ValueError(
                f"split={self.split!r}: not a split of {self.config.mixture}"
            )
        mixture = self.mixture.only(names)
        shape = {
            "vocabulary": components.make_vocabulary(self.config),
            "inputs_length": self.config.inputs_length,
        }
        examples = mixture.examples(self.split, data_dir=self._data_dir, **shape)
        examples = {task: rows[: self.limit] for task, rows in examples.items()}
        made = mixture.batches_of(
            examples,
            batch_size=BATCH,
            targets_length=self.config.targets_length,
            **shape,
        )
        return [_trimmed(batch) for batch in made.as_numpy_iterator()]


def _trimmed(batch):
    """Without the rows that only fill up the batch, and without common padding."""
    real = batch[INDEX] >= 0
    kept = {TASK_IDS: batch[TASK_IDS][real]}
    for name in (ENCODER_TOKENS, DECODER_TOKENS):
        tokens = batch[name][real]
        used = np.flatnonzero((tokens > 0).any(0))
        kept[name] = tokens[:, : (used[-1] if len(used) else 0) + 1]
    return kept
