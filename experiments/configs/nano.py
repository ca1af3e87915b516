"""The embedded tasks: from scratch in minutes on two cores."""

from experiments.runs.config import Config

PLAIN = Config(
    model="t5-nano",
    mixture="nano",
    vocabulary="nano",
    temperature=3.0,
    inputs_length=28,
    targets_length=6,
    steps=700,
    batch_size=64,
    learning_rate=0.015,
    schedule="linear",
    decay_start=420,
    final_learning_rate=0.0015,
    loss_normalization="tokens",
    z_loss=0.0,
    dropout=0.0,
    steps_per_loop=25,
    checkpoint_every=350,
)

CONFIGS = {
    "nano": PLAIN,
    # The task is named in the text, which is longer by that.
    "nano_named": PLAIN.replace(prefix=True, inputs_length=32),
    "nano_hyperprompt_global": PLAIN.replace(conditioner="hyperprompt-global"),
}
