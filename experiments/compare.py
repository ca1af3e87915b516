"""Compares every method at nano scale: same tasks, same steps, several seeds.

    python -m experiments.compare
    python -m experiments.compare --systems="plain,hyperprompt-global" --steps=100

Goes on where it was stopped: runs are kept in out/compare, and those that are scored
are not made again. After each, the table and the picture are written anew.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence

import tensorflow as tf
from absl import flags

from experiments.comparison import table
from experiments.comparison.runs import complete, is_done, run_folder
from experiments.comparison.systems import NAMED, STEPS, systems
from experiments.reports.tables import aligned
from experiments.runs import components, program
from experiments.runs.training_run import duration
from hypertf.names import unknown

OUTPUT, RUNS = "experiments/results/compare", "out/compare"
SEEDS = 3


def compare(
    output: str | os.PathLike = OUTPUT,
    *,
    only: Sequence[str] = (),
    steps: int = STEPS,
    seeds: int = SEEDS,
    runs: str | os.PathLike = RUNS,
    data_dir: str | os.PathLike | None = None,
) -> list[table.Line]:
    """Trains and scores what is missing, and writes the comparison.

    ```python
    from experiments.compare import compare

    compare("/tmp/compare", only=["lora"], steps=100, seeds=1, runs="/tmp/runs")
    ```

    Args:
        output: folder of the table, the picture and the numbers.
        only: names of systems; all by default. The T5 with the task named in its text
            is always there, as the others are measured by it.
        steps: of training, the same for all.
        seeds: runs of each system.
        runs: folder of the runs, by which a stopped comparison goes on.
        data_dir: folder of the TFDS data, by default data/ beside the runs.
    """
    output, runs = components.expand(output), components.expand(runs)
    for name, value, least in (("steps", steps, 2), ("seeds", seeds, 1)):
        if value < least:
            raise ValueError(f"{name}={value}, expected at least {least}")
    data_dir = components.expand(data_dir) or os.path.join(runs, "data")
    wanted = _wanted(only, steps)
    # Seed by seed, so that a comparison that is stopped has all systems.
    plan = [
        (name, run_folder(runs, name, seed), config.replace(seed=seed))
        for seed in range(seeds)
        for name, config in wanted.items()
    ]
    left = [each for each in plan if not is_done(*each[1:])]
    print(f"{len(plan)} runs, {len(plan) - len(left)} of them done", flush=True)
    began = time.time()
    for number, (name, folder, config) in enumerate(left, 1):
        print(f"\n== {name}, seed {config.seed}", flush=True)
        complete(config, folder, data_dir)
        write(output, plan, {"steps": steps, "seeds": seeds})
        each = (time.time() - began) / number
        print(f"{len(left) - number} left: {duration(each * (len(left) - number))}")
    lines = write(output, plan, {"steps": steps, "seeds": seeds})
    print("\n" + aligned(table.HEADINGS, table.rows(lines)))
    print(f"\nwritten to {output}")
    return lines


def _wanted(only, steps):
    known = systems(steps)
    for name in only:
        if name not in known:
            raise ValueError(unknown("system", name, list(known)))
    return {n: c for n, c in known.items() if not only or n in only or n == NAMED}


def write(
    output: str, plan: Sequence[tuple], facts: Mapping[str, object]
) -> list[table.Line]:
    """Writes README.md, scores.png and scores.json of the runs that are done."""
    folders = {}
    for name, folder, config in plan:
        if is_done(folder, config):
            folders.setdefault(name, []).append(folder)
    lines = [table.read_line(name, of) for name, of in folders.items()]
    done = sum(len(of) for of in folders.values())
    facts = {**facts, "runs": f"{done} of {len(plan)}"}
    numbers = [vars(line) for line in lines]
    tf.io.gfile.makedirs(output)
    for name, data in {
        "README.md": table.text(lines, facts).encode(),
        "scores.png": table.picture(lines),
        "scores.json": (json.dumps(numbers, indent=1) + "\n").encode(),
    }.items():
        with tf.io.gfile.GFile(os.path.join(output, name), "wb") as file:
            file.write(data)
    return lines


def _define(values):
    options = {"flag_values": values}
    flags.DEFINE_string("output", OUTPUT, "Folder of table and picture.", **options)
    flags.DEFINE_list("systems", [], "Names of systems; all by default.", **options)
    flags.DEFINE_integer(
        "steps", STEPS, "Training steps of each run.", lower_bound=2, **options
    )
    flags.DEFINE_integer(
        "seeds", SEEDS, "Runs of each system.", lower_bound=1, **options
    )
    flags.DEFINE_string("runs", RUNS, "Folder of the runs.", **options)
    flags.DEFINE_string("data_dir", None, "Folder of the TFDS data.", **options)


def _call(values):
    options = program.given(values, "steps", "seeds", "runs", "data_dir")
    compare(values.output, only=values.systems, **options)


if __name__ == "__main__":
    program.run("experiments.compare", _define, _call)
