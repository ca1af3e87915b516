"""Likeness of tasks: cosines of what a method makes for each."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

import hypertf
from hypertf import analysis
from tests.helpers import mixed_batch, tiny_config, tiny_model


def test_cosines_are_those_of_scikit_learn():
    vectors = np.random.default_rng(0).normal(size=(5, 7)) + 3
    np.testing.assert_allclose(
        analysis.cosines(vectors), cosine_similarity(vectors), rtol=1e-10
    )
    np.testing.assert_allclose(
        analysis.cosines(vectors, centred=True),
        cosine_similarity(vectors - vectors.mean(0)),
        rtol=1e-8,
    )
    assert np.isnan(analysis.cosines(np.ones((3, 2)), centred=True)).all()


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_weights_of_tasks_are_what_examples_of_them_get(stack):
    method = hypertf.conditioning.create(
        "hyperprompt-global", tiny_config(), 3, bottleneck=4
    )
    model = tiny_model(conditioner=method)
    weights = analysis.task_weights(model, stack)
    assert len(weights) == 2
    sites = (
        method.encoder(np.array([2, 0]))
        if stack == "encoder"
        else method.decoder(np.array([2, 0]), None, None)
    )
    keys, values = sites.blocks[1].keys_values()
    found = np.concatenate(list(weights[1].values()), axis=1)[[2, 0]]
    expected = np.concatenate(
        [np.reshape(keys, [2, -1]), np.reshape(values, [2, -1])], 1
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    together = analysis.mean_cosines(weights)
    each = [cosine_similarity(v) for block in weights for v in block.values()]
    np.testing.assert_allclose(together, np.mean(each, 0), rtol=1e-5)


def test_weights_made_of_the_input_are_means_over_its_examples():
    method = hypertf.conditioning.create("hyperdecoder", tiny_config(), 4)
    model = tiny_model(conditioner=method)
    assert analysis.mean_cosines(analysis.task_weights(model, "encoder")) is None
    batch = mixed_batch()
    weights = analysis.task_weights(model, "decoder", [batch])
    one_row = {k: v[[1, 3]] for k, v in batch.items()}  # both of task 2
    alone = analysis.task_weights(model, "decoder", [one_row])
    for block, of_two in zip(weights, alone, strict=True):
        assert block
        for name, values in block.items():
            np.testing.assert_allclose(values[2], of_two[name][2], rtol=1e-4, atol=1e-6)
            assert np.isnan(values[3]).all()
    assert np.isnan(analysis.mean_cosines(weights)[3]).all()


def test_the_plain_model_makes_nothing():
    assert analysis.task_weights(tiny_model(), "encoder") == [{}, {}]


def test_a_curve_has_most_mean_and_least():
    curve = analysis.curve([(8, 70.0), (4, 60.0), (8, 74.0)])
    assert curve.setting.tolist() == [4, 8] and curve.runs.tolist() == [1, 2]
    assert curve.most.tolist() == [60, 74] and curve.least.tolist() == [60, 70]
