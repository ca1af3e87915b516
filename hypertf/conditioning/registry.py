"""All methods by name, alone and combined."""

from typing import Any

from hypertf.conditioning.method import Method
from hypertf.names import unknown
from hypertf.t5 import Conditioner, T5Config

_METHODS: dict[str, tuple[type[Method], dict[str, Any]]] = {}


def register(cls: type[Method], *names: str, **fixed: Any) -> None:
    """Makes `create` know a method; `fixed` are options that its name decides."""
    for name in names:
        if name in ("none", *_METHODS):
            raise ValueError(f"method {name!r} is registered already")
        _METHODS[name] = (cls, fixed)


def names() -> tuple[str, ...]:
    """The names that `create` knows, `none` first."""
    return ("none", *_METHODS)


def create(
    name: str, config: T5Config, num_tasks: int, **options: Any
) -> Conditioner | None:
    """A conditioner to hand to `hypertf.T5`, or None for the plain model.

    `none` with the option `trains` is a plain model of which not everything trains.

    ```python
    config = hypertf.T5Config.from_name("t5-nano")
    conditioner = hypertf.conditioning.create("hyperprompt-global", config, num_tasks=8)
    model = hypertf.T5(config, conditioner=conditioner)

    conditioner = hypertf.conditioning.create(  # two methods in one model
        "hyperprompt-global+hypergrid", config, num_tasks=8, **{"hypergrid.d_r": 8}
    )
    ```

    Args:
        name: one of `hypertf.conditioning.names()`, or several joined by `+`.
        config: the `T5Config` of the model.
        num_tasks: how many tasks there are; task ids are 0 to num_tasks - 1.
        **options: the method's own; a misspelt one is an error that lists them. Of
            methods combined, `method.option`, and `trains` for all of them.
    """
    members = split_name(name)
    if len(members) > 1:
        from hypertf.conditioning.combined import Combined

        return Combined(config, num_tasks, members, options)
    if name == "none":
        from hypertf.conditioning.plain import Options as PlainOptions
        from hypertf.conditioning.plain import Plain

        chosen = PlainOptions.of("none", options)
        if chosen.trains in (None, "all"):
            return None
        return Plain(config, num_tasks, chosen, method="none")
    return create_one(name, config, num_tasks, options)


def create_one(
    method: str, config: T5Config, num_tasks: int, options: dict, **kwargs: Any
) -> Method:
    """A method by itself; keywords are those of its layer."""
    cls, fixed = _METHODS[method]
    made = cls.Options.of(method, {**fixed, **options})
    try:
        made.require_effect(options)
    except ValueError as error:
        raise ValueError(f"{method}: {error}") from None
    return cls(config, num_tasks, made, method=method, **kwargs)


def method_options(name: str) -> list[str]:
    """The names of a method's options."""
    return _METHODS[name][0].Options.names()


def split_name(name: str) -> list[str]:
    """The names of methods that `+` joins; a name may itself end in it.

    >>> split_name("hyperformer+++hypergrid")
    ['hyperformer++', 'hypergrid']
    """
    for known in sorted(names(), key=len, reverse=True):
        if name == known:
            return [known]
        if str(name).startswith(f"{known}+"):
            try:
                return [known, *split_name(name[len(known) + 1 :])]
            except ValueError:
                continue  # of hyperformer++, hyperformer is the beginning too
    raise ValueError(unknown("conditioner", name, names()))
