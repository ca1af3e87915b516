"""Where rows come from: TFDS builders, and a clear word when data is missing."""

import contextlib
import fcntl
import functools
import importlib
import io
import os
from collections.abc import Callable, Iterator

import tensorflow as tf
import tensorflow_datasets as tfds

from tfds_tasks.registry import unknown

# Builders of this repository; importing their module makes TFDS know them.
OWN = {"nano": "tfds_tasks.nano.builder", "art": "tfds_tasks.art"}


EMBEDDED = "nano/"  # written on first use, from grammars; nothing is downloaded
# Sources that are written on first use from a user's files: {source: how}.
_WRITERS: dict[str, Callable[[str], None]] = {}


class MissingData(FileNotFoundError):
    """The data of a task has not been prepared."""


def default_data_dir() -> str:
    """Returns TFDS's own folder, unless TFDS_DATA_DIR names another."""
    return os.environ.get("TFDS_DATA_DIR", os.path.join("~", "tensorflow_datasets"))


def folder(data_dir: str | None = None) -> str:
    """Returns the full path of a folder of data, by default of TFDS's own."""
    path = data_dir or default_data_dir()
    if "://" in path:  # such as gs://bucket/tensorflow_datasets
        return path
    return os.path.abspath(os.path.expanduser(path))


def written_by(source: str, write: Callable[[str], None]) -> None:
    """Says how a source is written: by a function of the folder of the data."""
    _WRITERS[source] = write


def prepared_folder(source: str, data_dir: str | None = None) -> str:
    """Returns the folder in which the prepared data of a source lies."""
    return os.path.join(folder(data_dir), *source.replace(":", "/").split("/"))


@functools.cache
def _builder(source: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    if source in _WRITERS:
        return tfds.builder_from_directory(prepared_folder(source, data_dir))
    name = source.split("/")[0].split(":")[0]
    if name in OWN:
        importlib.import_module(OWN[name])
    try:
        return tfds.builder(source, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError:
        near = unknown(
            "TFDS data", name, tfds.list_builders(with_community_datasets=False)
        )
        raise ValueError(near) from None
    except AssertionError as error:  # a version that there is not
        problem = str(error).split('": ')[-1]
        raise ValueError(f"TFDS data {source!r}: {problem}") from None


def open_builder(source: str, data_dir: str | None = None) -> tfds.core.DatasetBuilder:
    """Opens the builder of a source such as "glue/rte:2.0.0", whose data is prepared.

    Embedded sources (`nano`) and those of users' files are written on the spot; others
    must have been prepared.
    """
    data_dir = folder(data_dir)
    if source in _WRITERS:
        prepare(source, data_dir)
    builder = _builder(source, data_dir)
    if not builder.info.splits and source.startswith(EMBEDDED):
        _builder.cache_clear()
        with contextlib.redirect_stdout(io.StringIO()):  # it takes a second or two
            tfds.disable_progress_bar()
            prepare(source, data_dir)
            tfds.enable_progress_bar()
        builder = _builder(source, data_dir)
    if not builder.info.splits:
        _builder.cache_clear()  # it may be prepared by the next call
        raise MissingData(
            f"{source}: no prepared data in {data_dir}; prepare it with\n"
            f"  python -m tfds_tasks.prepare --source={source} --data_dir={data_dir}\n"
            "or name the folder that has it (--data_dir, or TFDS_DATA_DIR)"
        )
    return builder


def prepare(source: str, data_dir: str | None = None) -> None:
    """Downloads and writes the data of a source; one process at a time does it."""
    data_dir = folder(data_dir)
    written = os.path.join(prepared_folder(source, data_dir), "dataset_info.json")
    if source in _WRITERS and tf.io.gfile.exists(written):
        return
    with _alone(source, data_dir):
        if source not in _WRITERS:
            _builder(source, data_dir).download_and_prepare()
        elif not tf.io.gfile.exists(written):
            _WRITERS[source](data_dir)
    _builder.cache_clear()


def is_idle(source: str, data_dir: str) -> bool:
    """Tells whether no process of this machine prepares a source just now."""
    with open(_lock_file(source, data_dir), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _lock_file(source: str, data_dir: str) -> str:
    name = source.replace("/", "_").replace(":", "_")
    return os.path.join(data_dir, f".{name}.lock")


@contextlib.contextmanager
def _alone(source: str, data_dir: str) -> Iterator[None]:
    """Keeps other processes of this machine from preparing the same source."""
    if "://" in data_dir:  # no locks there; TFDS writes elsewhere and renames
        yield
        return
    os.makedirs(data_dir, exist_ok=True)
    with open(_lock_file(source, data_dir), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def rows(source: str, split: str, data_dir: str | None = None) -> tf.data.Dataset:
    """Reads all rows of a split, in the fixed order in which they lie on disk."""
    builder = open_builder(source, data_dir)
    if split not in builder.info.splits:
        raise ValueError(
            f"{source}: split {split!r} is unknown; "
            f"it has {', '.join(sorted(builder.info.splits))}"
        )
    config = tfds.ReadConfig(add_tfds_id=False, try_autocache=False)
    return builder.as_dataset(split=split, shuffle_files=False, read_config=config)


def num_rows(source: str, split: str, data_dir: str | None = None) -> int:
    """Counts the rows of a split of a source."""
    return open_builder(source, data_dir).info.splits[split].num_examples
