"""The objects of a run, made from its `Config`: data, model, optimizer, step."""

import math
import os
import re
from collections.abc import Callable

import keras
import tensorflow as tf

import hypertf
from experiments.runs.config import Config
from hypertf.training import LinearSchedule, TrainStep
from tfds_tasks import Mixture, Vocabulary, get_mixture, get_vocabulary, vocabulary
from tfds_tasks.named_mixtures import declarations
from tfds_tasks.packed_batches import Fill
from tfds_tasks.packing import Packing

NANO_ROWS = hypertf.T5Config.from_name("t5-nano").vocab_size
PRESET = "t5_small_multi"  # of KerasHub: the vocabulary that all T5 share


def make_vocabulary(config: Config) -> Vocabulary:
    """Opens the vocabulary of `config.vocabulary`, or the one its help promises."""
    if config.vocabulary is not None:
        return get_vocabulary(config.vocabulary)
    if config.model == "t5-nano":
        return get_vocabulary("nano")
    if config.init and vocabulary.is_beside(config.init):
        return get_vocabulary(config.init)
    return get_vocabulary(PRESET)


def make_mixture(config: Config) -> Mixture:
    """Makes the mixture of `config.mixture`, its tasks written and drawn as it says."""
    return get_mixture(
        config.mixture,
        rates="proportional" if config.rates == "chunks" else config.rates,
        scale=config.rate_scale,
        cap=config.rate_cap,
        temperature=config.temperature,
        labels=config.labels,
        prefix=config.prefix,
        splits=config.splits,
        rows=config.train_rows,
        seed=config.data_seed,
        declared=config.declared or None,
    )


def training_mixture(config: Config, mixture: Mixture) -> Mixture:
    """Returns the part of a mixture that is trained; its tasks keep their ids."""
    if config.train_tasks is not None:
        names = [name.strip() for name in config.train_tasks.split(",")]
        mixture = mixture.only(names)
    return labelled(mixture) if config.head == "linear" else mixture


def labelled(mixture: Mixture) -> Mixture:
    """Returns the part of a mixture whose tasks are answered by one of their labels."""
    names = [task.name for task in mixture.tasks if task.choices is not None]
    if not names:
        raise ValueError(
            f"head='linear': no task of {mixture.name} is answered by one of its "
            "labels; expected one at least"
        )
    return mixture.only(names)


def with_declarations(config: Config, data_dir: str | None) -> Config:
    """Takes into a configuration what the TOML files of its mixture say.

    A run then knows its tasks, wherever the files go.
    """
    if config.declared:
        return config
    return config.replace(declared=declarations(config.mixture, data_dir))


def with_steps(
    config: Config, mixture: Mixture, data_dir: str | None, fill: Fill | None = None
) -> Config:
    """Works out the steps of a run whose length is given in epochs.

    `fill` says how many examples a row has, if it is not one.
    """
    if config.epochs is None:
        return config
    shares = mixture.probabilities("train", data_dir)
    tasks = [task for task in mixture.tasks if shares[task.name]]
    for task in tasks:
        if task.chunks is not None and config.rates != "chunks":
            raise ValueError(
                f"epochs={config.epochs}: {task.name} is cut into chunks, which are "
                "counted with rates='chunks' only; expected that, or steps"
            )
    examples = sum(
        task.num_examples("train", data_dir) if task.chunks is None else task.rate
        for task in tasks
    )
    in_a_step = config.rows * (fill.examples_per_row if fill else 1)
    return config.replace(steps=math.ceil(config.epochs * examples / in_a_step))


def make_packing(config: Config) -> Packing | None:
    """Makes of the configuration how rows are packed; None if they are not."""
    if config.packing == "off":
        return None
    return Packing(config.packing, config.max_segments, config.packing_pool)


def measure_fill(
    config: Config, mixture: Mixture, vocabulary: Vocabulary, data_dir: str | None
) -> Fill | None:
    """Measures what packed rows hold; None where no one needs to know it."""
    packing = make_packing(config)
    if packing is None and config.batch_unit != "tokens":
        return None
    return mixture.fill(
        packing or Packing("mixed", max_segments=1),
        vocabulary=vocabulary,
        inputs_length=config.inputs_length,
        targets_length=config.targets_length,
        seed=config.seed,
        data_dir=data_dir,
    )


def with_rows(config: Config, fill: Fill | None, parts: int) -> Config:
    """Works out the rows of a step that is given in examples or tokens.

    Args:
        fill: as `measure_fill` gives it.
        parts: of a batch that have to be equal: replicas times microbatches.
    """
    if config.batch_unit == "rows":
        return config
    in_a_row = 1.0
    if fill is not None:
        count = fill.inputs if config.batch_unit == "tokens" else fill.examples
        in_a_row = count / fill.rows
    rows = max(1, round(config.batch_size / in_a_row / parts)) * parts
    return config.replace(batch_rows=rows)


