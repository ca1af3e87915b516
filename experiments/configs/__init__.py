"""Named configurations, one for each row of a paper's table, by the paper."""

import difflib

from experiments.configs import (
    hyperdecoders,
    hyperformer,
    hypergrid,
    hyperprompt,
    nano,
    real,
)
from experiments.configs.config import Config


def merged(*modules):
    """The `CONFIGS` of all modules; a name that is in two of them is an error."""
    configs = {}
    for module in modules:
        twice = sorted(configs.keys() & module.CONFIGS.keys())
        if twice:
            raise ValueError(f"{module.__name__}: {', '.join(twice)}: known already")
        configs |= module.CONFIGS
    return configs


_CONFIGS = merged(nano, real, hypergrid, hyperprompt, hyperformer, hyperdecoders)


def get_config(name):
    """The configuration of that name; a wrong name gets the nearest."""
    if name not in _CONFIGS:
        near = difflib.get_close_matches(name, _CONFIGS, n=3)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(
            f"config {name!r} is unknown; {hint}known are {', '.join(sorted(_CONFIGS))}"
        )
    return _CONFIGS[name]


def config_names():
    return tuple(_CONFIGS)


__all__ = ["Config", "config_names", "get_config"]
