"""HyperFormer (Mahabadi et al., 2021): rows of Tables 1, 3, 4 and 7, and of Figure 2.

Table 1's single-task rows are a run for each task: `hyperformer_base_t5` (beside the
row `hyperformer_base_t5_single`) or `hyperformer_base_adapters`, with
`--mixture=glue/cola` and so on.
"""

from experiments.configs.config import Config

TASKS = ("cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "qnli", "rte")

# Section 3 and appendix A. The paper is silent on the optimizer, lengths, smoothing and
# clipping: those are the public code's, and so are Hugging Face's mean over tokens and
# no z-loss. The code warms up for 500 steps and decays; the paper's rate is constant.
BASE = Config(
    model="t5-base",
    mixture=",".join(f"glue/{task}" for task in TASKS),
    temperature=10.0,
    per_batch=True,
    labels="digits",
    prefix=False,  # section 2.3
    splits="hyperformer",
    inputs_length=128,
    targets_length=128,
    steps=2**18,
    batch_size=32,
    optimizer="adamw",
    learning_rate=3e-4,
    schedule="constant",
    clip_norm=1.0,
    z_loss=0.0,
    label_smoothing=0.1,
    loss_normalization="tokens",
    checkpoint_every=1000,
    keep=0,  # the one that is best on average is chosen
)
SIZES = {"small": BASE.replace(model="t5-small", batch_size=64), "base": BASE}

# Section 3.1: 8, 16 and 32 are tried; figures of Table 1 are those of 32.
R32 = {"reduction": 32}
NORMS, TASK = {"trains": "task+norms"}, {"trains": "task"}
# Appendix A: t' and t; of e, the projector's hidden size, section 4.1 (for ++).
SIZES_OF_TASK = {"task_features": 512, "task_embedding": 64, "task_hidden": 128}
HYPERFORMER = R32 | SIZES_OF_TASK
PLUS_PLUS = HYPERFORMER | {"task_features": 64}  # section 2.4: t' = t
WITHOUT_PROJECTOR = R32 | {"task_projector": False, "task_features": 64}
TABLE_1 = {
    "adapters": ("adapters", R32 | NORMS),
    "adapters_shared_norm": ("adapters-shared-norm", R32 | NORMS),
    "": ("hyperformer", HYPERFORMER | NORMS),
    "plus_plus": ("hyperformer++", PLUS_PLUS | NORMS),
}
# Table 3: of reductions 2 and 4, its parameter counts are those of 2.
TABLE_3 = {
    "adapters_shared_norm_r2": ("adapters-shared-norm", {"reduction": 2} | NORMS)
}
# Table 4 takes parts away, from the small model only.
TABLE_4 = {
    "no_adapter_blocks": {"adapter_blocks": False} | NORMS,
    "no_conditional_norm": HYPERFORMER | {"conditional_norm": False} | NORMS,
    "no_task_projector": WITHOUT_PROJECTOR | NORMS,
    "no_t5_norms": HYPERFORMER | TASK,
    "no_norms": HYPERFORMER | {"conditional_norm": False} | TASK,
}
# Table 7 has scores of the validation sets.
TABLE_7 = {
    f"plus_plus_r{r}": ("hyperformer++", PLUS_PLUS | {"reduction": r} | NORMS)
    for r in (8, 16, 32)
}
# Figure 2 (section 3.3), of which no numbers are printed.
LOW_RESOURCE = {
    f"hyperformer_plus_plus_base_{rows}_rows": BASE.replace(
        conditioner="hyperformer++",
        conditioner_options=PLUS_PLUS | NORMS,
        train_rows=rows,
        steps=15_000,
    )
    for rows in (100, 500, 1000, 2000, 4000)
}


def _name(row, size):
    """hyperformer_base, hyperformer_plus_plus_base, hyperformer_base_adapters."""
    variant, _, rest = row.partition("plus_plus")
    if variant == row:
        return f"hyperformer_{size}_{row}".rstrip("_")
    return f"hyperformer_plus_plus_{size}{rest}"


def _configs():
    for size, config in SIZES.items():
        # Fine-tuned T5 has no other sign of the task than its prefix.
        name = _name("t5", size)
        yield name, config.replace(prefix=True, paper=name)
        for row, (conditioner, options) in (TABLE_1 | TABLE_3 | TABLE_7).items():
            name = _name(row, size)
            yield (
                name,
                config.replace(
                    conditioner=conditioner, conditioner_options=options, paper=name
                ),
            )
    for row, options in TABLE_4.items():
        name = _name(row, "small")
        yield (
            name,
            SIZES["small"].replace(
                conditioner="hyperformer", conditioner_options=options, paper=name
            ),
        )


CONFIGS = dict(_configs()) | LOW_RESOURCE
