"""HyperGrid is what the paper's equations say, in whole blocks, with its parameters."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
import hypertf.conditioning
from hypertf.conditioning import hypergrid
from tests.conditioning.hypergrid_naive import Naive
from tests.helpers import V1_1, relative_error, rows, tiny_config, tiny_model

TASKS = 3
GRID = {"d_r": 4, "d_c": 8}


def create(config=None, **options):
    if options.get("variant", "LG") in ("LG", "GL", "L2", "scalar"):
        options = {**GRID, **options}
    config = config or tiny_config()
    return hypertf.conditioning.create("hypergrid", config, TASKS, **options)


def conditioned(overrides=None, **options):
    overrides = overrides or {}
    conditioner = create(tiny_config(**overrides), **options)
    return tiny_model(seed=5, conditioner=conditioner, **overrides)


def batch():
    return {
        "encoder_tokens": rows([4, 7], 7),
        "task_ids": np.array([2, 0], "int32"),
        "decoder_tokens": rows([5, 5], 5, seed=1),
    }


CASES = [
    {"variant": "LG"},
    {"variant": "GL"},
    {"variant": "L2"},
    {"variant": "L"},
    {"variant": "L", "cells": 6},
    {"variant": "L", "axis": "columns"},
    {"variant": "L", "axis": "columns", "cells": 4},
    {"variant": "scalar"},
    {"variant": "scalar", "pool": "logits"},
    {"variant": "max"},
    {"variant": "output"},
    {"variant": "output", "cells": 6},
    {"variant": "output", "residual": True},
    {"variant": "LG", "residual": False},
    {"variant": "L2", "d_r": 2, "d_c": 2},
    {"variant": "LG", "task_embedding": "per-stack"},
    {"variant": "LG", "placement": "first"},
    {"variant": "GL", "placement": "both"},
    {"variant": "LG", "placement": "all", "d_c": 4},
    {"variant": "L", "placement": "all"},
    {"variant": "output", "placement": "both", "cells": 8},
]
GATED = [{"variant": "LG"}, {"variant": "L2", "placement": "all", "d_c": 4}]


def name_of(options):
    return "-".join(str(value) for value in options.values())


@pytest.mark.parametrize("options", CASES, ids=name_of)
def test_whole_blocks_equal_the_equations(options):
    assert_equal_to_naive(conditioned(**options))


@pytest.mark.parametrize("options", GATED, ids=name_of)
def test_whole_blocks_of_the_gated_ffn(options):
    assert_equal_to_naive(conditioned(V1_1, **options))


def assert_equal_to_naive(model):
    inputs, naive = batch(), Naive(model)
    encoded, mask = model.encode(inputs)
    logits = model(inputs)
    for i, task in enumerate(inputs["task_ids"]):
        tokens = inputs["encoder_tokens"][i]
        tokens = tokens[tokens > 0]
        memory, expected = naive.run(tokens, inputs["decoder_tokens"][i], task)
        assert np.sum(mask[i]) == len(memory) == 1 + len(tokens)
        assert relative_error(encoded[i][: len(memory)], memory) < 1e-5
        assert relative_error(logits[i], expected) < 1e-5


@pytest.mark.parametrize(
    "options",
    [{"variant": "LG"}, {"variant": "GL"}, {"variant": "L2", "placement": "both"}],
    ids=name_of,
)
def test_gradients_equal_differences_of_the_equations(options):
    """Of all the method's weights and the kernels they gate, each along one way."""
    model, inputs = conditioned(**options), batch()
    inputs["encoder_tokens"] = rows([7, 7], 7)
    naive, rng = Naive(model), np.random.default_rng(0)
    on_logits = rng.normal(size=(2, 5, model.config.vocab_size))
    variables = {
        name: weight
        for name, weight in hypertf.t5.named_weights(model).items()
        if name.startswith("conditioner/") or "DenseReluDense" in name
    }
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs) * on_logits)
    gradients = tape.gradient(loss, [v.value for v in variables.values()])
    for name, gradient in zip(variables, gradients, strict=True):
        way = rng.normal(size=variables[name].shape)
        losses = []
        for step in (1e-6, -1e-6):
            naive.weights[name] += step * way
            logits = [
                naive.run(*example)[1]
                for example in zip(
                    inputs["encoder_tokens"],
                    inputs["decoder_tokens"],
                    inputs["task_ids"],
                    strict=True,
                )
            ]
            losses.append(np.sum(logits * on_logits))
            naive.weights[name] -= step * way
        difference = (losses[0] - losses[1]) / 2e-6
        gradient = tf.convert_to_tensor(gradient).numpy()
        size = np.linalg.norm(gradient) * np.linalg.norm(way)
        assert abs(difference - np.sum(way * gradient)) < 1e-4 * size, name


def added(config, num_tasks=TASKS, **options):
    conditioner = hypertf.conditioning.create("hypergrid", config, num_tasks, **options)
    with hypertf.t5.Unallocated():
        conditioner.build()
    return conditioner.count_params()


