"""How much a model attends to a method's prompts, and how widely to the tokens.

As in HyperPrompt's Figure 3 and its appendix A.3. Prompts are all that a method puts
before the real keys: hyper-prompts, Prompt-Tuning's tokens, HyperGrid's task token.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops

from hypertf.analysis.walk import Visit, real_queries, walk
from hypertf.t5 import T5
from hypertf.types import Batch, Tensor


class PromptAttention(NamedTuple):
    """Attention of every layer and example.

    Attributes:
        mass: [layers, batch], the share of attention that goes to prompts, a mean over
            heads and queries, 0 to 1.
        entropy: [layers, batch, length], in nats, of each query's attention to the
            tokens: the mean over heads, without prompts, divided by what is left. NaN
            at padding.
        queries: [batch], how many real queries an example has. The paper's mass is a
            sum over them, `mass * queries`.
    """

    mass: np.ndarray
    entropy: np.ndarray
    queries: np.ndarray


def prompt_attention(
    model: T5, inputs: Batch, stack: str = "encoder"
) -> PromptAttention:
    """Measures self-attention to prompts and to tokens, layer by layer.

    ```python
    config = hypertf.T5Config.from_name("t5-nano")
    method = hypertf.conditioning.create("hyperprompt-global", config, num_tasks=2)
    model = hypertf.T5(config, conditioner=method)
    inputs = {"encoder_tokens": np.array([[8, 9, 1]]), "task_ids": np.array([1])}
    mass, entropy, _ = hypertf.analysis.prompt_attention(model, inputs)
    ```

    Args:
        inputs: as of a call of the model; the encoder needs no decoder tokens.
        stack: "encoder" or "decoder".
    """
    real = real_queries(inputs, stack)
    masses, entropies = [], []

    def visit(at: Visit) -> None:
        weights = self_attention_weights(at).numpy()[:, :, at.num_tokens :]
        of_prompts = weights[..., : at.num_extra].sum(-1).mean(1)  # [batch, query]
        masses.append(np.where(real, of_prompts, 0.0).sum(-1) / real.sum(-1))
        on_tokens = weights[..., at.num_extra :].mean(1)  # [batch, query, key]
        on_tokens = on_tokens / on_tokens.sum(-1, keepdims=True)
        entropies.append(np.where(real, entropy(on_tokens), np.nan))

    walk(model, inputs, stack, visit)
    return PromptAttention(np.stack(masses), np.stack(entropies), real.sum(-1))


def self_attention_weights(at: Visit) -> Tensor:
    """Computes a block's attention [batch, heads, query, key], prompts first.

    Values that are the rows of a unit matrix make the layer give its weights.
    """
    sub = at.block.self_attention
    observed = at.sites.observe(at.x, "input")
    y = sub.rms_norm(at.x, at.token_mask, at.sites.norm_scale("self_attention"))
    queries, keys, _ = sub.layer.queries_keys_values(y, at.sites, observed)
    extra = at.sites.keys_values()
    if extra is not None:
        keys = ops.concatenate([ops.cast(extra[0], keys.dtype), keys], axis=2)
    values = tf.eye(keys.shape[2])[None, None]
    return sub.layer.attend(queries, keys, values, at.bias)


def entropy(distribution: np.ndarray) -> np.ndarray:
    """Computes the entropy in nats over the last axis; 0 log 0 is 0.

    >>> entropy(np.array([1.0, 0.0])), round(float(entropy(np.full(8, 1 / 8))), 4)
    (np.float64(0.0), 2.0794)
    """
    # A probability of 0 has the logarithm of 1 in its place.
    logs = np.log(np.where(distribution > 0, distribution, 1.0))
    return np.abs((distribution * logs).sum(-1))
