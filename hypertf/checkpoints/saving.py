"""`save`: writes beside an old checkpoint, then puts the new one in its place."""

import contextlib
import fnmatch
import os
import re
import secrets
import shutil

import keras
import tensorflow as tf
from absl import logging

from hypertf.checkpoints import huggingface, mesh
from hypertf.t5 import T5

DTYPES = ("float32", "bfloat16")
_HUGGING_FACE_FILES = ("model*.safetensors", huggingface.INDEX, huggingface.CONFIG)


def save(
    model: T5,
    path: str | os.PathLike,
    format: str = "huggingface",
    optimizer: keras.optimizers.Optimizer | None = None,
    step: int | None = None,
    dtype: str = "float32",
    overwrite: bool = False,
    max_shard_size: int = 5 * 10**9,
) -> str:
    """Writes a T5's weights in another library's form.

    ```python
    hypertf.checkpoints.save(model, "t5-mine")  # for transformers
    hypertf.checkpoints.save(
        model, "run/model.ckpt-1000", format="mesh", optimizer=adafactor, step=1000
    )
    ```

    A failure on the way leaves an older checkpoint as it was, and nothing half
    written. Weights of a conditioner are written under their own names.

    Args:
        model: A `hypertf.T5`.
        path: A folder; with `format="mesh"` also a prefix such as
            `run/model.ckpt-1000`. A Mesh folder gets the prefix `model.ckpt-<step>`,
            and may be remote (gs://...).
        format: "huggingface" or "mesh".
        optimizer: With "mesh", a `hypertf.Adafactor` whose slots are written too.
        step: With "mesh", the step; by default the optimizer's, else the prefix's,
            else 0.
        dtype: Type of the weights in the files, "float32" or "bfloat16".
        overwrite: Whether an existing checkpoint may be replaced.
        max_shard_size: With "huggingface", bytes per file, which only a larger
            single tensor exceeds.

    Returns:
        The path that `load` takes.
    """
    path = os.fspath(path)
    if "://" not in path:
        path = os.path.realpath(path)
    elif format != "mesh":
        raise ValueError(
            f"save: {path} is remote, expected a local path, or format='mesh'"
        )
    if dtype not in DTYPES:
        raise ValueError(f"save: dtype={dtype!r}, expected one of {DTYPES}")
    if format == "huggingface":
        if optimizer is not None or step is not None:
            raise ValueError(
                "save: a Hugging Face folder holds neither optimizer nor step; "
                'use format="mesh" for them'
            )
        _save_huggingface(model, path, dtype, overwrite, max_shard_size)
    elif format == "mesh":
        path = _save_mesh(model, path, optimizer, step, dtype, overwrite)
    else:
        raise ValueError(f"save: format={format!r}, expected 'huggingface' or 'mesh'")
    logging.info("saved %s", path)
    return path


def _save_huggingface(model, folder, dtype, overwrite, max_shard_size):
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise FileExistsError(f"{folder} is a file, expected a folder")
    if os.path.commonpath([folder, os.getcwd()]) == folder:
        raise ValueError(f"{folder} is in use; give the checkpoint its own folder")
    if _own_files(folder) and not overwrite:
        raise _exists(folder)
    with _temporary(folder) as temporary:
        huggingface.write(model, temporary, dtype, max_shard_size)
        _keep_other_files(folder, temporary)
        _swap(temporary, folder)


def _own_files(folder):
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return {n for n in names for p in _HUGGING_FACE_FILES if fnmatch.fnmatch(n, p)}


def _exists(path):
    return FileExistsError(f"{path} holds a checkpoint; pass overwrite=True")


