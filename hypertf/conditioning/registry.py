"""All methods by name."""

import difflib

from hypertf.conditioning.base import Options

_METHODS = {}


def register(cls, *names, **fixed):
    """Makes `create` know a method; `fixed` are options that its name decides."""
    for name in names:
        _METHODS[name] = (cls, fixed)


def names():
    return ("none", *_METHODS)


def create(name, config, num_tasks, **options):
    """A conditioner to hand to `hypertf.T5`, or None for the plain model.

    ```python
    config = hypertf.T5Config.from_name("t5-nano")
    conditioner = hypertf.conditioning.create("hyperprompt-global", config, num_tasks=8)
    model = hypertf.T5(config, conditioner=conditioner)
    ```

    Args:
        name: none, hypergrid, hyperprompt-share, hyperprompt-sep, hyperprompt-global,
            hyperformer, hyperformer++, hyperdecoder, adapters, adapters-shared-norm,
            parallel-adapters, task-hypernet, prompt-tuning or modular-skills.
        config: the `T5Config` of the model.
        num_tasks: how many tasks there are; task ids are 0 to num_tasks - 1.
        **options: the method's own; a misspelt one is an error that lists them.
    """
    if name == "none":
        Options.of("none", options)
        if options:
            raise ValueError(f"none: {', '.join(options)}: the plain T5 has no options")
        return None
    if name not in _METHODS:
        near = difflib.get_close_matches(str(name), names(), n=3)
        hint = f"nearest: {', '.join(near)}; " if near else ""
        raise ValueError(
            f"unknown conditioner {name!r}; {hint}known: {', '.join(names())}"
        )
    cls, fixed = _METHODS[name]
    return cls(
        config, num_tasks, cls.Options.of(name, {**fixed, **options}), method=name
    )
