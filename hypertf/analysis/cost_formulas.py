"""Multiply-adds of the methods of HyperPrompt's Table 2, by formula.

Independent of the graph that `cost.count` walks, so that each checks the other.
"""

from collections.abc import Callable

from hypertf.analysis.cost import Extra, Workload, plain_formula
from hypertf.conditioning.adapter_sites import POSITIONS
from hypertf.t5 import T5, Conditioner
from hypertf.t5.sites import STACKS


def formula(model: T5, workload: Workload) -> int | None:
    """Works out the multiply-adds of a forward pass; None of methods without formula.

    What is generated is generated once for each task, or for each example where these
    are no more than the tasks.

    ```python
    from hypertf.analysis import cost, cost_formulas

    config = hypertf.T5Config.from_name("t5-nano")
    model = cost.without_values(config, "hyperprompt-share", tasks=8)
    cost_formulas.formula(model, cost.Workload(batch=16))
    ```
    """
    if model.conditioner is None:
        return plain_formula(model.config, workload)
    work_out = FORMULAS.get(model.conditioner.method)
    return work_out and work_out(model.conditioner, workload)


def _rows(method, workload):
    """For how many tasks or examples weights are generated."""
    return min(method.num_tasks, workload.batch)


def _prompts(method: Conditioner, workload: Workload) -> int:
    """Generating the hyper-prompts, and attending to them."""
    o, c = method.options, method.config
    bottleneck = o.bottleneck_size(c.d_model)
    network = 2 * (c.d_model + c.d_heads) * bottleneck  # of keys and of values
    generated, extra = 0, {}
    for stack in STACKS:
        length = o.length(stack)
        extra[stack] = Extra(keys=length)
        each = length * network
        if length and method.method == "hyperprompt-global":
            # A network is written, from an embedding that two layers make.
            each += o.embedding_size * network
            each += (2 * o.raw_embedding_size + o.embedding_size) * o.hidden_size
        generated += method.num_layers(stack) * _rows(method, workload) * each
    return generated + plain_formula(c, workload, **extra)


def _prompt_tuning(method: Conditioner, workload: Workload) -> int:
    tokens = Extra(tokens=method.options.length)
    return plain_formula(method.config, workload, encoder=tokens)


def _adapters(method: Conditioner, workload: Workload) -> int:
    """Down and up, after two sublayers of each block."""
    lengths = {"encoder": workload.inputs_length, "decoder": workload.targets_length}
    each = 2 * method.config.d_model * method.bottleneck * len(POSITIONS)
    added = sum(
        lengths[stack] * method.num_layers(stack) * each
        for stack in method.options.chosen_stacks
    )
    return workload.batch * added + plain_formula(method.config, workload)


def _hyperformer(method: Conditioner, workload: Workload) -> int:
    """Adapters, and writing them and their norms from embeddings of tasks."""
    o, rows = method.options, _rows(method, workload)
    projector = o.joint_size * (o.task_hidden or 128)
    projector += (o.task_hidden or 128) * o.embedding_size
    adapter = 2 * method.config.d_model * method.bottleneck
    adapter += method.config.d_model + method.bottleneck  # biases
    if o.conditional_norm:
        norms = o.norm_before + o.norm_after
        adapter += 2 * method.config.d_model * norms
    generated = 0
    for stack in o.chosen_stacks:
        places = method.num_layers(stack) * len(POSITIONS)
        embeddings = {"layer": 1, "stack": places}.get(o.sharing, places // 2)
        generated += rows * (
            embeddings * projector * o.task_projector
            + places * o.embedding_size * adapter
        )
    return generated + _adapters(method, workload)


FORMULAS: dict[str, Callable[[Conditioner, Workload], int]] = {
    "hyperprompt-share": _prompts,
    "hyperprompt-sep": _prompts,
    "hyperprompt-global": _prompts,
    "prompt-tuning": _prompt_tuning,
    "adapters": _adapters,
    "adapters-shared-norm": _adapters,
    "hyperformer": _hyperformer,
    "hyperformer++": _hyperformer,
}
