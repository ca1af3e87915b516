"""The training step of every method beside the plain T5's, and as tasks grow.

All take turns in one run. A method trains what its paper trains, which is part of
what it costs: the plain step updates every weight.
"""

import gc
import pathlib

from experiments.bench import peers, timing
from experiments.bench.t5 import Workload
from hypertf import T5Config, conditioning

BATCH, TASKS = 16, 8
MANY_TASKS = (8, 64, 512)
# The most that a step may take, relative to the plain T5's.
LIMITS = {
    "hyperprompt-global": 1.05,
    "hyperformer++": 1.10,
    "hyperdecoder": 1.10,
    "hypergrid": 1.20,
}
MOST_GROWTH = 1.10  # of a step, from the fewest of MANY_TASKS to the most
# Their parameters are per task, so they are left out where tasks grow.
PER_TASK = ("hyperprompt-sep", "adapters", "adapters-shared-norm")


def run(options):
    """Measures, prints tables, draws, returns what goes into the JSON file."""
    names = [name for name in conditioning.names() if name != "none"]
    unknown = set(options.only) - set(names)
    if unknown:
        raise ValueError(f"--only={sorted(unknown)}, expected some of {names}")
    names = [name for name in names if not options.only or name in options.only]
    workload = Workload(T5Config.from_name(options.size), batch=BATCH)
    plain = peers.Hypertf(workload).training_step()
    steps = measure(workload, names, plain, options.rounds)
    report(steps)
    growth = measure_growth(workload, names, plain, options.rounds)
    report_growth(growth)
    draw(growth, pathlib.Path("out/bench_methods.png"))
    return {
        "size": options.size,
        "batch": BATCH,
        "tasks": TASKS,
        "operations": {"training step": steps},
        "as tasks grow": growth,
    }


def measure(workload, names, plain, rounds):
    """{method: median ms, ratio to the plain step, limit}."""
    rows = {}
    for name in names:  # one at a time beside the plain one: memory
        case = peers.Hypertf(workload, name, TASKS)
        seconds = timing.in_turns(
            {"plain": plain, name: case.training_step()}, rounds, name
        )
        rows[name] = timing.summary(seconds, reference="plain")[name]
        conditioner = case.model.conditioner
        rows[name]["trains"] = conditioner.options.trains or conditioner.trains
        rows[name]["limit"] = LIMITS.get(name)
        del case, conditioner
        gc.collect()  # a model and its functions refer to each other
    return rows


def measure_growth(workload, names, plain, rounds):
    """{method: {tasks: ratio to the plain step}}; all counts of a method in turns."""
    growth = {}
    for name in names:
        if name in PER_TASK:
            continue
        cases = {"plain": plain}
        for tasks in MANY_TASKS:
            cases[tasks] = peers.Hypertf(workload, name, tasks).training_step()
        seconds = timing.in_turns(cases, rounds, f"{name}, tasks grow")
        rows = timing.summary(seconds, reference="plain")
        growth[name] = {tasks: rows[tasks]["ratio"] for tasks in MANY_TASKS}
        del cases
        gc.collect()
    return growth


def report(steps):
    rows = []
    for name, row in steps.items():
        limit = row["limit"]
        verdict = "" if limit is None else "ok" if row["ratio"] <= limit else "MISSED"
        rows.append(
            (
                name,
                row["trains"],
                f"{row['median_ms']:.0f}",
                f"{row['ratio']:.3f}",
                "" if limit is None else f"{limit:.2f}",
                verdict,
            )
        )
    headings = ("training step", "trains", "median ms", "x plain", "limit", "")
    print("\n" + timing.table(headings, rows))


def report_growth(growth):
    rows = []
    for name, by_tasks in growth.items():
        ratios = [by_tasks[tasks] for tasks in MANY_TASKS]
        times = ratios[-1] / ratios[0]
        verdict = "ok" if times < MOST_GROWTH else "MISSED"
        rows.append((name, *(f"{x:.3f}" for x in (*ratios, times)), verdict))
    grown = f"{MANY_TASKS[-1]} / {MANY_TASKS[0]}"
    print("\n" + timing.table(("x plain, by tasks", *MANY_TASKS, grown, ""), rows))


def draw(growth, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for name, by_tasks in growth.items():
        axes.plot(list(by_tasks), list(by_tasks.values()), marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(MANY_TASKS, [str(tasks) for tasks in MANY_TASKS])
    axes.set_xlabel("tasks")
    axes.set_ylabel("training step, times the plain T5's")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
    print(f"drawn to {path}")
