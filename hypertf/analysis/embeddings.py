"""Vectors that stand for tasks and for inputs, and maps of them in the plane."""

from typing import NamedTuple

import numpy as np

from hypertf.analysis.walk import members
from hypertf.t5 import T5
from hypertf.types import Batch

FEW = 200  # points


class Projection(NamedTuple):
    """Points by their principal components.

    Attributes:
        points: [n, components].
        explained: [components], the share of the variance that each holds.
    """

    points: np.ndarray
    explained: np.ndarray


def task_vectors(model: T5) -> dict[str, np.ndarray]:
    """Returns what a method has learned of each task: {weight: [tasks, size]}.

    Task embeddings and prompts, which all blocks of a stack share; not the weights that
    a task has in each block. HyperFormer's is z of eq. 5; HyperPrompt has prompts, and
    task embeddings in its Global form.

    ```python
    config = hypertf.T5Config.from_name("t5-nano")
    method = hypertf.conditioning.create("hyperformer++", config, num_tasks=8)
    model = hypertf.T5(config, conditioner=method)
    hypertf.analysis.task_vectors(model)["task_features"].shape  # (8, 64)
    ```
    """
    if model.conditioner is None:
        return {}
    prefix = model.conditioner.path + "/"
    tables = {}
    for weight in model.conditioner.weights:
        dims = getattr(weight, "dims", ())
        name = weight.path.removeprefix(prefix).replace("/shared/", "/")
        if dims[:1] == ("task_num",) and "block_" not in name:
            tables[name] = weight.numpy().reshape(weight.shape[0], -1)
    return tables


def has_input_embeddings(model: T5) -> bool:
    """Tells whether a hypernetwork reads the input, as Hyperdecoder's does."""
    return bool(_pooling(model))


def _pooling(model):
    return [
        method
        for method in members(model.conditioner)
        if hasattr(method, "pooled") and "decoder" in method.reads_input
    ]


def input_embeddings(model: T5, inputs: Batch) -> np.ndarray:
    """Computes what Hyperdecoder's hypernetwork reads of inputs: [batch, d_model].

    It is e of Hyperdecoders' eq. 8, which its Figures 2 to 4 show.
    """
    methods = _pooling(model)
    if not methods:
        name = "none" if model.conditioner is None else model.conditioner.method
        raise ValueError(
            f"{name}: no hypernetwork of the decoder reads the input; expected "
            "hyperdecoder with decoder='generated'"
        )
    return np.array(methods[0].pooled(model, inputs).embedding)


def pca(vectors: np.ndarray, components: int = 2) -> Projection:
    """Projects vectors [n, size] on the directions in which they vary most.

    Fewer points or sizes than components give columns of 0. Signs are those that
    scikit-learn chooses.

    >>> points, explained = pca(np.array([[0.0, 0.0], [0.0, 2.0], [0.0, 4.0]]), 1)
    >>> np.abs(points[:, 0]).tolist(), explained.tolist()
    ([2.0, 0.0, 2.0], [1.0])
    """
    from sklearn.decomposition import PCA  # slow to import, and seldom wanted

    vectors = np.asarray(vectors, "float64")
    most = min(components, *vectors.shape)
    points, explained = np.zeros((len(vectors), components)), np.zeros(components)
    if np.ptp(vectors, axis=0).any():  # equal vectors vary in no direction
        fitted = PCA(most, svd_solver="full")
        points[:, :most] = fitted.fit_transform(vectors)
        explained[:most] = fitted.explained_variance_ratio_
    return Projection(points, explained)


def tsne(vectors: np.ndarray, seed: int = 0, perplexity: float = 30.0) -> np.ndarray:
    """Maps vectors [n, size] to [n, 2] so that neighbours stay neighbours (t-SNE).

    Repeatable for a seed. The perplexity is lowered to a third of the points.
    """
    from sklearn.manifold import TSNE

    vectors = np.asarray(vectors, "float32")
    if len(vectors) < 4:
        raise ValueError(f"t-SNE of {len(vectors)} points, expected at least 4")
    perplexity = min(perplexity, (len(vectors) - 1) / 3)
    # Of few points the approximation, made for many, takes longer.
    method = "exact" if len(vectors) <= FEW else "barnes_hut"
    made = TSNE(perplexity=perplexity, random_state=seed, method=method)
    return made.fit_transform(vectors)
