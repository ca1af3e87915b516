"""From a `Config` to the objects of a run; checks what can be checked first."""

import os

import keras

import hypertf
from hypertf.training import LinearSchedule, TrainStep
from tfds_tasks import get_mixture, get_vocabulary, vocabulary

PRESET = "t5_small_multi"  # of KerasHub: the vocabulary that all T5 share


def make_vocabulary(config):
    """The vocabulary of `config.vocabulary`, or the one its docstring promises."""
    if config.vocabulary is not None:
        return get_vocabulary(config.vocabulary)
    if config.model == "t5-nano":
        return get_vocabulary("nano")
    if config.init and vocabulary.is_beside(config.init):
        return get_vocabulary(config.init)
    return get_vocabulary(PRESET)


def make_mixture(config):
    return get_mixture(
        config.mixture,
        rates=config.rates,
        scale=config.rate_scale,
        cap=config.rate_cap,
        temperature=config.temperature,
        labels=config.labels,
        prefix=config.prefix,
        splits=config.splits,
        rows=config.train_rows,
        seed=config.data_seed,
    )


def t5_config(config):
    changes = {} if config.dropout is None else {"dropout_rate": config.dropout}
    return hypertf.T5Config.from_name(config.model, **changes)


def make_model(config, mixture):
    """A fresh model: the seed decides its weights."""
    keras.utils.set_random_seed(config.seed)
    keras.config.set_dtype_policy(config.precision)
    t5 = t5_config(config)
    conditioner = hypertf.conditioning.create(
        config.conditioner, t5, mixture.num_tasks, **config.conditioner_options
    )
    return hypertf.T5(t5, conditioner=conditioner, rematerialize=config.rematerialize)


def check_init(config):
    """Says what is wrong with `config.init` before anything is built."""
    if config.init is None:
        return
    with hypertf.checkpoints.open_checkpoint(config.init):
        pass


def load_init(model, config):
    """Fills the model from `config.init`; returns what was found, None if unset."""
    if config.init is None:
        return None
    return hypertf.checkpoints.load(model, config.init)


def make_optimizer(config):
    options = {"weight_decay": config.weight_decay or None}
    rate = config.learning_rate
    if config.schedule == "linear":
        start = max(config.warmup_steps, config.decay_start)
        rate = LinearSchedule(
            rate, config.warmup_steps, start, config.steps, config.final_learning_rate
        )
    elif config.warmup_steps:
        rate = LinearSchedule(rate, config.warmup_steps)
    if config.optimizer == "adamw":
        return hypertf.optimizers.AdamW(rate, weight_decay=config.weight_decay)
    return hypertf.Adafactor(
        rate, multiply_by_parameter_scale=config.parameter_scale, **options
    )


def make_train_step(config, model, optimizer, mixture, strategy):
    return TrainStep(
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
    )


def make_dataset(config, mixture, vocabulary, data_dir):
    """A function of start, host and num_hosts to tf.data of training batches."""

    def make(start=0, host=0, num_hosts=1):
        return mixture.dataset(
            "train",
            vocabulary=vocabulary,
            batch_size=config.batch_size,
            inputs_length=config.inputs_length,
            targets_length=config.targets_length,
            seed=config.seed,
            start=start,
            per_batch=config.per_batch,
            host=host,
            num_hosts=num_hosts,
            data_dir=data_dir,
            check_lengths=host == 0 and start == 0,
        )

    return make


def expand(path):
    """A local path with ~ filled in; None and remote paths as they are."""
    return path if path is None or "://" in path else os.path.expanduser(path)
