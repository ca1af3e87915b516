"""The training step of every method beside the plain T5's, and as tasks grow.

Plain and conditioned steps take turns, at all numbers of tasks: one measurement gives
both tables. A method trains what its paper trains, which is part of what it costs:
the plain step updates every weight.
"""

import gc
import pathlib

from experiments.benchmarks import peers, timing
from experiments.benchmarks.peers import Operation, Workload
from experiments.reports.tables import aligned
from hypertf import T5Config, conditioning

BATCH = 16
TASKS = (8, 64, 512)
# The most that a step may take, relative to the plain T5's.
LIMITS = {
    "hyperprompt-global": 1.05,
    "hyperformer++": 1.10,
    "hyperdecoder": 1.10,
    "hypergrid": 1.20,
}
MOST_GROWTH = 1.10  # of a step, from the fewest of TASKS to the most
# Their parameters are per task, so they are left out where tasks grow.
PER_TASK = ("hyperprompt-sep", "adapters", "adapters-shared-norm")


def run(options: timing.Options) -> dict:
    """Measures, prints tables, draws, returns what goes into the JSON file."""
    names = [name for name in conditioning.names() if name != "none"]
    unknown = set(options.only) - set(names)
    if unknown:
        raise ValueError(f"only={sorted(unknown)}, expected some of {names}")
    names = [name for name in names if not options.only or name in options.only]
    workload = Workload(T5Config.from_name(options.size), batch=BATCH)
    plain = peers.Hypertf(workload).training_step()
    steps, growth = {}, {}
    for name in names:
        steps[name], growth[name] = measure(workload, name, plain, options.rounds)
        ratio = timing.times(steps[name]["ratio"], steps[name]["error"])
        print(f"{name}: {ratio} x plain", flush=True)
        gc.collect()  # a model and its functions refer to each other
    growth = {name: row for name, row in growth.items() if row}
    report(steps)
    report_growth(growth)
    draw(growth, pathlib.Path(options.folder, "bench_methods.png"))
    return {
        "size": options.size,
        "batch": BATCH,
        "tasks": TASKS[0],
        "operations": {"training step": steps},
        "as tasks grow": growth,
    }


def measure(
    workload: Workload, name: str, plain: Operation, rounds: int
) -> tuple[dict, dict | None]:
    """Measures the step with the fewest tasks, and how it grows with tasks.

    The latter is {tasks: ratio to the plain step}, and under "grown" (ratio, error) of
    the most tasks to the fewest; None where every task has weights of its own.
    """
    systems = {
        tasks: peers.Hypertf(workload, name, tasks)
        for tasks in (TASKS[:1] if name in PER_TASK else TASKS)
    }
    cases = {tasks: system.training_step() for tasks, system in systems.items()}
    seconds = timing.in_turns({"plain": plain, **cases}, rounds, name)
    rows = timing.summary(seconds, reference="plain")
    conditioner = systems[TASKS[0]].model.conditioner
    step = {
        **rows[TASKS[0]],
        "trains": conditioner.what_trains,
        "limit": LIMITS.get(name),
    }
    if name in PER_TASK:
        return step, None
    growth = {tasks: rows[tasks]["ratio"] for tasks in TASKS}
    growth["grown"] = timing.ratio_of(seconds[TASKS[-1]], seconds[TASKS[0]])
    return step, growth


def report(steps: dict[str, dict]) -> None:
    """Prints the table of steps with as few tasks as are measured."""
    rows = []
    for name, row in steps.items():
        limit = row["limit"]
        verdict = "" if limit is None else "ok" if row["ratio"] <= limit else "MISSED"
        rows.append(
            (
                name,
                row["trains"],
                f"{row['median_ms']:.0f}",
                timing.times(row["ratio"], row["error"]),
                "" if limit is None else f"{limit:.2f}",
                verdict,
            )
        )
    headings = ("training step", "trains", "median ms", "x plain", "limit", "")
    print("\n" + aligned(headings, rows))


def report_growth(growth: dict[str, dict]) -> None:
    """Prints the table of steps as tasks grow."""
    rows = []
    for name, row in growth.items():
        ratio, error = row["grown"]
        verdict = "ok" if ratio < MOST_GROWTH else "MISSED"
        by_tasks = [f"{row[tasks]:.3f}" for tasks in TASKS]
        rows.append((name, *by_tasks, timing.times(ratio, error), verdict))
    grown = f"{TASKS[-1]} / {TASKS[0]}"
    print("\n" + aligned(("x plain, by tasks", *TASKS, grown, ""), rows))


def draw(growth: dict[str, dict], path: pathlib.Path) -> None:
    """Draws the steps as tasks grow."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for name, row in growth.items():
        axes.plot(TASKS, [row[tasks] for tasks in TASKS], marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(TASKS, [str(tasks) for tasks in TASKS])
    axes.set_xlabel("tasks")
    axes.set_ylabel("training step, times the plain T5's")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
    print(f"drawn to {path}")
