"""HyperPrompt equals the authors' code in Mesh TensorFlow, but for padding.

Their code lets queries see padding keys once there are prompts. The goldens also hold
the padded rows run one by one without padding, which is what masking must give.
"""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.conditioning import create
from hypertf.conditioning import prompts as prompt_layers
from hypertf.t5 import named_weights
from hypertf.training import T5Loss, token_losses
from tests.helpers import relative_error
from tests.parity.goldens import golden_folders

TOLERANCE = 1e-4
STACKS = ("encoder", "decoder")
# Mesh's names of weights, and ours.
RENAMED = (
    (r"shared/(encoder|decoder)/", r"conditioner/\1/shared/"),
    (
        r"(encoder|decoder)/(block_\d+)/layer_000/SelfAttention/(?=prompt)",
        r"conditioner/\1/\2/",
    ),
    (r"prompts_layernorm/layer_norm/layer_norm_", "prompts_"),
    (r"prompt_task_embed_layernorm/layer_norm/layer_norm_", "task_"),
    (r"(?:prompt/|hypernet_)w_([kv])_up", r"\1_down"),
    (r"(?:prompt/|hypernet_)w_([kv])_down", r"\1_up"),
    (r"task_raw_embedding", "task_embedding"),
    (r"task_projector_layer_", "task_projector_"),
)


def our_name(name):
    for pattern, ours in RENAMED:
        name, replaced = re.subn(pattern, ours, name)
        if replaced and "_up" in pattern:
            break  # theirs and ours have the two words the other way round
    return name


def model_of(folder, stacks=STACKS, **kwargs):
    """The golden's model, with prompts in the given stacks."""
    c = json.loads((folder / "config.json").read_text())
    gated = any("wi_0" in name for name in c["variables"])
    config = hypertf.T5Config(
        vocab_size=c["vocab_size"],
        d_model=c["d_model"],
        d_ff=c["d_ff"],
        num_heads=c["num_heads"],
        d_kv=c["d_kv"],
        num_encoder_layers=c["num_layers"],
        num_decoder_layers=c["num_decoder_layers"],
        activation="gated-gelu" if gated else "relu",
        tie_embeddings=c["tie_word_embeddings"],
        num_buckets=c["relative_attention_num_buckets"],
        max_distance=c["relative_attention_max_distance"],
    )
    assert c["prompt_layer_norm_epsilon"] == prompt_layers.EPSILON
    options = {
        f"{s}_length": c[f"prompt_length_{s}"] if s in stacks else 0 for s in STACKS
    }
    if c["variant"] == "global":
        assert c["task_raw_dim"] == c["layer_embedding_dim"]
        options["raw_embedding_size"] = c["task_raw_dim"]
        options["hidden_size"] = c["task_hidden_dim"]
        options["embedding_size"] = c["task_final_dim"]
    conditioner = create(
        f"hyperprompt-{c['variant']}",
        config,
        c["num_tasks"],
        bottleneck=c["bottleneck"],
        **options,
    )
    model = hypertf.T5(config, conditioner=conditioner, **kwargs)
    load(model, folder, c["variables"], stacks)
    return model


def load(model, folder, dims, stacks):
    """Fills all weights, and leaves none of the golden's over."""
    weights, ours = dict(np.load(folder / "weights.npz")), named_weights(model)
    theirs = {our_name(name): name for name in weights}
    absent = [s for s in STACKS if s not in stacks]
    unused = tuple(f"conditioner/{s}/" for s in absent)
    assert {n for n in theirs if not unused or not n.startswith(unused)} == set(ours)
    for name, weight in ours.items():
        weight.assign(weights[theirs[name]])
        assert [list(d) for d in zip(weight.dims, weight.shape, strict=True)] == dims[
            theirs[name]
        ]


@pytest.fixture(scope="module", params=golden_folders("hyperprompt_*/**/config.json"))
def golden(request):
    """The golden's folder, its model, and the arrays of its main case."""
    return (
        request.param,
        model_of(request.param),
        dict(np.load(request.param / "io.npz")),
    )


