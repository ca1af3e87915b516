"""`Config`: everything that decides what a training run computes."""

import dataclasses
import json
from collections.abc import Mapping

from hypertf.names import unknown
from tfds_tasks import modules
from tfds_tasks.named_mixtures import identities
from tfds_tasks.packing import MODES, POOL

OPTIMIZERS = ("adafactor", "adamw")
SCHEDULES = ("constant", "linear")
PRECISIONS = ("float32", "mixed_bfloat16")
NORMALIZATIONS = ("target_size", "tokens", "sum")
BATCH_UNITS = ("rows", "examples", "tokens")
DECODING = ("greedy", "beam", "rank", "task")
HEADS = ("decoder", "linear")


def setting(
    default: object,
    help: str,
    free: bool = False,
    flag: bool = True,
    **kwargs: object,
) -> dataclasses.Field:
    """Makes a field; `free` ones may change between two starts of the same run.

    One without a `flag` is not set by users, but worked out from the others.
    """
    metadata = {"help": help, "free": free, "flag": flag}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata, **kwargs)
    return dataclasses.field(default=default, metadata=metadata, **kwargs)


@dataclasses.dataclass(frozen=True)
class Config:
    """A run. `experiments.train` has a flag for each field, named as it is.

    ```python
    config = Config(model="t5-base", conditioner="hyperprompt-global", steps=1000)
    config = dataclasses.replace(config, batch_size=64)
    ```
    """

    # The model.
    model: str = setting("t5-base", "Size of the T5, such as t5.1.1-small.")
    init: str | None = setting(
        None,
        "Weights to start from: a Mesh TensorFlow prefix, a Hugging Face folder, a "
        "KerasHub preset folder or another run's model_dir; at random if absent.",
    )
    init_tasks: Mapping = setting(
        dict,
        "With init a run of other tasks, where new ones start: new:old,... Old is one "
        "of its tasks, nearest (by the loss of a few rows) or mean.",
    )
    conditioner: str = setting("none", "Method, such as hyperprompt-global.")
    conditioner_options: Mapping = setting(
        dict, "The method's options, name=value,... Unset ones are its defaults."
    )
    precision: str = setting("float32", f"One of {', '.join(PRECISIONS)}.")
    dropout: float | None = setting(
        None, "Dropout rate; by default the model's (0.1, also for T5 1.1)."
    )
    shared_dropout: bool = setting(
        True, "One draw for all positions of a row (Mesh), else one for each element."
    )
    rematerialize: bool = setting(
        False, "Compute blocks again in the backward pass: less memory, more time."
    )
    loop_layers: bool = setting(
        False, "Run blocks that are alike as a loop: a deep model compiles sooner."
    )
    head: str = setting(
        "decoder",
        "What is trained to answer: the decoder, or linear: a classifier for each task "
        "on the encoder of init, which stays as it is.",
    )
    # The data.
    mixture: str = setting(
        "en_mix",
        "Mixtures, tasks and TOML files that declare tasks, joined by commas.",
    )
    declared: Mapping = setting(
        dict, "What the TOML files of mixture say: {file: {task: ...}}.", flag=False
    )
    module_import: str | None = setting(None, modules.HELP, True)
    vocabulary: str | None = setting(
        None,
        "SentencePiece file, folder that has one, KerasHub preset, or nano; by default "
        "what lies beside the weights of init, else T5's (nano for t5-nano).",
    )
    rates: str = setting(
        "proportional",
        "How tasks are drawn: proportional to their examples, equal, or chunks: "
        "proportional, by chunks where long examples are cut (MRQA).",
    )
    rate_scale: float = setting(1.0, "Factor on the number of examples of a task.")
    rate_cap: int | None = setting(None, "Most examples that a task counts for.")
    temperature: float = setting(1.0, "Rates are taken to the power 1 / temperature.")
    per_batch: bool = setting(False, "Draw one task per batch instead of per example.")
    labels: str = setting("words", "Labels as words (T5) or digits (HyperFormer).")
    prefix: bool | None = setting(None, "The task's name before the text; as the task.")
    splits: str = setting("t5", "Whose splits: t5, hyperformer or hyperdecoders.")
    train_tasks: str | None = setting(
        None, "Tasks of the mixture that are trained, joined by commas; all."
    )
    train_rows: int | None = setting(None, "Training rows kept of each task; all.")
    data_seed: int = setting(42, "Decides which rows change split or are kept.")
    inputs_length: int = setting(512, "Tokens of an input.")
    targets_length: int = setting(64, "Tokens of a target.")
    packing: str = setting(
        "off",
        "Several examples side by side in a row: task, of one task; mixed, of any; "
        "off, one example a row.",
    )
    max_segments: int | None = setting(
        None, "Examples of a packed row at most; inputs_length / 8, no more than 32."
    )
    packing_pool: int = setting(POOL, "Consecutive examples that are packed together.")
    # The optimisation.
    steps: int = setting(100_000, "Training steps in all; epochs decides if given.")
    epochs: float | None = setting(
        None, "Passes over the training examples of all tasks, instead of steps."
    )
    batch_size: int = setting(128, "Rows of a step, over all replicas.")
    batch_unit: str = setting(
        "rows",
        "What batch_size counts: rows, examples or tokens (of inputs, no padding). The "
        "last two in the mean: every step has as many rows.",
    )
    batch_rows: int | None = setting(
        None, "Rows of a step, worked out where batch_size counts others.", flag=False
    )
    microbatches: int = setting(
        1, "Gradient accumulation: parts in which a replica takes its share of a batch."
    )
    optimizer: str = setting("adafactor", f"One of {', '.join(OPTIMIZERS)}.")
    learning_rate: float = setting(1e-3, "The highest rate.")
    learning_rates: Mapping = setting(
        dict,
        "The highest rates of weights whose name holds a word, word=rate,... The "
        "schedule is the same.",
    )
    schedule: str = setting(
        "constant", "constant, or linear: down to final_learning_rate at the last step."
    )
    warmup_steps: int = setting(0, "Steps in which the rate rises from 0.")
    decay_start: int = setting(0, "With linear, the step at which the rate falls.")
    final_learning_rate: float = setting(0.0, "With linear, the rate at the last step.")
    weight_decay: float = setting(0.0, "Decay of the weights, times the rate.")
    clip_norm: float | None = setting(None, "Largest norm of all gradients together.")
    parameter_scale: bool = setting(
        True, "With adafactor, steps are relative to the size of a weight."
    )
    z_loss: float = setting(1e-4, "Weight of log(Z)^2 in the loss.")
    label_smoothing: float = setting(0.0, "Mass spread over the vocabulary.")
    loss_normalization: str = setting(
        "target_size",
        "What the loss is divided by: target_size (Mesh TensorFlow: padding counts), "
        "tokens, or nothing: sum.",
    )
    seed: int = setting(0, "Decides fresh weights, dropout and the order of the data.")
    # What is kept and shown.
    steps_per_loop: int = setting(100, "Steps run between two looks at them.", True)
    checkpoint_every: int = setting(5000, "Steps between two checkpoints.", True)
    keep: int = setting(10, "Newest checkpoints kept; 0 keeps all.", True)
    # How it is evaluated.
    decoding: str = setting(
        "greedy",
        f"One of {', '.join(DECODING)}; task is as each task's papers have it (exports "
        "are greedy then).",
        True,
    )
    beam_size: int = setting(4, "Beams of beam search.", True)
    paper: str | None = setting(
        None, "Row of a paper that report sets beside the scores.", True
    )

    def __post_init__(self) -> None:
        for name in ("conditioner_options", "declared", "learning_rates", "init_tasks"):
            object.__setattr__(self, name, dict(getattr(self, name)))
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                self._complain(name, f"one of {', '.join(choices)}")
        for name in _POSITIVE:
            if not _is_integer(getattr(self, name), 1):
                self._complain(name, "an integer >= 1")
        for name in _COUNTS:
            if not _is_integer(getattr(self, name), 0):
                self._complain(name, "an integer >= 0")
        for name in ("learning_rate", "final_learning_rate", "weight_decay"):
            if not getattr(self, name) >= 0:
                self._complain(name, "a number >= 0")
        for name in ("dropout", "label_smoothing", "z_loss"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                self._complain(name, "a number, 0 <= value < 1")
        for name in ("clip_norm", "epochs"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                self._complain(name, "a number > 0")
        self._check_rates()
        self._check_schedule()
        if self.batch_unit == "rows" and self.batch_size % self.microbatches:
            self._complain("microbatches", f"a divisor of batch_size={self.batch_size}")
        self._check_packing()
        self._check_head()
        if self.conditioner_options.get("trains") == "task-vectors" and (
            self.weight_decay  # which moves vectors that are not drawn
        ):
            self._complain("weight_decay", "0 with trains='task-vectors'")

    def _check_packing(self):
        for name in ("max_segments", "batch_rows"):
            value = getattr(self, name)
            if value is not None and not _is_integer(value, 1):
                self._complain(name, "an integer >= 1")
        if self.packing != "off" and self.per_batch:
            self._complain("per_batch", f"False with packing={self.packing!r}")
        if self.packing == "off" and self.max_segments is not None:
            self._complain("max_segments", "none with packing='off'")

    def _check_head(self):
        if self.head == "linear" and self.packing != "off":
            self._complain("packing", "'off' with head='linear'")
        if self.head == "linear" and self.label_smoothing:
            self._complain("label_smoothing", "0 with head='linear'")

    @property
    def rows(self) -> int:
        """Rows of a step, over all replicas."""
        return self.batch_rows or self.batch_size

    def _check_rates(self):
        for word, rate in self.learning_rates.items():
            if not isinstance(rate, int | float) or not rate >= 0:
                self._complain("learning_rates", f"a number >= 0 for {word!r}")
        if self.learning_rates and not self.learning_rate:
            self._complain("learning_rate", "more than 0 with learning_rates")
        if self.learning_rates and self.weight_decay:
            self._complain("weight_decay", "0 with learning_rates")

    def _check_schedule(self):
        if self.schedule == "constant":
            for name in ("decay_start", "final_learning_rate"):
                if getattr(self, name):
                    self._complain(name, "0, as schedule='constant' does not decay")
        start = max(self.warmup_steps, self.decay_start)
        if self.schedule == "linear" and start >= self.steps:
            name = max("warmup_steps", "decay_start", key=lambda n: getattr(self, n))
            self._complain(name, f"less than steps={self.steps}")
        if self.optimizer != "adafactor" and not self.parameter_scale:
            self._complain("parameter_scale", "True: only adafactor has this option")

    def _complain(self, name, expected):
        raise ValueError(f"{name}={getattr(self, name)!r}, expected {expected}")

    def to_json(self) -> str:
        """Writes the text of config.json."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """Reads the configuration that `to_json` wrote."""
        values = json.loads(text)
        others = sorted(set(values) - set(field_names()))
        if others:
            raise ValueError(f"a config with unknown fields: {', '.join(others)}")
        return cls(**values)

    def replace(self, **changes: object) -> "Config":
        """Returns a copy with other values; a misspelt field gets the nearest name."""
        for name in changes:
            if name not in field_names():
                raise ValueError(unknown("field of a config", name, field_names()))
        return dataclasses.replace(self, **changes)

    def differences(self, other: "Config") -> dict[str, tuple]:
        """Lists {field: (mine, the other's)} of what may not change within a run.

        More steps are no other run where the rate does not depend on their number.
        """
        different = {}
        for field in dataclasses.fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            free = field.metadata["free"]
            if field.name == "steps" and self.schedule == "constant":
                free = True
            if field.name == "declared":
                mine, theirs = identities(mine), identities(theirs)
            if mine != theirs and not free:
                different[field.name] = mine, theirs
        return different


def field_names() -> list[str]:
    """Lists the names of all settings."""
    return [field.name for field in dataclasses.fields(Config)]


def _is_integer(value, least):
    return type(value) is int and value >= least


_CHOICES = {
    "head": HEADS,
    "precision": PRECISIONS,
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "loss_normalization": NORMALIZATIONS,
    "decoding": DECODING,
    "packing": MODES,
    "batch_unit": BATCH_UNITS,
}
_POSITIVE = (
    "inputs_length",
    "targets_length",
    "steps",
    "packing_pool",
    "batch_size",
    "microbatches",
    "steps_per_loop",
    "checkpoint_every",
    "beam_size",
)
_COUNTS = ("warmup_steps", "decay_start", "keep", "seed", "data_seed")
