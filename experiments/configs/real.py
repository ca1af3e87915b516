"""Real GLUE and SuperGLUE tasks on a CPU, from a pretrained T5 1.1-small."""

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
    targets_length=16,
    steps=300,
    batch_size=16,
    learning_rate=1e-3,
    loss_normalization="tokens",
    steps_per_loop=20,
    checkpoint_every=300,
)

CONFIGS = {
    "real_small": PLAIN,
    "real_small_hyperprompt_global": PLAIN.replace(conditioner="hyperprompt-global"),
}