def arrays_of(path):
    """What a file of the golden holds; not every golden has every file."""
    if not path.exists():
        pytest.skip(f"{path.parent} has no {path.name}")
    return dict(np.load(path))


def inputs_of(io):
    return {
        "encoder_tokens": io["inputs"],
        "decoder_tokens": io["decoder_inputs"],
        "task_ids": io["task_id"],
    }


@pytest.mark.parametrize("jit", [False, True])
def test_outputs(golden, jit):
    _, model, io = golden
    run = tf.function(
        lambda b: (model.encode(b)[0], model(b)), jit_compile=jit, autograph=False
    )
    encoder_output, logits = run(inputs_of(io))
    assert relative_error(encoder_output, io["encoder_output"]) < TOLERANCE
    assert relative_error(logits, io["logits"]) < TOLERANCE
    loss = T5Loss(z_loss=0.0)(io["targets"], logits)
    assert relative_error(loss, io["loss"]) < TOLERANCE


@pytest.mark.parametrize("stack", STACKS)
def test_hyper_prompts(golden, stack):
    """Keys and values of every task: [blocks, tasks, length, heads, d_kv]."""
    _, model, io = golden
    conditioner = model.conditioner
    tasks = np.arange(conditioner.num_tasks)
    made = {
        "encoder": lambda: conditioner.encoder(tasks),
        "decoder": lambda: conditioner.decoder(tasks, None, None),
    }[stack]()
    # Ours have the heads before the length.
    keys = np.stack([block.keys for block in made.blocks]).swapaxes(2, 3)
    values = np.stack([block.values for block in made.blocks]).swapaxes(2, 3)
    assert relative_error(keys, io[f"{stack}_hyperprompt_k"]) < TOLERANCE
    assert relative_error(values, io[f"{stack}_hyperprompt_v"]) < TOLERANCE


@pytest.mark.parametrize("stack", STACKS)
def test_attention_bias(golden, stack):
    """Prompts stand at -length..-1 and every query sees them."""
    _, model, io = golden
    expected = io[f"{stack}_attention_bias"]  # [heads, query, length + query]
    _, query, keys = expected.shape
    got = np.array(getattr(model, stack).bias(query, keys - query))[0]
    visible = expected > -1e8
    np.testing.assert_array_equal(got > -1e8, visible)
    np.testing.assert_array_equal(got[visible], expected[visible])


def test_greedy(golden):
    _, model, io = golden
    expected = io["greedy_ids"].copy()
    after_end = np.cumsum(expected == 1, axis=1) - (expected == 1) > 0
    expected[after_end] = 0  # theirs goes on
    inputs = {"encoder_tokens": io["inputs"], "task_ids": io["task_id"]}
    np.testing.assert_array_equal(model.generate(inputs, expected.shape[1]), expected)


def test_padding_is_masked(golden):
    folder, model, _ = golden
    io = arrays_of(folder / "io_padded.npz")
    encoder_output, _ = model.encode(inputs_of(io))
    assert relative_error(encoder_output, io["trimmed_encoder_output"]) < TOLERANCE
    logits = model(inputs_of(io))
    real = io["targets"] > 0
    assert relative_error(logits * real[..., None], io["trimmed_logits"]) < TOLERANCE
    losses = np.array(token_losses(logits, io["targets"])).sum(1) / real.sum(1)
    assert relative_error(losses, io["trimmed_loss"]) < TOLERANCE


@pytest.mark.parametrize("stack", STACKS)
def test_prompts_in_one_stack_only(golden, stack):
    folder, _, io = golden
    expected = arrays_of(folder / f"io_{stack}_only.npz")
    model = model_of(folder, stacks=(stack,))
    encoder_output, _ = model.encode(inputs_of(io))
    logits = model(inputs_of(io))
    assert relative_error(encoder_output, expected["encoder_output"]) < TOLERANCE
    assert relative_error(logits, expected["logits"]) < TOLERANCE
    loss = T5Loss(z_loss=0.0)(io["targets"], logits)
    assert relative_error(loss, expected["loss"]) < TOLERANCE
