"""HyperFormer's Figure 2: few rows of each task (section 3.3), mean of 5 seeds.

No numbers are printed. 15,000 steps; reductions 16, 32 and 64 are tried (appendix A),
of the adapters as of HyperFormer++.
"""

from experiments.configs import hyperformer
from experiments.configs.paper_row import MTL, Table, paper_row

STEPS = 15_000
TRAIN_ROWS = (100, 500, 1000, 2000, 4000)
REDUCTIONS = {32: "", 16: "_r16", 64: "_r64"}  # 32 is Table 1's

FIGURE_2 = Table("HyperFormer, Figure 2", [hyperformer.OVER_METRICS], "test")


def _rows(count):
    config = hyperformer.BASE.replace(train_rows=count, steps=STEPS)
    name = f"{count}_rows"
    yield paper_row(
        f"hyperformer_base_t5_{name}", config.replace(prefix=True), MTL, FIGURE_2("-")
    )
    for reduction, ending in REDUCTIONS.items():
        methods = {
            "base_adapters_shared_norm": hyperformer.adapters(
                "adapters-shared-norm", reduction
            ),
            "plus_plus_base": hyperformer.plus_plus(reduction),
        }
        for method, made in methods.items():
            row = f"hyperformer_{method}_{name}{ending}"
            yield paper_row(row, config, made, FIGURE_2("-"))


ROWS = tuple(row for count in TRAIN_ROWS for row in _rows(count))
