"""From the number of a paper's table or figure to its commands, runs and result.

    python -m experiments.reproduce --list
    python -m experiments.reproduce --item=hyperprompt/table5
    python -m experiments.reproduce --item=hyperprompt/table5 --run --scale=nano
    python -m experiments.reproduce --item=hyperprompt/table5 --run --init=PATH

Without --run it prints the command lines of the item's rows. With it they are trained
and scored one after the other, for each seed; what is done already is not done again.
Tables that print the same rows share their runs, in <output>/runs. The paper's figures
stand beside ours in <output>/<item>/<scale>/table.md, .csv and .json, with mean,
standard deviation and the number of runs.
"""

import os
import shlex
from collections.abc import Mapping, Sequence

from absl import app, flags

from experiments.configs import Config, config_names, get_config
from experiments.configs.items import ITEMS, get_item
from experiments.evaluate import evaluate
from experiments.reports.item_table import ItemTable, write_item
from experiments.runs import (
    components,
    config_file,
    item_plan,
    linear_head,
    nano_scale,
    program,
)
from experiments.runs import flags as run_flags
from experiments.runs.eval_results import SELECTION, Results
from experiments.runs.flags import flag_fields
from experiments.runs.training_run import train_run
from hypertf import training

OUTPUT = "out/reproduce"


def reproduce(
    item: str,
    *,
    scale: str = "full",
    seeds: int = 3,
    output: str | os.PathLike = OUTPUT,
    init: str | Mapping[str, str] | None = None,
    rows: Sequence[str] = (),
    steps: int | None = None,
    data_dir: str | os.PathLike | None = None,
    strategy: str = "auto",
    tpu: str | None = None,
) -> ItemTable:
    """Trains, scores and tabulates the rows of a table or figure.

    ```python
    from experiments.reproduce import reproduce

    print(reproduce("hyperprompt/table5", scale="nano", seeds=1).text)
    ```

    Args:
        item: such as "hyperprompt/table5"; `ITEMS` has all.
        scale: "full", as the paper, or "nano": the same rows on t5-nano and its tasks.
        seeds: runs of each row, whose seeds are 0, 1, ...
        output: folder for all that is made; runs that are there go on.
        init: pretrained weights, one path or {model: path}. At nano scale a plain run
            is trained first if there is none.
        rows: names of the item's rows that are run; all by default.
        steps: of training, instead of the rows' own; at full scale it is then no
            longer the paper's run, and the table says so.
        data_dir: folder of the TFDS data, by default TFDS's own.
        strategy: devices to run on, one of `hypertf.training.STRATEGIES`.
        tpu: name of the TPU; "local" on a TPU VM.
    """
    described = get_item(item)
    folder = item_plan.runs_folder(components.expand(output), scale, steps)
    planned = item_plan.plan(described, scale, rows, steps, init)
    item_plan.check_seeds(seeds)
    if scale == "full" and init is None:
        raise ValueError(
            "init=None: the papers start from pretrained weights; expected their path"
        )
    if scale == "nano" and init is None:
        planned = _trained_start(planned, folder, steps, data_dir, strategy, tpu)
    first, paths = _sources(item_plan.sources(described, planned, steps, init), folder)
    for name, config in first.items():
        path = item_plan.run_folder(folder, name, 0)
        run_one(config, path, None, data_dir, strategy, tpu)
    planned = item_plan.started_from(planned, paths)
    folders = {row: {} for row in planned}
    for seed in range(seeds):
        for row, configs in planned.items():
            made = folders[row].setdefault(seed, [])
            for name, config in configs.items():
                path = item_plan.run_folder(folder, name, seed)
                made.append(path)
                split = item_plan.split_of(described, row, scale)
                config = item_plan.of_seed(described, row, config, folder, seed)
                run_one(config, path, split, data_dir, strategy, tpu)
    tables = item_plan.table_folder(components.expand(output), item, scale, steps)
    table = write_item(described, folders, tables, scale, steps)
    print(f"{table.text}\nwritten to {table.path}")
    return table


