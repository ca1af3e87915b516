"""HyperFormer's Table 2: runs on GLUE go on with few rows of a new task, 5 seeds.

A new task starts as the task of GLUE that section 3.2 calls the most similar one. How
long it is trained is not printed; 15,000 steps are those of section 3.3. All go on from
the last checkpoint of the run on GLUE.
"""

import dataclasses
from collections.abc import Mapping

from experiments.configs import hyperformer
from experiments.configs.paper_row import MTL, Row, Table, single_task_row

STEPS = 15_000
# {task: the task of GLUE that it starts as}; TREC, of another domain, as MNLI too.
STARTS_AS = {
    "scitail": "glue/mnli",
    "super_glue/cb": "glue/mnli",
    "trec": "glue/mnli",
    "super_glue/boolq": "glue/qnli",
    "imdb": "glue/sst2",
    "yelp_polarity": "glue/sst2",
    "paws": "glue/qqp",
}
T5 = hyperformer.BASE.replace(steps=STEPS, prefix=True)
METHODS = hyperformer.BASE.replace(steps=STEPS)
ADAPTERS = hyperformer.adapters("adapters-shared-norm")
# Footnote 4: the hypernetworks and the task embeddings are trained.
PLUS_PLUS = (
    "hyperformer++",
    {**hyperformer.plus_plus()[1], **hyperformer.TASK},
)

# {rows: cells of T5, adapters with shared norms, HyperFormer++}.
PRINTED = {
    4: (
        "79.60±3.3 57.78±10.9 28.11±5.9 50.49±11.1 77.23±3.0 76.85±14.3 53.89±3.6",
        "79.54±2.8 51.11±9.2 23.61±7.7 53.48±2.8 81.55±1.9 81.37±13.1 55.69±9.0",
        "82.00±4.9 60.74±16.66 28.85±6.9 48.03±4.8 81.77±1.8 90.25±1.0 55.58±7.5",
    ),
    16: (
        "80.03±2.3 77.04±7.2 40.08±12.6 56.50±7.1 82.74±1.7 87.84±1.5 54.18±1.0",
        "83.25±1.7 74.81±5.4 43.45±14.0 51.37±6.5 82.54±1.0 91.08±0.2 63.38±5.3",
        "86.55±1.4 76.29±4.45 49.40±9.5 50.21±7.9 84.06±0.7 90.36±1.2 72.71±1.1",
    ),
    32: (
        "81.97±1.3 80.0±7.6 62.49±6.2 58.43±4.9 83.42±1.0 89.22±0.7 55.23±3.2",
        "85.06±1.1 74.81±5.9 59.6±7.0 54.52±5.1 83.39±0.8 91.09±0.5 68.78±1.5",
        "85.85±1.4 81.48±6.2 68.94±7.5 58.37±3.7 84.64±0.4 91.15±0.5 73.39±2.1",
    ),
    100: (
        "84.04±0.7 85.93±5.4 87.79±0.7 60.10±2.4 84.58±0.6 90.19±0.7 71.51±2.4",
        "88.22±1.3 80.74±7.6 78.07±3.8 58.60±1.6 83.35±0.8 90.15±0.7 73.82±1.6",
        "88.52±0.7 87.41±2.96 88.42±1.7 62.03±2.0 84.74±0.4 91.06±0.6 78.24±2.1",
    ),
    250: ("- 85.19±4.7 - - - - -", "- 86.67±5.0 - - - - -", "- 89.63±4.32 - - - - -"),
    500: (
        "88.07±0.7 - 93.57±1.3 66.49±1.2 84.99±0.3 90.92±0.2 82.81±1.0",
        "91.27±0.8 - 93.65±1.7 66.72±0.7 85.37±0.5 91.52±0.2 85.36±0.6",
        "91.44±0.6 - 94.78±1.4 70.04±1.4 86.00±0.2 92.09±0.4 86.3±1.1",
    ),
    1000: (
        "88.77±1.0 - 95.5±0.9 69.01±1.1 85.50±0.1 91.32±0.2 85.67±0.7",
        "91.75±0.8 - 96.06±0.4 70.21±1.3 86.27±0.4 92.26±0.6 87.89±0.6",
        "92.34±0.5 - 96.72±1.3 72.35±1.7 86.37±0.4 92.50±0.2 89.12±0.5",
    ),
    2000: (
        "91.01±1.0 - 96.87±1.3 71.58±0.8 86.01±0.2 91.68±0.1 88.33±0.6",
        "92.72±0.5 - 97.03±0.7 73.60±0.8 86.57±0.2 92.36±0.4 90.41±0.6",
        "93.40±0.2 - 96.92±0.9 74.94±0.6 86.60±0.1 92.70±0.1 90.87±0.3",
    ),
}
SYSTEMS: Mapping[str, tuple] = {
    "hyperformer_base_t5": (T5, MTL),
    "hyperformer_base_adapters_shared_norm": (METHODS, ADAPTERS),
    "hyperformer_plus_plus_base": (METHODS, PLUS_PLUS),
}


def _row(source, count, cells) -> Row:
    """A system with so many rows of each task, from its own run on GLUE."""
    config, method = SYSTEMS[source]
    columns = [f"{task}:accuracy" for task in STARTS_AS]
    table = Table(f"HyperFormer, Table 2 ({count} rows)", columns, "test")
    name = f"{source}_transfer_{count}_rows"
    config = config.replace(train_rows=count)
    row = single_task_row(name, config, method, table(cells), also_scored={})
    runs = {name: _started(config) for name, config in row.runs.items()}
    return dataclasses.replace(row, runs=runs, starts_from=source)


def _started(config):
    """A plain T5 has nothing of a task's own that could start as another's."""
    if config.conditioner == "none":
        return config
    return config.replace(init_tasks={config.mixture: STARTS_AS[config.mixture]})


ROWS = tuple(
    _row(source, count, cells)
    for count, all_cells in PRINTED.items()
    for source, cells in zip(SYSTEMS, all_cells, strict=True)
)
