"""What is compared: every method and some combinations, on the same steps.

All of the T5 trains in all of them, as it starts from random weights. Nothing in the
texts of `nano` tells tasks apart, so a T5 that is told the task in its text is the
baseline to be measured by, not the plain one.
"""

from experiments.configs import Config, get_config
from hypertf import conditioning
from hypertf.conditioning.registry import split_name

PLAIN, NAMED = "plain", "plain-named"
STEPS = 400
COMBINED = (
    "hyperprompt-global+hypergrid",
    "hyperprompt-global+hyperformer++",
    "prompt-tuning+lora",
)


def systems(steps: int = STEPS) -> dict[str, Config]:
    """Returns {name: configuration}, the baselines first."""
    named = {PLAIN: get_config("nano"), NAMED: get_config("nano_named")}
    plain = named[PLAIN]
    for method in (*conditioning.names(), *COMBINED):
        if method != "none":
            options = {"conditioner_options": options_of(method)}
            named[method] = plain.replace(conditioner=method, **options)
    late = {"decay_start": steps * 6 // 10, "checkpoint_every": steps}
    return {n: c.replace(steps=steps, keep=1, **late) for n, c in named.items()}


def options_of(method: str) -> dict:
    """Returns the options by which all of the T5 trains; all else by default.

    >>> options_of("lora"), options_of("mpt+ia3")
    ({'trains': 'all'}, {'mpt.trains': 'all', 'ia3.trains': 'all'})
    """
    parts = split_name(method)
    if len(parts) == 1:
        return {"trains": "all"}
    return {f"{part}.trains": "all" for part in parts}
