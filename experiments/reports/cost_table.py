"""What methods cost: multiply-adds beside HyperPrompt's Table 2.

And, where asked for, memory and time beside HyperFormer's Tables 5 and 6, which are
measured: see `measured_cost.py`.
"""

from collections.abc import Iterable

from experiments.configs import get_config
from experiments.reports.tables import aligned
from hypertf import conditioning
from hypertf.analysis import cost, cost_formulas
from hypertf.t5 import T5Config

# HyperPrompt, Table 2: operations of a forward pass, and hours of training.
TABLE_2 = {
    "hyperprompt_base_mtl": None,
    "hyperprompt_base_adapters": (1.01e13, 8.4),
    "hyperprompt_base_hyperformer_plus_plus": (3.14e13, 10.3),
    "hyperprompt_base_prompt_tuning": (1.16e13, 11.1),
    "hyperprompt_base_sep": (1.01e13, 8.9),
    "hyperprompt_base_share": (9.8e12, 8.0),
    "hyperprompt_base_global": (9.8e12, 8.7),
}
REFERENCE = "hyperprompt_base_share"  # its operations are the fewest
TASKS = 16
HEADINGS = (
    *("method", "forward", "by formula", "training", "x plain", "x Share"),
    *("paper's", "x Share", "paper's hours"),
)
NOTE = (
    "Multiply-adds of matrix products for an example of {inputs} and {targets} tokens, "
    "in 10^9, in batches of {batch} examples of {tasks} tasks: counted over the traced "
    "graph, and worked out by formula. Training is the forward pass and the gradients "
    "of what the method trains, without the optimizer. The paper does not say of how "
    "many examples its operations are; what can be compared is the ratio to Share. Of "
    "its HyperFormer++ it does not say what makes it three times as dear as the "
    "others; nothing in the formula does."
)


def cost_table(
    size: str | None = None,
    workload: cost.Workload | None = None,
    only: Iterable[str] = (),
) -> str:
    """Makes the table: HyperPrompt's rows, then all other methods by default.

    Args:
        size: of the T5; that of the rows by default.
        workload: the batch; HyperPrompt's by default.
        only: names of rows and methods.
    """
    workload = workload or cost.Workload()
    sizes = T5Config.from_name(size or get_config(REFERENCE).model)
    counted = {}
    for name, (method, options) in _methods(set(only)).items():
        model = cost.without_values(sizes, method, TASKS, **options)
        found = cost.count_by_depth(sizes, method, TASKS, workload, **options)
        counted[name] = method, found, cost_formulas.formula(model, workload)
    plain, share = (counted.get(n) for n in ("hyperprompt_base_mtl", REFERENCE))
    rows = [
        (
            _title(name, method),
            _giga(found.forward, workload),
            "" if by_formula is None else _giga(by_formula, workload),
            _giga(found.training, workload),
            _times(found, plain),
            _times(found, share),
            *_printed(name),
        )
        for name, (method, found, by_formula) in counted.items()
    ]
    note = NOTE.format(
        inputs=workload.inputs_length,
        targets=workload.targets_length,
        batch=workload.batch,
        tasks=TASKS,
    )
    return aligned(HEADINGS, rows) + "\n" + note


def _methods(only):
    """{name: (method, options)}: rows of the table, then methods by their defaults."""
    methods = {}
    for row in TABLE_2:
        config = get_config(row)
        methods[row] = config.conditioner, config.conditioner_options
    of_rows = {method for method, _ in methods.values()}
    for name in conditioning.names():
        if name not in of_rows:
            methods[name] = name, {}
    if unknown := only - set(methods):
        raise ValueError(f"only={sorted(unknown)}, expected some of {list(methods)}")
    return {n: m for n, m in methods.items() if not only or n in only}


def _title(name, method):
    if name not in TABLE_2:
        return name
    return f"{'plain' if method == 'none' else method}, Table 2"


def _giga(count, workload):
    return f"{count / workload.batch / 1e9:.4g}"


def _times(found, reference):
    return "" if reference is None else f"{found.forward / reference[1].forward:.3f}"


def _printed(name):
    printed = TABLE_2.get(name)
    if printed is None:
        return "", "", ""
    operations, hours = printed
    return f"{operations:.3g}", f"{operations / TABLE_2[REFERENCE][0]:.2f}", f"{hours}"
