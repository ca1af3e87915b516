"""HyperFormer's Tables 3, 4 and 7: more parameters, parts taken away, reductions."""

from experiments.configs.hyperformer import (
    BASE,
    NORMS,
    R32,
    SMALL,
    TABLE_3,
    TABLE_4,
    TABLE_7,
    TASK,
    adapters,
    figure,
    hyperformer,
    plus_plus,
)
from experiments.configs.paper_row import TIMES, TRAINED_PER_TASK, paper_row

WITHOUT_PROJECTOR = (
    "hyperformer",
    R32 | {"task_projector": False, "task_features": 64} | NORMS,
)


ROWS = (
    # Table 3 is of the better of reductions 2 and 4: the counts are those of 2.
    paper_row(
        "hyperformer_small_adapters_shared_norm_r2",
        SMALL,
        adapters("adapters-shared-norm", reduction=2),
        TABLE_3("80.97"),
        parameters=[
            figure(TIMES, "1.83x", table=3),
            figure(TRAINED_PER_TASK, "10.44%", table=3),
        ],
    ),
    paper_row(
        "hyperformer_small_adapters_shared_norm_r4",
        SMALL,
        adapters("adapters-shared-norm", reduction=4),
        TABLE_3("-"),
    ),
    paper_row(
        "hyperformer_plus_plus_small_r8",
        SMALL,
        plus_plus(reduction=8),
        TABLE_7(
            "42.13 98.60 82.76/87.72 90.69/87.55 84.92/84.18 82.3 95.40 78.83 83.19"
        ),
    ),
    paper_row(
        "hyperformer_plus_plus_small_r16",
        SMALL,
        plus_plus(reduction=16),
        TABLE_7(
            "42.60 97.8 84.73/89.12 88.99/85.33 85.69/85.12 81.96 93.69 75.91 82.81"
        ),
    ),
    paper_row(
        "hyperformer_plus_plus_small_r32",
        SMALL,
        plus_plus(reduction=32),
        TABLE_7(
            "49.90 96.00 83.74/88.50 89.29/85.79 85.99/85.41 81.28 91.79 72.99 82.79"
        ),
    ),
    paper_row(
        "hyperformer_base_adapters_shared_norm_r2",
        BASE,
        adapters("adapters-shared-norm", reduction=2),
        TABLE_3("85.84"),
        parameters=[
            figure(TIMES, "2.02x", table=3),
            figure(TRAINED_PER_TASK, "12.73%", table=3),
        ],
    ),
    paper_row(
        "hyperformer_base_adapters_shared_norm_r4",
        BASE,
        adapters("adapters-shared-norm", reduction=4),
        TABLE_3("-"),
    ),
    paper_row(
        "hyperformer_plus_plus_base_r8",
        BASE,
        plus_plus(reduction=8),
        TABLE_7(
            "54.86 97.30 88.18/91.55 94.59/92.91 89.77/89.69 85.89 96.10 84.67 87.77"
        ),
    ),
    paper_row(
        "hyperformer_plus_plus_base_r16",
        BASE,
        plus_plus(reduction=16),
        TABLE_7(
            "53.83 98.00 88.18/91.61 94.89/93.33 90.12/89.65 85.94 96.50 83.94 87.82"
        ),
    ),
    paper_row(
        "hyperformer_plus_plus_base_r32",
        BASE,
        plus_plus(reduction=32),
        TABLE_7(
            "55.58 97.20 89.66/92.42 93.19/91.08 88.96/88.57 85.82 94.19 81.75 87.13"
        ),
    ),
    # Table 4 takes parts away, from the small model only.
    paper_row(
        "hyperformer_small_no_adapter_blocks",
        SMALL,
        ("hyperformer", {"adapter_blocks": False} | NORMS),
        TABLE_4("68.37"),
    ),
    paper_row(
        "hyperformer_small_no_conditional_norm",
        SMALL,
        hyperformer(conditional_norm=False),
        TABLE_4("79.83"),
    ),
    paper_row(
        "hyperformer_small_no_task_projector",
        SMALL,
        WITHOUT_PROJECTOR,
        TABLE_4("81.56"),
    ),
    paper_row(
        "hyperformer_small_no_t5_norms", SMALL, hyperformer(TASK), TABLE_4("81.29")
    ),
    paper_row(
        "hyperformer_small_no_norms",
        SMALL,
        hyperformer(TASK, conditional_norm=False),
        TABLE_4("78.92"),
    ),
)
