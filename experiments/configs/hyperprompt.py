"""HyperPrompt (He, Zheng et al., 2022): rows of Tables 1 and 3 to 5, and of Figure 1.

Tables 6 and 7 name T5.1.1 large, and XXL is a size of 1.1, so all are taken to be 1.1;
with it most parameter counts of the tables come out. GLUE and SuperGLUE are together,
as in HyperGrid: RTE scores alike in both, which SuperGLUE alone hardly allows. What
scores best has prompts in both stacks for GLUE, in the decoder only for SuperGLUE.
"""

from experiments.configs.config import Config

# Appendix A.2; checkpoints: section 4.1, the best one of each task.
BASE = Config(
    model="t5.1.1-base",
    mixture="en_mix",  # in proportion to the examples of a task
    inputs_length=512,
    targets_length=32,
    steps=300_000,
    batch_size=128,
    optimizer="adafactor",
    learning_rate=1e-3,
    schedule="constant",
    loss_normalization="target_size",  # as Mesh TensorFlow has it
    checkpoint_every=2000,
    keep=0,
)
SIZES = {
    "base": BASE,
    "large": BASE.replace(model="t5.1.1-large"),
    "xxl": BASE.replace(model="t5.1.1-xxl"),
}

# Section 4.7: the best lengths on T5 base, "similar" on large; 4.8: decoder only.
BOTH = {"encoder_length": 16, "decoder_length": 6}
ENCODER_ONLY = BOTH | {"decoder_length": 0}
DECODER_ONLY = BOTH | {"encoder_length": 0}
ALL, TASK = {"trains": "all"}, {"trains": "task"}  # section 4.3
# Of the choices in A.2, those that give the parameter counts of Tables 3 and 4.
SHARE = {"reduction": 32}
SEP = {"reduction": 64}  # with 16 tasks
GLOBAL = {"reduction": 32, "embedding_size": 64}
# The smallest of the choices: 0.3% of XXL, where the abstract says 0.14%.
SMALL_GLOBAL = {"reduction": 64, "embedding_size": 32}
# Baselines have "approximately the same numbers of parameters" (A.2), and reduction 64
# and 16 have those of Tables 3 and 4. Houlsby's adapters have no norm.
ADAPTERS = {"reduction": 64, "norm_after": False}
HYPERFORMER = {"reduction": 16}
# A length is not given. Table 2's operations are those of 512 + 100 tokens, and 100 is
# what the public recipe has.
PROMPT_TUNING = {"length": 100}

# The rows of both sizes: conditioner and options.
ROWS = {
    "mtl": ("none", {}),
    "adapters": ("adapters-shared-norm", ADAPTERS | ALL),
    "hyperformer_plus_plus": ("hyperformer++", HYPERFORMER | ALL),
    "prompt_tuning": ("prompt-tuning", PROMPT_TUNING | ALL),
    "share": ("hyperprompt-share", SHARE | BOTH | ALL),
    "share_decoder_only": ("hyperprompt-share", SHARE | DECODER_ONLY | ALL),
    "sep": ("hyperprompt-sep", SEP | BOTH | ALL),
    "sep_decoder_only": ("hyperprompt-sep", SEP | DECODER_ONLY | ALL),
    "global": ("hyperprompt-global", GLOBAL | BOTH | ALL),
    "decoder_only": ("hyperprompt-global", GLOBAL | DECODER_ONLY | ALL),
}
TABLES = {
    "base": ROWS
    | {"encoder_only": ("hyperprompt-global", GLOBAL | ENCODER_ONLY | ALL)},  # Table 5
    "large": ROWS
    | {  # Table 1: only what is conditioned on the task is tuned
        "global_task_only": ("hyperprompt-global", GLOBAL | BOTH | TASK),
        "decoder_only_task_only": ("hyperprompt-global", GLOBAL | DECODER_ONLY | TASK),
        "hyperformer_plus_plus_task_only": ("hyperformer++", HYPERFORMER | TASK),
    },
    "xxl": {  # Figure 1 and section 4.2, of SuperGLUE
        "mtl": ("none", {}),
        "decoder_only": ("hyperprompt-global", SMALL_GLOBAL | DECODER_ONLY | ALL),
    },
}


def _configs():
    for size, rows in TABLES.items():
        for row, (conditioner, options) in rows.items():
            name = f"hyperprompt_{size}_{row}"
            yield (
                name,
                SIZES[size].replace(
                    conditioner=conditioner, conditioner_options=options, paper=name
                ),
            )


CONFIGS = dict(_configs())
