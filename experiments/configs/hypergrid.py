"""HyperGrid (Tay et al., 2021): rows of Tables 1 to 7, and of Figures 3 to 8."""

from experiments.configs.paper_row import (
    FIRST_GLUE,
    LAST_GLUE,
    MNLI_HALVES,
    SIZE,
    SUPER_GLUE,
    TIMES,
    ParameterFigure,
    Table,
    columns,
    paper_row,
    same_runs,
    single_task_row,
)
from experiments.runs.config import Config

# Section 6.3, where the paper says nothing of lengths: HyperPrompt's, on the same data.
BASE = Config(
    model="t5-base",  # "the released pretrained checkpoints" of T5, 220M parameters
    mixture="en_mix",  # in proportion to the examples of a task
    inputs_length=512,
    targets_length=32,
    steps=100_000,
    batch_size=128,
    optimizer="adafactor",
    learning_rate=1e-3,
    schedule="constant",
    loss_normalization="target_size",  # as Mesh TensorFlow has it
)
# Sections 3.1.2 and 6.3: 200K steps, the best checkpoint of all.
LARGE = BASE.replace(model="t5-large", steps=200_000, keep=0)
SIZE_3B = LARGE.replace(model="t5-3b")
SIZE_11B = LARGE.replace(model="t5-11b")

# Section 6.3: 32x128 (or 32x256) for 3B and 11B. What the smaller models ended with
# is not printed, so the same.
GRID = {"d_r": 32, "d_c": 128}
L = {"variant": "L"}  # one gate for each row (eq. 2)
# A gate for each row makes 0.28 billion parameters, where Table 1 prints 0.2. Fewer
# cells fit it; how many is not printed, so as many as rows of the grid.
L_CELLS = L | {"cells": GRID["d_r"]}
L2 = {"variant": "L2", **GRID}
GL = {"variant": "GL", **GRID}
LG = {"variant": "LG", **GRID}
OUTPUT = {"variant": "output"}  # Table 4; the number of cells is its "OG (16)"
# Table 7. Its row (4) has the score of L2 in Table 4, so all are taken to be L2.
SCALAR = {"variant": "scalar", **GRID}
MAX = {"variant": "max"}
# Section 3.1.4; the axes of the figures show 64 too.
FAN_IN, FAN_OUT = (4, 8, 16, 32, 128, 256), (8, 16, 32, 128, 256)

GLUE = columns(
    "glue", FIRST_GLUE + "mrpc:score,stsb:score,qqp:score,mnli:score" + LAST_GLUE
)
AVERAGES = ["average:glue", "average:super_glue", "average:macro"]
TABLE_1 = Table("HyperGrid, Table 1", GLUE)
TABLE_2 = Table("HyperGrid, Table 2", SUPER_GLUE)
TABLE_3 = Table("HyperGrid, Table 3", AVERAGES)
TABLE_4 = Table("HyperGrid, Table 4", AVERAGES)
TABLE_7 = Table("HyperGrid, Table 7", AVERAGES)
# Of the test sets, by the benchmarks' servers.
TABLE_5 = Table(
    "HyperGrid, Table 5 (test sets)",
    ["average:glue", *GLUE, "glue/wnli:accuracy"],
    "test",
)
TABLE_6 = Table(
    "HyperGrid, Table 6 (test sets)", ["average:super_glue", *SUPER_GLUE], "test"
)
NEGLIGIBLE = ParameterFigure("HyperGrid", TIMES, "negligible")
# Which show the scores of the whole grid, once by its rows and once by its columns.
FIGURES = {
    variant: [
        Table(f"HyperGrid, Figure {number}", ["average:macro"])("-")
        for number in numbers
    ]
    for variant, numbers in {"L2": (3, 6), "LG": (4, 7), "GL": (5, 8)}.items()
}
WSC = {"super_glue/wsc": ("super_glue/wsc", "dpr")}  # with which T5 trains it
PER_ROW = "a gate for each row; fewer cells fit, see the next line"


def _grid(variant, **options):
    """The embeddings are frozen (section 6.3)."""
    return "hypergrid", variant | options | {"trains": "all-but-embeddings"}


def _size(note=""):
    return ParameterFigure("HyperGrid Table 1", SIZE, "0.2B", tasks=16, note=note)


def _searched(variant, d_r, d_c):
    """A point of the search of section 3.1.4."""
    base, grid = f"hypergrid_base_{variant.lower()}", {"d_r": d_r, "d_c": d_c}
    name = f"{base}_{d_r}x{d_c}"
    if grid == GRID:
        return same_runs(name, base, *FIGURES[variant])
    return paper_row(name, BASE, _grid({"variant": variant, **grid}), *FIGURES[variant])


# The baselines freeze the embeddings as well.
MTL = ("none", {"trains": "all-but-embeddings"})