def check_rates(config: Config, model: hypertf.T5) -> None:
    """Says which word of `config.learning_rates` is in no trained weight's name."""
    make_optimizer(config).rate_factors.check(model.trainable_variables)


def t5_config(config: Config) -> hypertf.T5Config:
    """Returns the sizes of the model; t5-nano's table is made to fit its vocabulary."""
    changes = {"shared_dropout": config.shared_dropout}
    if config.dropout is not None:
        changes["dropout_rate"] = config.dropout
    if config.model == "t5-nano" and config.vocabulary not in (None, "nano"):
        changes["vocab_size"] = get_vocabulary(config.vocabulary).rows(NANO_ROWS)
    return hypertf.T5Config.from_name(config.model, **changes)


def make_model(config: Config, mixture: Mixture) -> hypertf.T5:
    """Makes a fresh model, whose weights the seed decides."""
    check_writes(config)
    keras.utils.set_random_seed(config.seed)
    keras.config.set_dtype_policy(config.precision)
    t5 = t5_config(config)
    conditioner = hypertf.conditioning.create(
        config.conditioner, t5, mixture.num_tasks, **config.conditioner_options
    )
    return hypertf.T5(
        t5,
        conditioner=conditioner,
        rematerialize=config.rematerialize,
        loop_layers=config.loop_layers,
    )


def check_writes(config: Config) -> None:
    """Refuses a run of classifiers where a T5 is wanted that answers in text."""
    if config.head != "decoder":
        raise ValueError(
            f"head={config.head!r}: classifiers on an encoder write no text; expected "
            f"experiments.evaluate, or the run whose encoder it is, {config.init}"
        )


def check_init(config: Config) -> None:
    """Says what is wrong with `config.init` before anything is made."""
    if config.init is None:
        return
    with hypertf.checkpoints.open_checkpoint(config.init):
        pass


def make_optimizer(config: Config) -> keras.optimizers.Optimizer:
    """Makes the optimizer with its schedule."""
    options = {"weight_decay": config.weight_decay or None}
    rate = config.learning_rate
    if config.schedule == "linear":
        start = max(config.warmup_steps, config.decay_start)
        rate = LinearSchedule(
            rate, config.warmup_steps, start, config.steps, config.final_learning_rate
        )
    elif config.warmup_steps:
        rate = LinearSchedule(rate, config.warmup_steps)
    factors = {
        re.escape(word): own / config.learning_rate
        for word, own in config.learning_rates.items()
    }
    if config.optimizer == "adamw":
        return hypertf.optimizers.AdamW(
            rate, weight_decay=config.weight_decay, rate_factors=factors
        )
    return hypertf.Adafactor(
        rate,
        multiply_by_parameter_scale=config.parameter_scale,
        rate_factors=factors,
        **options,
    )


def make_train_step(
    config: Config,
    model: hypertf.T5,
    optimizer: keras.optimizers.Optimizer,
    mixture: Mixture,
    strategy: tf.distribute.Strategy,
    jit_compile: bool = False,
    kind: type[TrainStep] = TrainStep,
) -> TrainStep:
    """Makes the step with the loss and the micro-batches that the run has."""
    return kind(
        model,
        optimizer,
        mixture.num_tasks,
        strategy,
        microbatches=config.microbatches,
        clip_norm=config.clip_norm,
        z_loss=config.z_loss,
        label_smoothing=config.label_smoothing,
        normalization=config.loss_normalization,
        seed=config.seed,
        jit_compile=jit_compile,
    )


def make_dataset(
    config: Config, mixture: Mixture, vocabulary: Vocabulary, data_dir: str | None
) -> Callable[..., tf.data.Dataset]:
    """Returns a function of start, host and num_hosts to batches for training."""
    packing = make_packing(config)
    mixture = training_mixture(config, mixture)

    def make(start=0, host=0, num_hosts=1):
        if packing is not None and isinstance(start, int) and start:
            raise ValueError(
                f"model.ckpt-{start} does not say where packed data go on; expected "
                f"model.ckpt-{start}.position.json beside it"
            )
        return mixture.dataset(
            "train",
            vocabulary=vocabulary,
            batch_size=config.rows,
            inputs_length=config.inputs_length,
            targets_length=config.targets_length,
            seed=config.seed,
            start=start,
            per_batch=config.per_batch,
            packing=packing,
            host=host,
            num_hosts=num_hosts,
            data_dir=data_dir,
            check_lengths=host == 0 and start == 0,
        )

    return make


def expand(path: str | os.PathLike | None) -> str | None:
    """Fills in the ~ of a local path; None and remote paths stay as they are."""
    if path is None:
        return None
    path = os.fspath(path)
    return path if "://" in path else os.path.expanduser(path)
