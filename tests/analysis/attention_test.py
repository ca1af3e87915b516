"""Attention to prompts equals a softmax worked out in numpy, one query at a time."""

import itertools

import numpy as np
import pytest
import scipy.stats

import hypertf
from hypertf.t5.relative_bias import buckets
from tests.conditioning.hypergrid_naive import rms_norm
from tests.helpers import mixed_batch, tiny_config, tiny_model

LENGTH = 3  # of the prompts


@pytest.fixture(scope="module")
def prompted():
    method = hypertf.conditioning.create(
        "hyperprompt-share",
        tiny_config(),
        num_tasks=3,
        bottleneck=4,
        encoder_length=LENGTH,
        decoder_length=LENGTH,
    )
    return tiny_model(conditioner=method)


def naive_weights(model, x, prompts, real, stack):
    """Self-attention of the first block on one example: [heads, query, key]."""
    config = model.config
    weights = {n: w.numpy() for n, w in hypertf.t5.named_weights(model).items()}
    path = f"{stack}/block_000/layer_000"
    y = rms_norm(x, weights[f"{path}/rms_norm/scale"])
    q, k = (y @ weights[f"{path}/SelfAttention/{n}"] for n in "qk")
    table = weights[f"{path}/SelfAttention/relative_attention_bias"]
    out = np.zeros((config.num_heads, len(x), LENGTH + len(x)))
    for head in range(config.num_heads):
        part = slice(head * config.d_kv, (head + 1) * config.d_kv)
        keys = np.concatenate([prompts[head], k[:, part]])
        logits = q[:, part] @ keys.T
        for query, key in itertools.product(range(len(x)), range(len(keys))):
            distance = key - LENGTH - query
            bucket = buckets(np.array(distance), stack == "encoder", 32, 128)
            logits[query, key] += table[head, bucket]
            hidden = distance > 0 if stack == "decoder" else not real[key - LENGTH]
            if hidden and key >= LENGTH:
                logits[query, key] = -np.inf
        weight = np.exp(logits - logits.max(-1, keepdims=True))
        out[head] = weight / weight.sum(-1, keepdims=True)
    return out


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_the_first_layer_equals_numpy(prompted, stack):
    batch = mixed_batch()
    found = hypertf.analysis.prompt_attention(prompted, batch, stack)
    assert found.mass.shape == (2, 4)
    task_ids = batch["task_ids"]
    sites = (
        prompted.conditioner.encoder(task_ids)
        if stack == "encoder"
        else prompted.conditioner.decoder(task_ids, None, None)
    )
    keys, _ = sites.blocks[0].keys_values()
    embedding = prompted.shared.embedding.numpy()
    for row, tokens in enumerate(batch[f"{stack}_tokens"]):
        real = tokens > 0
        if stack == "decoder":
            real[0] = True
        x = embedding[tokens]
        weights = naive_weights(prompted, x, keys.numpy()[row], real, stack)
        mass = weights[:, real, :LENGTH].sum(-1).mean()
        np.testing.assert_allclose(found.mass[0, row], mass, rtol=1e-5)
        on_tokens = weights[:, real, LENGTH:].mean(0)
        # scipy divides by the sum.
        expected = scipy.stats.entropy(on_tokens, axis=-1)
        np.testing.assert_allclose(
            found.entropy[0, row, real], expected, rtol=1e-4, atol=1e-6
        )
        assert np.isnan(found.entropy[0, row, ~real]).all()
        assert found.queries[row] == real.sum()


def test_what_the_stack_gives_is_what_the_model_computes(prompted):
    """Layers after the first are looked at in the stream that the model has."""
    batch = mixed_batch()
    output = hypertf.analysis.walk.walk(prompted, batch, "encoder")
    expected, _ = prompted.encode(batch)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
    output = hypertf.analysis.walk.walk(prompted, batch, "decoder")
    logits = prompted.logits(output)
    np.testing.assert_allclose(logits, prompted(batch), rtol=1e-4, atol=1e-5)


def test_tokens_before_the_input_are_prompts_too():
    method = hypertf.conditioning.create("prompt-tuning", tiny_config(), 3, length=2)
    model = tiny_model(conditioner=method)
    batch = mixed_batch()
    mass = hypertf.analysis.prompt_attention(model, batch).mass
    assert ((mass > 0) & (mass < 1)).all()
    model = tiny_model()
    assert (hypertf.analysis.prompt_attention(model, batch).mass == 0).all()
    with pytest.raises(ValueError, match="stack='middle', expected one of encoder"):
        hypertf.analysis.prompt_attention(model, batch, "middle")
