"""`load` and `read_config`: they find out what a path holds, and read it."""

import dataclasses
import math
import os
from collections.abc import Callable

import keras
from absl import logging

from hypertf.checkpoints import mesh
from hypertf.checkpoints.huggingface import HuggingFaceReader
from hypertf.checkpoints.kerashub import KerasHubReader
from hypertf.checkpoints.matching import Pair, match
from hypertf.checkpoints.mesh import MeshReader
from hypertf.checkpoints.reader import Reader
from hypertf.checkpoints.values import fill
from hypertf.t5 import T5, T5Config

READERS = (MeshReader, HuggingFaceReader, KerasHubReader)

_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".bin.index.json")


@dataclasses.dataclass(frozen=True)
class Report:
    """What `load` read. Its text says it in a line."""

    format: str
    path: str
    tensors: int  # that filled weights
    parameters: int
    dtype: str  # in the checkpoint; several are joined by commas
    step: int | None = None
    slots: int = 0  # tensors that filled the optimizer's state
    left_over: tuple = ()  # tensors that a plain model has no use for
    kept: tuple = ()  # weights that the checkpoint says nothing of

    def __str__(self) -> str:
        parts = [f"{self.tensors} tensors", f"{self.parameters:,} parameters"]
        parts.append(self.dtype)
        if self.step is not None:
            parts.append(f"step {self.step}")
        if self.slots:
            parts.append(f"{self.slots} optimizer slots restored")
        if self.left_over:
            parts.append(f"left over: {_summary(self.left_over)}")
        if self.kept:
            parts.append(f"left at their values: {_summary(self.kept)}")
        return f"{self.format} checkpoint {self.path}: " + ", ".join(parts)


def load(
    model: T5,
    path: str | os.PathLike,
    optimizer: keras.optimizers.Optimizer | None = None,
) -> Report:
    """Fills a T5's weights from a checkpoint, and says what it held.

    ```python
    config = hypertf.checkpoints.read_config("flan-t5-small")
    model = hypertf.T5(config)
    print(hypertf.checkpoints.load(model, "flan-t5-small"))
    # Hugging Face checkpoint flan-t5-small: 190 tensors, 76,961,152 parameters, ...
    ```

    Tensors are read one after the other, large ones by blocks. Everything is
    checked before the first weight changes: whatever is missing, left over, of
    another shape or of another config is listed in one error. Weights of a
    conditioner stay as they are unless the checkpoint has some of them, but for those
    that start from T5's own (prompts from its embeddings, a task's norms from its).

    Args:
        model: A `hypertf.T5`.
        path: A Mesh TensorFlow prefix (`DIR/model.ckpt-1000`) or its folder, a
            Hugging Face folder or one safetensors file, or a KerasHub preset folder.
        optimizer: A `hypertf.Adafactor` that takes over the slots and the step of a
            Mesh TensorFlow checkpoint; built for the model's weights if it is not.

    Returns:
        A `Report`.
    """
    return load_by(model, path, _fill, _start_others, optimizer)


def load_by(
    model: T5,
    path: str | os.PathLike,
    fill_one: Callable[[Pair, Reader], None],
    start_others: Callable[[T5], None],
    optimizer: keras.optimizers.Optimizer | None = None,
) -> Report:
    """Does as `load`, for weights that lie elsewhere than in the model.

    Args:
        model: A `hypertf.T5`, which may be made without values.
        fill_one: Reads a tensor into the weight that it is paired with.
        start_others: Has the conditioner set weights that start from T5's own; called
            if the checkpoint is a plain T5's.
    """
    with open_checkpoint(path) as reader:
        if optimizer is not None:
            _prepare(optimizer, model, reader)
        matching = match(model, reader, optimizer)
        matching.check(reader)
        _fill_all(matching.weights + matching.slots, reader, fill_one)
        if optimizer is not None:
            optimizer.set_step(reader.step)
        if matching.kept:
            start_others(model)
        report = _report(matching, reader)
    logging.info("%s", report)
    return report


def read_config(path: str | os.PathLike) -> T5Config:
    """Reads the `T5Config` of a checkpoint in any form that `load` knows.

    ```python
    model = hypertf.T5(hypertf.checkpoints.read_config("DIR/model.ckpt-1000"))
    ```

    Mesh TensorFlow records names and shapes only; dropout rate and largest distance
    are then T5's defaults.
    """
    with open_checkpoint(path) as reader:
        config = reader.config()
    if config is None:
        raise ValueError(f"{path}: there is no config.json beside the weights")
    return config


def open_checkpoint(path: str | os.PathLike) -> Reader:
    """Opens whatever lies at a path with its `Reader`."""
    path = os.fspath(path)
    readers = [reader for reader in READERS if reader.recognises(path)]
    if len(readers) == 1:
        return readers[0](path)
    if readers:
        formats = " and ".join(reader.format for reader in readers)
        raise ValueError(
            f"{path} holds checkpoints of {formats}; name one of its files, such as "
            "model.safetensors or model.ckpt-1000"
        )
    _refuse_pickles(path)
    looked_for = "; ".join(reader.looked_for for reader in READERS)
    if not os.path.exists(path):
        raise FileNotFoundError(f"no checkpoint at {path}; looked for {looked_for}")
    raise ValueError(
        f"{path} is no checkpoint that hypertf knows; looked for {looked_for}; "
        f"found {_summary(_listing(path)) or 'nothing'}"
    )


def _refuse_pickles(path):
    pickles = [name for name in _listing(path) if name.endswith(_PICKLES)]
    if pickles:
        raise ValueError(
            f"{path} holds pickled weights ({_summary(pickles)}), which hypertf never "
            "opens because unpickling runs code from the file. Convert them where you "
            "trust them: transformers.T5ForConditionalGeneration.from_pretrained("
            "folder).save_pretrained(new_folder, safe_serialization=True)"
        )


def _listing(path):
    if os.path.isdir(path):
        return sorted(os.listdir(path))
    return [os.path.basename(path)] if os.path.isfile(path) else []


def _prepare(optimizer, model, reader):
    mesh.check_optimizer(optimizer)
    if not isinstance(reader, MeshReader):
        raise ValueError(
            f"{reader.path}: a {reader.format} checkpoint holds no optimizer state; "
            "load it without optimizer"
        )
    if not optimizer.built:
        optimizer.build(model.trainable_variables)


def _fill(pair, reader):
    fill(pair.variable, reader.blocks(pair.name), pair.transpose)


def _start_others(model):
    model.conditioner.initialize_from(model)


def _fill_all(pairs, reader, fill_one):
    for count, pair in enumerate(pairs):
        try:
            fill_one(pair, reader)
        except Exception as error:
            error.add_note(
                f"{reader.path}: reading {pair.name} failed after {count} of "
                f"{len(pairs)} tensors; the model now holds a part of the checkpoint"
            )
            raise


def _report(matching, reader):
    dtypes = {reader.tensors[pair.name].dtype for pair in matching.weights}
    unrestored = [name for name in sorted(reader.slots) if name not in matching.used]
    return Report(
        format=reader.format,
        path=reader.path,
        tensors=len(matching.weights),
        parameters=sum(math.prod(pair.variable.shape) for pair in matching.weights),
        dtype=", ".join(sorted(dtypes)),
        step=reader.step,
        slots=len(matching.slots),
        left_over=(*matching.unused, *unrestored),
        kept=tuple(matching.kept),
    )


def _summary(names, most=3):
    """The first few names, and how many more."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
