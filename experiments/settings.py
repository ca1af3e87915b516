"""Flags to a `Config` and back: one flag for each field, `--config` for a named one."""

import ast
import dataclasses
import os
import types
import typing

import tensorflow as tf
from absl import flags, logging

from experiments.configs import Config, config_names, get_config

FILE = "config.json"


def define_flags(values=flags.FLAGS):
    """Defines `--config` and a flag for every field of `Config`."""
    flags.DEFINE_string(
        "config",
        None,
        f"Named configuration; other flags override it. One of {len(config_names())}, "
        "listed by --config=list.",
        flag_values=values,
    )
    hints = typing.get_type_hints(Config)
    for field in dataclasses.fields(Config):
        define = _DEFINE.get(_plain_type(hints[field.name]), flags.DEFINE_string)
        default = field.default
        if default is dataclasses.MISSING:
            default = field.default_factory()
        shown = "" if default in (None, {}) else f" (default: {default})"
        define(field.name, None, field.metadata["help"] + shown, flag_values=values)


def _plain_type(hint):
    """int of `int | None`."""
    if isinstance(hint, types.UnionType):
        return next(t for t in typing.get_args(hint) if t is not type(None))
    return hint


_DEFINE = {
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_boolean,
}


def be_quiet(values):
    """Warnings only, unless --verbosity says otherwise: TFDS tells of every file."""
    if not values["verbosity"].present:
        logging.set_verbosity(logging.WARNING)


def from_flags(values):
    """The `Config` that parsed flags ask for."""
    config = get_config(values.config) if values.config else Config()
    changes = {}
    for field in dataclasses.fields(Config):
        given = values[field.name]
        if not given.present or given.value is None:
            continue
        value = given.value
        if field.name == "conditioner_options":
            value = parse_options(value)
            if values["conditioner"].value is None:  # the named method's, changed
                value = {**config.conditioner_options, **value}
        changes[field.name] = value
    another = changes.get("conditioner", config.conditioner) != config.conditioner
    if another:  # its options are its own
        changes.setdefault("conditioner_options", {})
    return config.replace(**changes)


def parse_options(text):
    """Text such as `a=1,b=word,c=(1, 2)` to {"a": 1, "b": "word", "c": (1, 2)}."""
    options = {}
    for item in _split(text):
        name, equals, value = item.partition("=")
        if not equals or not name.strip().isidentifier():
            raise ValueError(
                f"conditioner_options={text!r}: {item!r}, expected name=value"
            )
        try:
            options[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            options[name.strip()] = value.strip()
    return options


def _split(text):
    """At commas outside brackets."""
    items, depth, item = [], 0, ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            items.append(item)
            item = ""
        else:
            item += letter
    return [item for item in [*items, item] if item.strip()]


def show(config):
    """Text of a configuration: what differs from the defaults is marked."""
    default, lines = Config(), []
    for field in dataclasses.fields(Config):
        value = getattr(config, field.name)
        mark = "*" if value != getattr(default, field.name) else " "
        lines.append(f"{mark} {field.name:20s} {value}")
    return "\n".join(lines)


def claim(folder, config):
    """Saves the configuration in a new folder; in an old one it must be the same."""
    path = os.path.join(folder, FILE)
    if not tf.io.gfile.exists(path):
        tf.io.gfile.makedirs(folder)
        _write(path, config)
        return
    old = read(folder)
    different = old.differences(config)
    if different:
        lines = [
            f"  {n}: {was!r} then, {now!r} now" for n, (was, now) in different.items()
        ]
        raise ValueError(
            f"model_dir {folder} holds a run with another configuration; expected the "
            "same, or a new folder\n" + "\n".join(lines)
        )
    if old != config:
        _write(path, config)


def _write(path, config):
    temporary = path + ".tmp"
    with tf.io.gfile.GFile(temporary, "w") as file:
        file.write(config.to_json())
    tf.io.gfile.rename(temporary, path, overwrite=True)


def read(folder):
    """The configuration of a run."""
    path = os.path.join(folder, FILE)
    if not tf.io.gfile.exists(path):
        raise FileNotFoundError(
            f"{path} is absent; expected a model_dir of experiments.train"
        )
    with tf.io.gfile.GFile(path) as file:
        return Config.from_json(file.read())