def _sources(sources, folder):
    """The runs that others start from {name: config}, and where {row: path}."""
    first, paths = {}, {}
    for row, configs in sources.items():
        first |= configs
        (name,) = configs
        paths[row] = item_plan.run_folder(folder, name, 0)
    return first, paths


def _trained_start(planned, folder, steps, data_dir, strategy, tpu):
    """Trains the plain run that all others start from, if it is not there yet."""
    path = os.path.join(folder, item_plan.START)
    config = nano_scale.start_config(steps)
    run_one(config, path, None, data_dir, strategy, tpu)
    return item_plan.started_from(planned, path)


def run_one(
    config: Config,
    path: str,
    split: str | None,
    data_dir: str | os.PathLike | None = None,
    strategy: str = "auto",
    tpu: str | None = None,
) -> None:
    """Trains a run and scores its checkpoints, as far as that is not done yet.

    All checkpoints are scored on the validation sets, and the best on `split`; with
    `split` None, none is scored.
    """
    where = {"data_dir": data_dir, "strategy": strategy, "tpu": tpu}
    if config.head == "linear":
        config = linear_head.with_encoder(config)
    if not _is_trained(path, config):
        train_run(config, path, components.expand(data_dir), strategy, tpu)
    if split is None:
        return
    scored = Results(path, SELECTION)
    left = [s for s in training.checkpoint_steps(path) if s not in scored.records]
    if left:
        scored = evaluate(path, checkpoints=left, split=SELECTION, **where)
    if split != SELECTION:
        done = Results(path, split).records
        best = {scored.best_step(), *scored.best_per_task().values()} - set(done)
        if best:
            evaluate(path, checkpoints=sorted(best), split=split, **where)


def _is_trained(path, config):
    """Whether the run reached its end; another run in its place is an error."""
    try:
        old = config_file.read(path)
    except FileNotFoundError:
        return False
    if config.epochs is not None:
        config = config.replace(steps=old.steps)
    if old.differences(config):
        return False  # training says what differs
    return config.steps in training.checkpoint_steps(path)


def list_text() -> str:
    """Makes the table of all tables and figures."""
    lines = [
        (item.key, "yes" if item.can_run else "no", item.about, _needs(item))
        for item in ITEMS.values()
    ]
    headings = ("item", "can be run", "about", "needs, or what there is instead")
    return _left_aligned(headings, lines)


def _needs(item):
    return item.needs if item.can_run else item.instead


def _left_aligned(headings, lines):
    widths = [max(len(line[i]) for line in [headings, *lines]) for i in range(3)]
    return "\n".join(
        "  ".join([*(c.ljust(w) for c, w in zip(line, widths, strict=False)), line[3]])
        for line in [headings, *lines]
    )


