"""Looking into models: size, cost, attention, embeddings, gates, likeness of tasks.

Tokens and task ids in, arrays out; `experiments.analyze` makes pictures of them.
"""

from hypertf.analysis import cost, cost_formulas
from hypertf.analysis.attention import PromptAttention, entropy, prompt_attention
from hypertf.analysis.embeddings import (
    Projection,
    has_input_embeddings,
    input_embeddings,
    pca,
    task_vectors,
    tsne,
)
from hypertf.analysis.grids import grids, has_grids, mean_grids
from hypertf.analysis.parameters import Parameters, parameters
from hypertf.analysis.similarity import cosines, mean_cosines, task_weights
from hypertf.analysis.sweep import Curve, curve

__all__ = [
    "Curve",
    "Parameters",
    "Projection",
    "PromptAttention",
    "cosines",
    "cost",
    "cost_formulas",
    "curve",
    "entropy",
    "grids",
    "has_grids",
    "has_input_embeddings",
    "input_embeddings",
    "mean_cosines",
    "mean_grids",
    "parameters",
    "pca",
    "prompt_attention",
    "task_vectors",
    "task_weights",
    "tsne",
]