@contextlib.contextmanager
def _temporary(path):
    """A new folder beside `path`, gone at the end."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    folder = f"{path}.{secrets.token_hex(4)}.tmp"
    os.mkdir(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep_other_files(folder, temporary):
    """A vocabulary beside the weights stays: its file moves to the new folder."""
    if os.path.isdir(folder):
        shutil.copytree(
            folder,
            temporary,
            ignore=lambda where, _: _own_files(where) if where == folder else (),
            copy_function=_link,
            symlinks=True,
            dirs_exist_ok=True,
        )


def _link(source, target, follow_symlinks=True):
    try:
        os.link(source, target, follow_symlinks=follow_symlinks)
    except OSError:  # a file system without links
        shutil.copy2(source, target, follow_symlinks=follow_symlinks)


def _swap(new, folder):
    """Puts `new` in the place of `folder`."""
    if not os.path.isdir(folder):
        os.replace(new, folder)
        return
    old = f"{new}.old"
    os.replace(folder, old)
    try:
        os.replace(new, folder)
    except BaseException:
        os.replace(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _save_mesh(model, path, optimizer, step, dtype, overwrite):
    if optimizer is not None:
        mesh.check_optimizer(optimizer)
        if not optimizer.built:
            raise ValueError("save: the optimizer has no slots yet; build it first")
    prefix, step = _prefix_and_step(path, optimizer, step)
    tensors = mesh.tensors_to_write(model, dtype, optimizer, step)
    if tf.io.gfile.exists(prefix + ".index") and not overwrite:
        raise _exists(prefix)
    folder, name = os.path.split(prefix)
    if "://" in prefix:
        _write_remote_mesh(tensors, folder, prefix)
        return prefix
    with _temporary(prefix) as temporary:
        mesh.write(tensors, os.path.join(temporary, name))
        state = os.path.join(temporary, mesh.STATE)
        with open(state, "w", encoding="utf-8") as file:
            file.write(mesh.state_text(folder, prefix))
        for file in os.listdir(temporary):
            _flush(os.path.join(temporary, file))
        _replace_files(temporary, prefix)
        _flush(folder)
    return prefix


def _write_remote_mesh(tensors, folder, prefix):
    """Object stores cannot move a folder; TensorFlow writes the .index last."""
    tf.io.gfile.makedirs(folder)
    if tf.io.gfile.exists(prefix + ".index"):
        tf.io.gfile.remove(prefix + ".index")
    mesh.write(tensors, prefix)
    with tf.io.gfile.GFile(os.path.join(folder, mesh.STATE), "w") as file:
        file.write(mesh.state_text(folder, prefix))


def _flush(path):
    """To the disk, so that a machine that stops does not lose a renamed file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _prefix_and_step(path, optimizer, step):
    is_prefix = ".ckpt" in os.path.basename(path)
    number = re.search(r"-(\d+)$", path) if is_prefix else None
    if step is None and optimizer is not None:
        step = int(optimizer.iterations)
    elif step is None:
        step = int(number[1]) if number else 0
    return path if is_prefix else os.path.join(path, f"model.ckpt-{step}"), step


def _replace_files(temporary, prefix):
    """Moves files of a checkpoint into its folder; puts old ones back on failure."""
    folder, name = os.path.split(prefix)
    new = sorted(n for n in os.listdir(temporary) if n != mesh.STATE)
    old = [n for n in os.listdir(folder) if _belongs(n, name)]
    backup = os.path.join(temporary, "old")
    os.mkdir(backup)
    placed = []
    try:
        for file in old:
            os.replace(os.path.join(folder, file), os.path.join(backup, file))
        # The values first: a checkpoint exists once its .index does.
        for file in (*new, mesh.STATE):
            os.replace(os.path.join(temporary, file), os.path.join(folder, file))
            placed.append(file)
    except BaseException:
        for file in placed:
            os.remove(os.path.join(folder, file))
        for file in os.listdir(backup):
            os.replace(os.path.join(backup, file), os.path.join(folder, file))
        raise


def _belongs(file, name):
    return re.fullmatch(re.escape(name) + r"\.(index|data-.*|meta)", file) is not None
