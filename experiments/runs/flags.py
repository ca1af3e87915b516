"""Flags to a `Config`: one flag for each field, `--config` for a named one."""

import ast
import dataclasses
import re
import types
import typing

from absl import flags

from experiments.configs import Config, config_names, get_config
from hypertf import training

# Flags defined here are listed by --help of the program that asks for them.
flags.disclaim_key_flags()


def define_config(values: flags.FlagValues) -> None:
    """Defines `--config` and a flag for every field of `Config`."""
    flags.DEFINE_string(
        "config",
        None,
        f"Named configuration; other flags override it. One of {len(config_names())}, "
        "listed by --config=list.",
        flag_values=values,
    )
    hints = typing.get_type_hints(Config)
    for field in flag_fields():
        define = _DEFINE.get(_plain_type(hints[field.name]), flags.DEFINE_string)
        default = field.default
        if default is dataclasses.MISSING:
            default = field.default_factory()
        shown = "" if default in (None, {}) else f" (default: {default})"
        define(field.name, None, field.metadata["help"] + shown, flag_values=values)


def flag_fields() -> list[dataclasses.Field]:
    """Lists the fields of `Config` that are flags."""
    return [f for f in dataclasses.fields(Config) if f.metadata["flag"]]


def define_devices(values: flags.FlagValues) -> None:
    """Defines `--data_dir`, `--strategy` and `--tpu`, which several programs have."""
    flags.DEFINE_string(
        "data_dir", None, "Folder of the TFDS data.", flag_values=values
    )
    flags.DEFINE_enum(
        "strategy",
        "auto",
        training.STRATEGIES,
        "Devices to run on.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "tpu", None, "Name of the TPU; local on a TPU VM.", flag_values=values
    )


def define_mesh(values: flags.FlagValues) -> None:
    """Defines the flags of `MESH`, for programs that split a model over a mesh."""
    flags.DEFINE_string(
        "mesh_shape",
        None,
        'A mesh of devices to split the model over, such as "batch:2,model:4", or the '
        "name of a TPU, such as v3-8.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "layout",
        None,
        'What is split over the mesh, such as "batch:batch,d_ff:model"; by default '
        "as T5's runs.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "cores_per_replica",
        None,
        "Over how many devices the model is split where mesh_shape names a TPU.",
        lower_bound=1,
        flag_values=values,
    )


MESH = ("mesh_shape", "layout", "cores_per_replica")


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


def config_of(values: flags.FlagValues) -> Config:
    """Makes the `Config` that parsed flags ask for."""
    config = get_config(values.config) if values.config else Config()
    changes = {}
    for field in flag_fields():
        given = values[field.name]
        if not given.present or given.value is None:
            continue
        value = given.value
        if field.name == "init_tasks":
            value = parse_pairs(value, field.name)
        if field.name in ("conditioner_options", "learning_rates"):
            value = parse_options(value, field.name)
        named = values["conditioner"].value is None  # its options are changed
        if field.name == "conditioner_options" and named:
            value = {**config.conditioner_options, **value}
        changes[field.name] = value
    another = changes.get("conditioner", config.conditioner) != config.conditioner
    if another:  # its options are its own
        changes.setdefault("conditioner_options", {})
    return config.replace(**changes)


def parse_options(text: str, flag: str = "conditioner_options") -> dict:
    """Reads the options of a conditioner, or what else is given as name=value,...

    >>> parse_options("a=1,b=word,c=(1, 2)")
    {'a': 1, 'b': 'word', 'c': (1, 2)}
    """
    options = {}
    for item in _split(text):
        name, equals, value = item.partition("=")
        if not equals or not _NAME.fullmatch(name.strip()):
            raise ValueError(f"{flag}={text!r}: {item!r}, expected name=value")
        try:
            options[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            options[name.strip()] = value.strip()
    return options


def parse_pairs(text: str, flag: str) -> dict[str, str]:
    """Reads what is given as new:old,...

    >>> parse_pairs("super_glue/cb:glue/mnli,mine:mean", "init_tasks")
    {'super_glue/cb': 'glue/mnli', 'mine': 'mean'}
    """
    pairs = {}
    for item in text.split(","):
        new, colon, old = (part.strip() for part in item.partition(":"))
        if not (new and colon and old):
            raise ValueError(f"{flag}={text!r}: {item!r}, expected new:old")
        pairs[new] = old
    return pairs


_NAME = re.compile(r"[\w.+-]+")  # of combined methods: hyperprompt-global.reduction


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