@pytest.mark.parametrize("size", ["t5-small", "t5.1.1-base", "t5-11b"])
def test_parameters_are_those_of_the_paper(size):
    """Per layer and gated kernel; the local column counted with d_m, not d_f."""
    c = hypertf.T5Config.from_name(size)
    d_m, d_f, layers = c.d_model, c.d_ff, c.num_encoder_layers + c.num_decoder_layers
    tasks = TASKS * d_m
    assert added(c) == tasks + layers * (d_m * 32 + 128)
    per_layer = {
        "LG": d_m * 16 + 64,
        "GL": 16 + d_m * 64,
        "L2": d_m * 16 + d_m * 64,
        "scalar": d_m * 16 + d_m * 64,
    }
    for variant, count in per_layer.items():
        got = added(c, variant=variant, d_r=16, d_c=64)
        assert got == tasks + layers * count, variant
    assert added(c, variant="L") == tasks + layers * d_m * d_f
    assert added(c, variant="L", axis="columns") == tasks + layers * d_m * d_m
    assert added(c, variant="max") == tasks + layers * d_m * (d_f + d_m)
    assert added(c, variant="output", cells=64) == tasks + layers * d_m * 64
    own = added(c, task_embedding="per-stack")
    assert own == 2 * tasks + layers * (d_m * 32 + 128)
    kernels = {"first": 1 + c.gated, "both": 2 + c.gated, "all": 5 + c.gated}
    for placement, count in kernels.items():
        got = added(c, placement=placement)
        assert got == tasks + layers * count * (d_m * 32 + 128), placement


def test_initial_values_and_what_trains():
    keras.utils.set_random_seed(0)
    config = tiny_config(d_model=64, d_ff=128)
    model = hypertf.T5(config, create(config, d_r=32, d_c=64))
    conditioner = model.conditioner
    networks = conditioner.encoder_networks + conditioner.decoder_networks
    rows_of_all = np.stack([n.rows for n in networks])
    assert np.std(rows_of_all) == pytest.approx(0.02 / 8, rel=0.05)
    assert np.std([n.columns for n in networks]) == pytest.approx(1.0, rel=0.2)
    assert np.std(conditioner.task_embedding["encoder"]) == pytest.approx(1, rel=0.2)
    frozen = {w.path for w in model.weights} - {w.path for w in model.trainable_weights}
    assert frozen == {model.shared.embedding.path}


@pytest.mark.parametrize(
    "options",
    [{}, {"variant": "GL", "placement": "all", "d_c": 4}, {"variant": "max"}],
    ids=name_of,
)
def test_gradients_reach_every_weight(options):
    model = conditioned({"dropout_rate": 0.1}, trains="all", **options)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(batch(), training=True) ** 2)
    gradients = tape.gradient(loss, [w.value for w in model.trainable_variables])
    for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path


def test_the_task_token_has_seen_the_input_but_no_later_target():
    model, inputs = conditioned(), batch()
    x = model.shared(inputs["encoder_tokens"])
    sites = model.encoder_sites(inputs)
    stream, token_mask = model.encoder.with_tokens(
        x, inputs["encoder_tokens"] > 0, sites
    )
    bias = model.encoder.bias(stream.shape[1], visible=token_mask[:, None])
    block = model.encoder.blocks[0]

    def gates(stream):
        after = block._self_attention(stream, bias, None, sites.blocks[0], False)[0]
        return sites.blocks[0].observe(after, "attention")["wo"]

    changed = stream + tf.one_hot([3], stream.shape[1])[..., None]
    assert relative_error(gates(changed), gates(stream)) > 1e-4
    logits = model(inputs).numpy()
    later = {**inputs, "decoder_tokens": inputs["decoder_tokens"].copy()}
    later["decoder_tokens"][:, 3:] += 2
    others = model(later).numpy()
    assert relative_error(others[:, :3], logits[:, :3]) < 1e-6
    assert relative_error(others[:, 3:], logits[:, 3:]) > 1e-3


def test_sites_hold_nothing_per_example_but_the_token():
    """What baking relies on: the fields of a block are the same for all examples."""
    sites = create_built().encoder(np.array([0, 1]))
    assert sites.num_tokens == 1
    for block in sites.blocks:
        assert isinstance(block, hypergrid.GridSites)
        fields = dataclasses.fields(block)
        assert fields and all(f.metadata.get("shared") for f in fields)


def create_built(**options):
    conditioner = create(**options)
    conditioner.build()
    return conditioner


def test_config_round_trip():
    options = {"variant": "L", "cells": 4, "axis": "columns", "placement": "all"}
    conditioner = create(**options)
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(conditioner)
    )
    assert again.options == conditioner.options
    assert again.get_config() == conditioner.get_config()


WRONG = [
    ({"variant": "LL"}, "variant='LL', expected one of 'L'"),
    ({"placement": "third"}, "placement='third', expected one of 'second'"),
    ({"d_r": 5}, r"d_r=5 does not divide the 24 rows \(fan-in\) of the kernel wo"),
    ({"d_c": 5}, r"d_c=5 does not divide the 16 columns \(fan-out\) of the kernel wo"),
    ({"variant": "L", "cells": 7}, "cells=7 does not divide the 24 rows"),
    ({"d_c": 8, "placement": "all"}, "d_c=8 does not divide the 12 columns .* q"),
    ({"d_r": 0}, "d_r=0, expected an integer >= 1"),
    ({"cells": 4}, "cells=4, expected None with variant='LG'"),
    ({"variant": "max", "d_r": 4}, "d_r=4, expected None with variant='max'"),
    ({"variant": "L", "axis": "both"}, "axis='both', expected one of 'rows'"),
    ({"axis": "rows"}, r"axis='rows', expected None .* \(it is for L\)"),
    ({"pool": "gates"}, "pool='gates', expected None with variant='LG'"),
    ({"residual": "yes"}, "residual='yes', expected True or False"),
    ({"task_embedding": "own"}, "task_embedding='own', expected one of 'shared'"),
    ({"local_std": 0}, "local_std=0, expected a number > 0"),
    ({"rows": 4}, "unknown option 'rows'"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=lambda x: str(x)[:40])
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=f"hypergrid: .*{message}"):
        create(**options)


def test_the_default_grid_names_what_it_does_not_divide():
    with pytest.raises(ValueError, match="hypergrid: d_r=32 does not divide the 24"):
        hypertf.conditioning.create("hypergrid", tiny_config(), TASKS)
