"""HyperGrid (Tay et al., 2021): rows of Tables 1 to 4 and 7."""

from experiments.configs.config import Config

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
LARGER = {"steps": 200_000, "keep": 0}
SIZES = {
    "base": BASE,
    "large": BASE.replace(model="t5-large", **LARGER),
    "3b": BASE.replace(model="t5-3b", **LARGER),
    "11b": BASE.replace(model="t5-11b", **LARGER),
}
# Section 6.3: 32x128 (or 32x256) for 3B and 11B. What the smaller models ended with
# is not printed, so the same.
GRID = {"d_r": 32, "d_c": 128}
VARIANTS = {
    "l": {"variant": "L"},  # one gate for each row (eq. 2)
    "l2": {"variant": "L2", **GRID},
    "gl": {"variant": "GL", **GRID},
    "lg": {"variant": "LG", **GRID},
}
# Table 4. The number of cells is the paper's "OG (16)".
OUTPUT_GATING = {"og": {"variant": "output"}} | {
    f"og_{cells}": {"variant": "output", "cells": cells} for cells in (16, 32, 64)
}
# Table 7. Its row (4) has the score of L2 in Table 4, so all are taken to be L2.
ABLATIONS = {
    "l2_all": VARIANTS["l2"] | {"placement": "all"},
    "l2_both_ffn": VARIANTS["l2"] | {"placement": "both"},
    "l2_first_ffn": VARIANTS["l2"] | {"placement": "first"},
    "scalar": {"variant": "scalar", **GRID},
    "max_grid": {"variant": "max"},
}
ROWS = {
    "base": VARIANTS | OUTPUT_GATING | ABLATIONS,
    "large": VARIANTS,
    "3b": {"lg": VARIANTS["lg"]},
    "11b": {"lg": VARIANTS["lg"]},
}
FROZEN = {"trains": "all-but-embeddings"}  # section 6.3


def _configs():
    # The "Single Model"; unlike the paper's, it trains the embeddings as well.
    for size in ("base", "large", "3b"):
        name = f"hypergrid_{size}_mtl"
        yield name, SIZES[size].replace(paper=name)
    for size, rows in ROWS.items():
        for row, options in rows.items():
            name = f"hypergrid_{size}_{row}"
            yield (
                name,
                SIZES[size].replace(
                    conditioner="hypergrid",
                    conditioner_options=options | FROZEN,
                    paper=name,
                ),
            )


CONFIGS = dict(_configs())
