"""A run that nobody trained: its weights are drawn, so that its answers differ."""

from unittest import mock

import numpy as np

import hypertf
from experiments.configs import get_config
from experiments.export import export
from experiments.runs import components
from hypertf.training import RunFolder

CONFIG = get_config("nano_hyperprompt_global")  # of eleven tasks
TEXTS = (
    "the old dog sleeps.",
    "",
    "ann saw a cat.",
    "did ben see the small bird? " * 8,  # too long
    "yes",
)


def make_run(path, config=CONFIG, steps=(1,)):
    """Writes config.json and checkpoints, each of weights of its own."""
    folder = RunFolder(path)
    folder.write_text(folder.config_file, config.to_json())
    model = components.make_model(config, components.make_mixture(config))
    for step in steps:
        rng = np.random.default_rng(step)
        for weight in model.weights:
            weight.assign(weight + 0.1 * rng.normal(size=weight.shape))
        hypertf.checkpoints.save(model, folder.prefix(step), format="mesh")
    return str(path)


def export_quickly(model_dir, path, **options):
    """An export without examples, which has not tried its warm-up."""
    with (
        mock.patch("experiments.export.first_examples", return_value={}),
        mock.patch("hypertf.export.saving.warmup.verify"),
    ):
        return export(model_dir, path, **options)
