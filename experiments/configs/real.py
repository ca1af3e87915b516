"""Real GLUE and SuperGLUE tasks on a CPU, from a pretrained T5 1.1-small.

Rows are packed; `real_small_unpacked` is what the same rows and steps, and so the same
time, come to with one example a row. `experiments/results/real_small` has the scores.
"""

from experiments.runs.config import Config

TASKS = (
    *(f"glue/{name}" for name in ("rte", "mrpc", "cola", "stsb", "sst2")),
    *(f"super_glue/{name}" for name in ("cb", "copa", "boolq", "wic", "wsc")),
)
PLAIN = Config(
    model="t5.1.1-small",
    mixture=",".join(TASKS),
    temperature=2.0,  # SST-2 has 270 times as many rows as CB
    inputs_length=128,
    targets_length=24,
    packing="mixed",
    steps=400,
    batch_size=16,
    learning_rate=1e-3,
    loss_normalization="tokens",
    steps_per_loop=20,
    checkpoint_every=100,
    keep=1,
)

CONFIGS = {
    "real_small": PLAIN,
    "real_small_hyperprompt_global": PLAIN.replace(
        conditioner="hyperprompt-global", packing="task"
    ),
    "real_small_unpacked": PLAIN.replace(packing="off", targets_length=16),
}
