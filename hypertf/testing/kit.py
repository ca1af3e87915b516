"""`check_method`: all checks of a method, one after the other."""

import dataclasses
import functools
from collections.abc import Callable, Collection
from typing import Any

from hypertf.t5 import T5Config
from hypertf.testing import copies, declaration, outputs, packing, training
from hypertf.testing.case import TINY, Case

PREFIX = "check_"
# Returns None, or a sentence on why it does not apply to the method.
Check = Callable[[Case], str | None]


def _named(name: str, function: Check) -> Check:
    """The check, with the method and its own name in all that it raises."""

    @functools.wraps(function)
    def run(case: Case) -> str | None:
        try:
            return function(case)
        except Exception as error:
            message = str(error)
            if not isinstance(error, AssertionError):
                message = f"{type(error).__name__}: {message}"
            raise AssertionError(f"{case.method}: {name}: {message}") from error

    return run


CHECKS: dict[str, Check] = {
    name.removeprefix(PREFIX): _named(name.removeprefix(PREFIX), function)
    for module in (declaration, outputs, training, packing, copies)
    for name, function in vars(module).items()
    if name.startswith(PREFIX)
}


@dataclasses.dataclass(frozen=True)
class Summary:
    """What the checks said of a method: {check: "passed", or why it was not run}.

    Print it for the table.
    """

    method: str
    results: dict[str, str]

    def __str__(self) -> str:
        passed = [result for result in self.results.values() if result == "passed"]
        lines = [f"{self.method}: {len(passed)} of {len(self.results)} checks passed"]
        lines += [f"  {name:<20}{result}" for name, result in self.results.items()]
        return "\n".join(lines)


def check_method(
    name: str,
    *,
    config: T5Config | None = None,
    num_tasks: int = 3,
    tasks_differ: bool = True,
    skip: Collection[str] = (),
    **options: Any,
) -> Summary:
    """Checks that a method keeps what hypertf promises of every method.

    ```python
    print(hypertf.testing.check_method("prompt-tuning", length=3))
    # prompt-tuning: 24 of 25 checks passed
    #   errors              passed
    #   ...
    ```

    Among them: an example does not depend on its batch nor on those that it is packed
    with, decoding with a cache gives what one pass gives, gradients reach every
    parameter, files hold the whole model, and baking, rematerialisation, XLA and
    bfloat16 change nothing beyond rounding.
    `hypertf.testing` shows a method of one's own that passes.

    For a line of its own for each check, parametrise your tests over
    `hypertf.testing.CHECKS` and call each with one `hypertf.testing.Case`.

    Args:
        name: the method, as `hypertf.conditioning.create` knows it.
        config: the T5 to check it in, a tiny one by default.
        num_tasks: how many tasks, at least 2.
        tasks_differ: whether the same input gives different outputs for two tasks.
        skip: names of checks that are not run, of `CHECKS`.
        **options: the method's own, of sizes that fit the T5.

    Returns:
        A `Summary` of what passed.

    Raises:
        AssertionError: when checks fail. It lists all of them, with their numbers.
    """
    for each in skip:
        if each not in CHECKS:
            known = ", ".join(CHECKS)
            raise ValueError(f"check_method: skip={each!r}, expected some of {known}")
    case = Case(name, options, config or TINY, num_tasks, tasks_differ)
    case.model  # noqa: B018  what cannot be made is one error, not one for each check
    results, failures = {}, []
    for each, check in CHECKS.items():
        if each in skip:
            results[each] = "skipped"
            continue
        try:
            results[each] = check(case) or "passed"
        except AssertionError as error:
            failures.append(error)
    if failures:
        head = f"{name}: {len(failures)} of {len(CHECKS)} checks failed"
        lines = "\n  ".join([head, *map(str, failures)])
        raise AssertionError(lines) from failures[0]
    return Summary(name, results)
