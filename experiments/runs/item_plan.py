"""The runs of a paper's table or figure: what is trained, and where it is kept."""

import os
from collections.abc import Mapping, Sequence

from experiments.configs import Config, get_row, runs_of
from experiments.configs.items import Item, item_runs
from experiments.runs import nano_scale
from experiments.runs.eval_results import SELECTION

SCALES = ("full", "nano")
START = "start"  # the folder of the run that others start from at nano scale

Runs = dict[str, dict[str, Config]]  # {row: {run: config}}


def plan(
    item: Item,
    scale: str = "full",
    rows: Sequence[str] = (),
    steps: int | None = None,
    init: str | Mapping[str, str] | None = None,
) -> Runs:
    """Lists the runs of an item: {row: {name of the run: its configuration}}."""
    if scale not in SCALES:
        raise ValueError(f"scale={scale!r}, expected one of {', '.join(SCALES)}")
    if not item.can_run:
        raise ValueError(f"item={item.key!r} is not run: {item.instead}")
    known = {row.name: row for row in item.rows}
    for name in rows:
        if name not in known:
            raise ValueError(
                f"rows: {name!r} is no row of {item.key}, expected some of "
                f"{', '.join(known)}"
            )
    chosen = _with_encoders(known, rows) if rows else known.values()
    if scale == "nano":
        planned = {row.name: nano_scale.nano_runs(row, steps) for row in chosen}
    else:
        planned = {row.name: _full(item_runs(row), steps) for row in chosen}
    return {
        row: {name: _started(config, init) for name, config in configs.items()}
        for row, configs in planned.items()
    }


def _with_encoders(known, names):
    """The rows of these names, each after the one whose encoder it takes."""
    chosen = []
    for name in names:
        source = known[name].starts_from if known[name].takes_encoder else None
        chosen += [r for r in known.values() if source and source in (r.name, r.of)]
        chosen.append(known[name])
    return list({row.name: row for row in chosen}.values())


def _full(configs, steps):
    if steps is None:
        return configs
    changes = {"steps": steps, "epochs": None}
    return {
        name: config.replace(
            **changes, warmup_steps=min(config.warmup_steps, steps - 1)
        )
        for name, config in configs.items()
    }


def _started(config, init):
    if init is None:
        return config
    if isinstance(init, str):
        return config.replace(init=init)
    if config.model not in init:
        raise ValueError(
            f"init: no path for {config.model}, only for {', '.join(init)}"
        )
    return config.replace(init=init[config.model])


def started_from(planned: Runs, path: str | Mapping[str, str]) -> Runs:
    """Lets all runs start from the weights of another, or those of {row: path} do."""
    paths = dict.fromkeys(planned, path) if isinstance(path, str) else path
    return {
        row: {
            name: config.replace(init=paths.get(row, config.init))
            for name, config in configs.items()
        }
        for row, configs in planned.items()
    }


def sources(
    item: Item,
    planned: Runs,
    steps: int | None = None,
    init: str | Mapping[str, str] | None = None,
) -> Runs:
    """Lists the runs of other items that runs start from: {row: {source: config}}."""
    found = {}
    for row in item.rows:
        if row.starts_from and row.name in planned and not row.takes_encoder:
            configs = _full(runs_of(get_row(row.starts_from)), steps)
            found[row.name] = {n: _started(c, init) for n, c in configs.items()}
    return found


def of_seed(item: Item, row: str, config: Config, folder: str, seed: int) -> Config:
    """Returns a run's configuration with a seed, and the encoder of that seed."""
    config = config.replace(seed=seed)
    (found,) = [r for r in item.rows if r.name == row]
    if not found.takes_encoder:
        return config
    return config.replace(init=run_folder(folder, found.starts_from, seed))


def check_seeds(seeds: int) -> None:
    """Complains of a number of runs below 1."""
    if type(seeds) is not int or seeds < 1:
        raise ValueError(f"seeds={seeds!r}, expected an integer >= 1")


def runs_folder(output: str, scale: str, steps: int | None = None) -> str:
    """Returns the folder of runs, which all items share.

    >>> runs_folder("out", "nano", 30)
    'out/runs/nano_30_steps'
    """
    return os.path.join(output, "runs", _scale_name(scale, steps))


def table_folder(output: str, item: str, scale: str, steps: int | None = None) -> str:
    """Returns the folder of an item's table."""
    return os.path.join(output, item, _scale_name(scale, steps))


def _scale_name(scale, steps):
    return scale if steps is None else f"{scale}_{steps}_steps"


def run_folder(folder: str, name: str, seed: int) -> str:
    """Returns the model_dir of a run."""
    return os.path.join(folder, name, f"seed{seed}")


def split_of(item: Item, row: str, scale: str) -> str:
    """Returns the split that a row's table is of."""
    (found,) = [r for r in item.rows if r.name == row]
    return SELECTION if scale == "nano" else found.split
