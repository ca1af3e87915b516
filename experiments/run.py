"""A training run from its configuration: what `experiments.train` does."""

import os
import time

import tensorflow as tf
from absl import logging

import hypertf
from experiments import build, settings
from hypertf import training
from hypertf.training import Loop, RunFolder


def train(config, model_dir, data_dir=None, strategy="auto", tpu=None, profile=False):
    """Runs a configuration to its last step; returns the step reached."""
    began = time.time()
    strategy = training.make_strategy(strategy, tpu)
    training.check_batch_size(strategy, config.batch_size, config.microbatches)
    vocabulary, mixture = build.make_vocabulary(config), build.make_mixture(config)
    vocabulary.check_fits(build.t5_config(config).vocab_size)
    check_data(mixture, data_dir)
    build.check_init(config)
    check_model(config, mixture)
    chief = training.is_chief(strategy)
    folder = RunFolder(model_dir, config.keep, writes=chief)
    if chief:
        folder.lock()
    try:
        if chief:
            settings.claim(model_dir, config)
            print(settings.show(config), flush=True)
        with strategy.scope():
            model = build.make_model(config, mixture)
            optimizer = build.make_optimizer(config)
        step = build.make_train_step(config, model, optimizer, mixture, strategy)
        start = begin(model, optimizer, folder, config)
        if not step.all_processes_have(start):
            raise ValueError(
                f"model_dir={model_dir}: this process begins at step {start}, another "
                "one elsewhere; expected a folder that all processes share"
            )
        loop = Loop(
            step,
            build.make_dataset(config, mixture, vocabulary, data_dir),
            folder,
            steps=config.steps,
            batch_size=config.batch_size,
            steps_per_loop=config.steps_per_loop,
            checkpoint_every=config.checkpoint_every,
            task_names=mixture.identities,
            on_log=TensorBoard(model_dir) if chief else (lambda record: None),
            profile=profile,
        )
        logging.info("ready after %.1f s", time.time() - began)
        reached = loop.run(start)
    finally:
        folder.unlock()
    if profile:
        print(f"waiting for data: {loop.share_waited:.1%} of the time")
    if chief:
        print(f"step {reached} of {config.steps}, {folder.prefix(reached)}")
    return reached


def check_data(mixture, data_dir):
    """Complains of data that is missing."""
    shares = mixture.probabilities("train", data_dir)
    for task in mixture.tasks:
        if shares[task.name]:
            task.num_rows("train", data_dir)


def check_model(config, mixture):
    """Says what is wrong with the conditioner's options before a folder is claimed."""
    with hypertf.t5.Unallocated():
        build.make_model(config, mixture)


def begin(model, optimizer, folder, config):
    """Loads the newest checkpoint, else the initial weights; returns the step."""
    start = folder.restore(model, optimizer)
    if start:
        print(f"going on from {folder.prefix(start)}", flush=True)
        return start
    found = build.load_init(model, config)
    if found is not None:
        print(found, flush=True)
    print(hypertf.analysis.parameters(model), flush=True)
    return 0


class TensorBoard:
    """Writes the records of the loop as TensorBoard scalars."""

    def __init__(self, model_dir):
        self._writer = tf.summary.create_file_writer(os.path.join(model_dir, "train"))

    def __call__(self, record):
        step = record["step"]
        with self._writer.as_default():
            for name in ("loss", "examples_per_second", "learning_rate"):
                tf.summary.scalar(name, record[name], step)
            for task, loss in record["task_loss"].items():
                tf.summary.scalar(f"loss/{task}", loss, step)
        self._writer.flush()
