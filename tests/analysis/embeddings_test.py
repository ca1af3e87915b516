"""Vectors of tasks and inputs, and their maps, against scikit-learn and the model."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

import hypertf
from hypertf import analysis
from tests.helpers import mixed_batch, tiny_config, tiny_model


def conditioned(name, **options):
    method = hypertf.conditioning.create(name, tiny_config(), 3, **options)
    return tiny_model(conditioner=method)


def test_pca_is_that_of_the_covariance():
    vectors = np.random.default_rng(0).normal(size=(9, 5)) * [5, 3, 1, 1, 1]
    points, explained = analysis.pca(vectors)
    values, directions = np.linalg.eigh(np.cov(vectors.T))
    expected = (vectors - vectors.mean(0)) @ directions[:, :-3:-1]
    np.testing.assert_allclose(np.abs(points), np.abs(expected), rtol=1e-6)
    np.testing.assert_allclose(explained, values[:-3:-1] / values.sum(), rtol=1e-6)
    theirs = PCA(2, svd_solver="full").fit_transform(vectors)
    np.testing.assert_allclose(points, theirs, rtol=1e-6)


def test_equal_vectors_lie_in_one_place():
    points, explained = analysis.pca(np.ones((4, 3)))
    assert not points.any() and not explained.any()
    assert analysis.pca(np.eye(1, 3)).points.shape == (1, 2)


def test_tsne_is_repeatable_and_keeps_groups_apart():
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 10)
    vectors = rng.normal(size=(20, 6)) + 20 * groups[:, None]
    points = analysis.tsne(vectors)
    np.testing.assert_array_equal(points, analysis.tsne(vectors))
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.fill_diagonal(distances, np.inf)
    assert (groups[distances.argmin(1)] == groups).all()
    with pytest.raises(ValueError, match="t-SNE of 3 points, expected at least 4"):
        analysis.tsne(vectors[:3])


def test_task_vectors_are_the_tables_that_blocks_share():
    model = conditioned("hyperformer++")
    (table,) = analysis.task_vectors(model).values()
    assert table.shape[0] == 3
    assert not analysis.task_vectors(tiny_model())
    assert not analysis.task_vectors(conditioned("parallel-adapters"))
    assert analysis.task_vectors(conditioned("hypergrid", d_r=4, d_c=4))


def test_input_embeddings_are_what_the_hypernetwork_reads():
    model = conditioned("hyperdecoder")
    batch = mixed_batch()
    assert analysis.has_input_embeddings(model)
    found = analysis.input_embeddings(model, batch)
    output, mask = (np.array(each) for each in model.encode(batch))
    weights = {n: w.numpy() for n, w in hypertf.t5.named_weights(model).items()}
    kernels, biases = (
        [w for n, w in weights.items() if "mlp_" in n and n.endswith(end)]
        for end in ("kernel", "bias")
    )
    for row in range(len(output)):
        mean = output[row][mask[row]].mean(0)
        hidden = np.maximum(mean @ kernels[0] + biases[0], 0)
        expected = hidden @ kernels[1] + biases[1]
        np.testing.assert_allclose(found[row], expected, rtol=1e-4, atol=1e-6)
    other = conditioned("adapters")
    assert not analysis.has_input_embeddings(other)
    with pytest.raises(ValueError, match="adapters: no hypernetwork of the decoder"):
        analysis.input_embeddings(other, batch)
