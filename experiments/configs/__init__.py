"""Named configurations, and the papers' rows: one object each, one file for a paper."""

from collections.abc import Iterable, Mapping
from types import ModuleType

from experiments.configs import (
    hyperdecoders,
    hyperdecoders_encoder_only,
    hyperdecoders_texts,
    hyperformer,
    hyperformer_ablations,
    hyperformer_low_resource,
    hyperformer_transfer,
    hypergrid,
    hyperprompt,
    nano,
    real,
)
from experiments.configs.paper_row import ParameterFigure, Printed, Row, Table
from experiments.runs.config import Config
from hypertf.names import unknown

PAPERS = (
    *(hyperprompt, hyperformer, hyperformer_ablations, hyperformer_low_resource),
    *(hyperformer_transfer, hyperdecoders, hyperdecoders_texts),
    *(hyperdecoders_encoder_only, hypergrid),
)


def merged(parts: Iterable[tuple[str, Mapping]]) -> dict:
    """Joins parts (name, {key: value}); a key that is in two of them is an error."""
    everything = {}
    for name, part in parts:
        twice = sorted(everything.keys() & part.keys())
        if twice:
            raise ValueError(f"{name}: {', '.join(twice)}: known already")
        everything |= part
    return everything


def _configs(module: ModuleType) -> dict[str, Config]:
    rows = getattr(module, "ROWS", ())
    of_rows = {row.name: row.config for row in rows if row.config is not None}
    parts = [(row.name, row.runs) for row in rows]
    own = [
        (module.__name__, part) for part in (of_rows, getattr(module, "CONFIGS", {}))
    ]
    return merged([*own, *parts])


_CONFIGS = merged((m.__name__, _configs(m)) for m in (nano, real, *PAPERS))
_ROWS = merged((m.__name__, {row.name: row for row in m.ROWS}) for m in PAPERS)


def runs_of(row: Row) -> dict[str, Config]:
    """Returns {name: config} of the runs that a row's figures are of.

    >>> list(runs_of(get_row("hypergrid_base_mtl_mean")))
    ['hypergrid_base_mtl']
    """
    if row.of is not None:
        return runs_of(get_row(row.of))
    return dict(row.runs) if row.config is None else {row.name: row.config}


def get_config(name: str) -> Config:
    """Returns the configuration of that name; a wrong name gets the nearest."""
    return _get("config", name, _CONFIGS)


def config_names() -> tuple[str, ...]:
    """Lists the names of all configurations."""
    return tuple(_CONFIGS)


def get_row(name: str) -> Row:
    """Returns the row of a paper of that name; a wrong name gets the nearest."""
    return _get("row", name, _ROWS)


def row_names() -> tuple[str, ...]:
    """Lists the names of all papers' rows."""
    return tuple(_ROWS)


def _get(kind, name, known):
    if name not in known:
        raise ValueError(unknown(kind, name, sorted(known)))
    return known[name]


__all__ = [
    "Config",
    "ParameterFigure",
    "Printed",
    "Row",
    "Table",
    "config_names",
    "get_config",
    "get_row",
    "row_names",
    "runs_of",
]
