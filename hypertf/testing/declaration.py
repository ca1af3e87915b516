"""Checks of what a method says of itself: errors, names, what trains, its size."""

import math
import re
from collections.abc import Callable
from typing import Any

import hypertf.conditioning
from hypertf.analysis import parameters
from hypertf.t5 import T5, T5Config, Unallocated, named_weights
from hypertf.testing.case import TARGET_LENGTH, Case, require

LARGEST = "t5-11b"


def check_errors(case: Case) -> None:
    """Bad input is one clear error before any long work."""
    for tasks in (0, -1, 2.5, True, "eight"):
        _require_error(
            rf"{re.escape(case.method)}: num_tasks=.*expected",
            f"num_tasks={tasks!r}",
            hypertf.conditioning.create,
            case.method,
            case.config,
            tasks,
            **case.options,
        )
    _require_error("did you mean 'trains'", "trians='all'", case.create, trians="all")
    _require_error("trains='some'", "trains='some'", case.create, trains="some")
    for task in (case.num_tasks, -1):
        tasks = [0, task, *case.tasks[2:]]
        expected = rf"task id {task} at \[1\].*num_tasks={case.num_tasks}"
        _require_error(expected, f"task {task}", case.model, case.batch(tasks))
        generate = case.model.generate
        _require_error(
            expected, f"task {task}", generate, case.inputs(tasks), TARGET_LENGTH
        )


def _require_error(
    pattern: str, what: str, function: Callable, *args: Any, **kwargs: Any
) -> None:
    try:
        function(*args, **kwargs)
    except ValueError as error:
        says = re.search(pattern, str(error))
        require(bool(says), f"{what}: the error is {error}, expected {pattern!r}")
        return
    raise AssertionError(f"{what}: no error, expected a ValueError like {pattern!r}")


def check_names(case: Case) -> None:
    """Every weight has a name of its own, and names each of its dimensions."""
    weights = case.model.weights
    named = named_weights(case.model)
    require(
        len(named) == len(weights),
        f"{len(weights)} weights go by {len(named)} names: {_repeated(weights)}",
    )
    for name, weight in named.items():
        dims = getattr(weight, "dims", None)
        require(
            dims is not None and len(dims) == len(weight.shape),
            f"{name}: dims={dims}, expected a name for each axis of "
            f"{tuple(weight.shape)}; make it with hypertf.t5.weights.add_weight",
        )


def _repeated(weights: list) -> str:
    paths = [weight.path for weight in weights]
    return ", ".join(sorted({path for path in paths if paths.count(path) > 1}))


def check_what_trains(case: Case) -> None:
    """The method's choice holds, and the option `trains` is another."""
    _require_trained(case.model, case.model.conditioner.what_trains)
    for choice in ("all", "task"):
        with Unallocated():
            model = T5(case.config, conditioner=case.create(trains=choice))
        _require_trained(model, choice)


def _require_trained(model: T5, choice: str) -> None:
    weights = {weight.path for weight in model.weights}
    mine = {weight.path for weight in model.conditioner.weights}
    plain = weights - mine
    norms = {path for path in plain if path.endswith("rms_norm/scale")}
    embeddings = {path for path in plain if path.endswith("shared/embedding")}
    expected = {
        "all": plain,
        "all-but-embeddings": plain - embeddings,
        "task": set(),
        "task+norms": norms,
    }[choice]
    trained = {variable.path for variable in model.trainable_variables}
    wrong = (trained - mine) ^ expected
    if choice.startswith("all") and wrong == norms:
        wrong = set()  # a method with norms of its own has no use for T5's
    require(
        not wrong,
        f"trains={choice!r}: {len(wrong)} weights of T5 are trained and should not be, "
        f"or the other way round, such as {sorted(wrong)[:3]}",
    )
    require(bool(trained & mine), f"trains={choice!r}: the method trains no weight")


def check_counting(case: Case) -> None:
    """The largest T5 needs no memory to be counted."""
    config = T5Config.from_name(LARGEST)
    with Unallocated():
        model = T5(config, conditioner=case.create(config))
    counted = parameters(model)
    added = sum(math.prod(weight.shape) for weight in model.conditioner.weights)
    require(added > 0, f"has no weights once it is built for {LARGEST}")
    require(
        counted.added == added,
        f"adds {counted.added:,} parameters to {LARGEST}, expected {added:,}",
    )
    require(
        f"{added:,}" in str(counted),
        f"the table does not show the {added:,} parameters that it adds",
    )