def commands(
    item: str,
    *,
    scale: str = "full",
    seeds: int = 3,
    output: str = OUTPUT,
    init: str | Mapping[str, str] | None = None,
    rows: Sequence[str] = (),
    steps: int | None = None,
) -> str:
    """Writes the command lines of an item's rows, and what it needs.

    >>> print(commands("hyperprompt/table2"))  # doctest: +ELLIPSIS
    HyperPrompt, Table 2: operations and time
    is not run: `python -m experiments.report --table=cost`
    """
    described = get_item(item)
    head = f"{described.title}: {described.about}"
    if not described.can_run:
        return f"{head}\nis not run: {described.instead}"
    item_plan.check_seeds(seeds)
    folder = item_plan.runs_folder(output, scale, steps)
    lines = [head, described.needs] if scale == "full" else [head]
    planned = item_plan.plan(described, scale, rows, steps, init)
    if scale == "full" and init is None:
        lines += ["with --init=PATH, pretrained weights of that size, after each train"]
    if scale == "nano" and init is None:
        path = os.path.join(folder, item_plan.START)
        lines += ["", "# what all rows start from"]
        lines += [_train_line("nano", nano_scale.start_config(steps), path)]
        planned = item_plan.started_from(planned, path)
    first, paths = _sources(item_plan.sources(described, planned, steps, init), folder)
    for name, config in first.items():
        lines += ["", "# what others start from"]
        lines += [_train_line(name, config, item_plan.run_folder(folder, name, 0))]
    planned = item_plan.started_from(planned, paths)
    for row, configs in planned.items():
        lines += ["", f"# {row}"]
        split = item_plan.split_of(described, row, scale)
        for name, config in configs.items():
            for seed in range(seeds):
                path = item_plan.run_folder(folder, name, seed)
                own = item_plan.of_seed(described, row, config, folder, seed)
                lines += [_train_line(name, own, path)]
                score = f"python -m experiments.evaluate --model_dir={path}"
                lines += [f"{score} --checkpoints=all"]
                if split != SELECTION:
                    lines += [f"{score} --checkpoints=all --split={split}"]
    again = f"python -m experiments.reproduce --item={item} --scale={scale} --run"
    lines += ["", "# all of these, and the table", again]
    if item.startswith("hypergrid/figure"):
        folders = ",".join(
            item_plan.run_folder(folder, row, 0) for row in list(planned)[:2]
        )
        draw = f"python -m experiments.analyze --model_dir={folders},..."
        lines += ["# the curves", f"{draw} --figure=sweep"]
    return "\n".join(lines)


def _train_line(name, config, path):
    """The command that trains a configuration, by its name if it has one."""
    known = name in config_names() and config.model == get_config(name).model
    named = get_config(name if known else "nano")
    flags_given = [f"--config={name if known else 'nano'}"]
    for field in flag_fields():
        value = getattr(config, field.name)
        if value == getattr(named, field.name):
            continue
        if isinstance(value, dict):
            value = ",".join(f"{k}={v}" for k, v in value.items())
        flags_given.append(shlex.quote(f"--{field.name}={value}"))
    train = " ".join(flags_given)
    return f"python -m experiments.train {train} --model_dir={path}"


def _define(values):
    options = {"flag_values": values}
    flags.DEFINE_boolean(
        "list", False, "Print every table and figure, and what it needs.", **options
    )
    flags.DEFINE_string("item", None, "Such as hyperprompt/table5.", **options)
    flags.DEFINE_boolean(
        "run", False, "Train, score and tabulate; else print the commands.", **options
    )
    flags.DEFINE_enum(
        "scale", "full", item_plan.SCALES, "The paper's, or t5-nano.", **options
    )
    flags.DEFINE_integer("seeds", 3, "Runs of each row.", lower_bound=1, **options)
    flags.DEFINE_string("output", OUTPUT, "Folder for all that is made.", **options)
    flags.DEFINE_string(
        "init", None, "Pretrained weights: PATH, or MODEL=PATH,...", **options
    )
    flags.DEFINE_list("rows", [], "Rows of the item; all by default.", **options)
    flags.DEFINE_integer(
        "steps", None, "Steps of training instead of the rows' own.", **options
    )
    run_flags.define_devices(values)


def _call(values):
    if values.list == (values.item is not None):
        raise app.UsageError("expected either --list or --item=PAPER/TABLE")
    if values.list:
        print(list_text())
        return
    names = ("scale", "seeds", "output", "rows", "steps")
    options = program.given(values, *names) | {"init": read_init(values.init)}
    if not values.run:
        print(commands(values.item, **options))
        return
    where = program.given(values, "data_dir", "strategy", "tpu")
    reproduce(values.item, **options, **where)


def read_init(text: str | None) -> str | dict[str, str] | None:
    """Reads a path, or one for each model.

    >>> read_init("t5-base=/a,t5-small=/b")
    {'t5-base': '/a', 't5-small': '/b'}
    """
    if text is None or "=" not in text:
        return text
    pairs = [part.partition("=") for part in text.split(",")]
    return {model: path for model, _, path in pairs}


if __name__ == "__main__":
    program.run("experiments.reproduce", _define, _call)