ROWS = (
    single_task_row(
        "hypergrid_base_multi_model",
        BASE,
        MTL,
        TABLE_1("59.6 94.2 90.1 89.1 90.6 86.5 93.7 82.0"),
        TABLE_2("82.9 96.4/92.0 63.0 79.1/44.0 77.6/76.8 83.8 71.6 73.1"),
        also_scored=MNLI_HALVES | WSC,
    ),
    paper_row(
        "hypergrid_base_mtl",
        BASE,
        MTL,
        TABLE_1("57.3 94.2 88.6 89.5 90.2 86.2 93.1 80.9"),
        TABLE_2("81.5 77.3/83.9 64.0 78.2/43.3 76.9/76.1 84.1 66.9 74.0"),
        TABLE_3("84.99 73.55 79.27"),
        parameters=[_size()],
    ),
    # Table 4's baseline is the mean of four runs of the one above.
    same_runs(
        "hypergrid_base_mtl_mean",
        "hypergrid_base_mtl",
        TABLE_4("85.03±0.087 73.77±0.150 79.40±0.091"),
        TABLE_7("- - 79.40"),
    ),
    paper_row(
        "hypergrid_large_mtl",
        LARGE,
        MTL,
        TABLE_3("88.22 80.04 84.13"),
        TABLE_4("88.22 80.04 84.13"),
    ),
    paper_row("hypergrid_3b_mtl", SIZE_3B, MTL, TABLE_3("89.53 84.22 86.87")),
    paper_row(
        "hypergrid_base_l",
        BASE,
        _grid(L),
        TABLE_1("59.9 94.0 89.1 89.9 90.2 86.5 93.1 81.1"),
        TABLE_2("82.5 81.5/89.3 66.0 78.8/41.0 76.8/76.0 85.9 66.5 78.8"),
        TABLE_4("85.60 74.50 80.05"),
        parameters=[_size(PER_ROW)],
    ),
    paper_row(
        "hypergrid_base_l_cells",
        BASE,
        _grid(L_CELLS),
        TABLE_1("59.9 94.0 89.1 89.9 90.2 86.5 93.1 81.1"),
        TABLE_2("82.5 81.5/89.3 66.0 78.8/41.0 76.8/76.0 85.9 66.5 78.8"),
        TABLE_4("85.60 74.50 80.05"),
        parameters=[_size()],
    ),
    paper_row(
        "hypergrid_base_l2",
        BASE,
        _grid(L2),
        TABLE_1("59.4 90.6 90.1 88.9 90.3 86.5 93.1 79.1"),
        TABLE_2("82.4 85.3/91.1 64.0 77.8/42.7 76.8/75.9 83.4 67.1 80.8"),
        TABLE_3("85.22 75.30 80.26"),
        TABLE_4("85.22 75.30 80.26"),
        TABLE_7("- - 80.26"),
        parameters=[_size()],
    ),
    paper_row("hypergrid_base_gl", BASE, _grid(GL), TABLE_4("85.12 75.00 80.05")),
    paper_row(
        "hypergrid_base_lg",
        BASE,
        _grid(LG),
        TABLE_1("57.9 94.6 89.2 90.1 90.3 86.7 81.2 84.2"),
        TABLE_2("82.5 83.1/89.3 64.0 77.9/42.8 77.1/76.3 84.1 65.5 78.8"),
        TABLE_4("85.43 74.78 80.10"),
        parameters=[NEGLIGIBLE],
    ),
    paper_row("hypergrid_base_og", BASE, _grid(OUTPUT), TABLE_4("85.13 73.31 79.22")),
    paper_row(
        "hypergrid_base_og_16",
        BASE,
        _grid(OUTPUT, cells=16),
        TABLE_4("84.94 73.10 79.01"),
    ),
    paper_row(
        "hypergrid_base_og_32",
        BASE,
        _grid(OUTPUT, cells=32),
        TABLE_4("84.84 72.93 78.89"),
    ),
    paper_row(
        "hypergrid_base_og_64",
        BASE,
        _grid(OUTPUT, cells=64),
        TABLE_4("85.07 74.11 79.59"),
    ),
    paper_row(
        "hypergrid_base_l2_all",
        BASE,
        _grid(L2, placement="all", cross_attention=True),
        TABLE_7("- - 79.05"),
    ),
    paper_row(
        "hypergrid_base_l2_both_ffn",
        BASE,
        _grid(L2, placement="both"),
        TABLE_7("- - 80.20"),
    ),
    paper_row(
        "hypergrid_base_l2_first_ffn",
        BASE,
        _grid(L2, placement="first"),
        TABLE_7("- - 80.23"),
    ),
    paper_row("hypergrid_base_scalar", BASE, _grid(SCALAR), TABLE_7("- - 79.20")),
    paper_row("hypergrid_base_max_grid", BASE, _grid(MAX), TABLE_7("- - 80.10")),
    paper_row("hypergrid_large_l", LARGE, _grid(L), TABLE_4("88.07 80.51 84.29")),
    paper_row("hypergrid_large_l2", LARGE, _grid(L2), TABLE_4("88.05 80.68 84.36")),
    paper_row("hypergrid_large_gl", LARGE, _grid(GL), TABLE_4("88.33 80.30 84.32")),
    paper_row(
        "hypergrid_large_lg",
        LARGE,
        _grid(LG),
        TABLE_3("88.31 81.56 84.94"),
        TABLE_4("88.31 81.56 84.94"),
    ),
    paper_row(
        "hypergrid_3b_lg",
        SIZE_3B,
        _grid(LG),
        TABLE_3("89.67 85.75 87.71"),
        parameters=[NEGLIGIBLE],
    ),
    paper_row(
        "hypergrid_11b_lg",
        SIZE_11B,
        _grid(LG),
        TABLE_5("89.4 69.0 97.6 89.2 92.6 82.0 91.3 96.4 91.5 93.2"),
        TABLE_6("88.9 91.1 93.9/96.8 94.6 88.1/62.4 93.5/92.7 92.3 74.6 91.6"),
    ),
    # The 3B model of Table 3, on the test sets.
    same_runs(
        "hypergrid_3b_lg_test",
        "hypergrid_3b_lg",
        TABLE_5("88.2 65.6 97.5 89.0 91.6 81.9 90.9 95.9 90.1 89.7"),
        TABLE_6("84.7 89.2 81.7/90.4 89.6 86.6/58.7 91.1/90.3 90.8 70.6 87.7"),
    ),
    *(
        _searched(variant, d_r, d_c)
        for variant in FIGURES
        for d_r in FAN_IN
        for d_c in FAN_OUT
    ),
)
