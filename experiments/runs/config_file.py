"""`config.json` of a run: written once, read by all programs, shown to people."""

import dataclasses
import os
import textwrap

import tensorflow as tf

from experiments.runs.config import Config
from hypertf.training import RunFolder
from tfds_tasks import modules

WIDTH = 100
# What the first line about a run says of it anyway.
SAID = (
    *("model", "conditioner", "mixture", "declared"),
    *("steps", "batch_size", "batch_unit", "batch_rows"),
)


def claim(folder: RunFolder, config: Config) -> None:
    """Saves the configuration in a new folder; in an old one it must be the same."""
    path = folder.config_file
    if not tf.io.gfile.exists(path):
        folder.write_text(path, config.to_json())
        return
    old = read(folder.path)
    different = old.differences(config)
    if different:
        lines = [
            f"  {n}: {was!r} then, {now!r} now" for n, (was, now) in different.items()
        ]
        raise ValueError(
            f"model_dir {folder.path} holds a run with another configuration; expected "
            "the same, or a new folder\n" + "\n".join(lines)
        )
    if old != config:
        folder.write_text(path, config.to_json())


def read(model_dir: str | os.PathLike) -> Config:
    """Reads the configuration of a run, and imports the modules that it names."""
    path = RunFolder(model_dir, writes=False).config_file
    if not tf.io.gfile.exists(path):
        raise FileNotFoundError(
            f"{path} is absent; expected a model_dir of experiments.train"
        )
    with tf.io.gfile.GFile(path) as file:
        config = Config.from_json(file.read())
    modules.import_modules(config.module_import, f"{path}: module_import")
    return config


def shown(config: Config) -> str:
    """Shows every setting on a line of its own, and marks what is not the default."""
    changed = _changed(config)
    return "\n".join(
        f"{'*' if field.name in changed else ' '} {field.name:20s} "
        f"{getattr(config, field.name)}"
        for field in dataclasses.fields(Config)
        if field.metadata["flag"]
    )


def shown_briefly(config: Config) -> str:
    """Shows what differs from the defaults and decides what the run computes.

    >>> shown_briefly(Config(steps=10, dropout=0.0, temperature=2.0))
    'not by default: dropout=0, temperature=2'
    >>> shown_briefly(Config(model="t5-small"))
    'all else by default'
    """
    free = {f.name for f in dataclasses.fields(Config) if f.metadata["free"]}
    changed = {
        name: f"{value:g}" if isinstance(value, float) else value
        for name, value in _changed(config).items()
        if name not in free and name not in SAID
    }
    if not changed:
        return "all else by default"
    words = ", ".join(f"{name}={value}" for name, value in changed.items())
    return textwrap.fill(
        f"not by default: {words}",
        WIDTH,
        subsequent_indent="  ",
        break_on_hyphens=False,
    )


def _changed(config):
    default = Config()
    names = [field.name for field in dataclasses.fields(Config)]
    return {
        name: getattr(config, name)
        for name in names
        if getattr(config, name) != getattr(default, name)
    }
