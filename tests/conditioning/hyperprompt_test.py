"""HyperPrompt by its paper: what is generated, of which weights, where it goes."""

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.conditioning import create
from hypertf.conditioning import prompts as prompt_layers
from hypertf.t5 import StackSites, named_weights
from hypertf.t5.relative_bias import buckets
from tests.helpers import mixed_batch, relative_error, rows, tiny_config, tiny_model

TASKS, LENGTHS, B, RAW, HIDDEN, FINAL = 3, {"encoder": 5, "decoder": 3}, 4, 3, 7, 5
NAMES = ("hyperprompt-share", "hyperprompt-sep", "hyperprompt-global")
GLOBAL = {
    "raw_embedding_size": RAW,
    "hidden_size": HIDDEN,
    "embedding_size": FINAL,
}


def options_of(name, **options):
    sizes = GLOBAL if name == "hyperprompt-global" else {}
    lengths = {f"{stack}_length": length for stack, length in LENGTHS.items()}
    return {**sizes, **lengths, "bottleneck": B, **options}


def conditioner_of(name, config=None, **options):
    options = options_of(name, **options)
    return create(name, config or tiny_config(), TASKS, **options)


def spread(name, **options):
    """A conditioner by itself, with weights spread wide."""
    conditioner, rng = conditioner_of(name, **options), np.random.default_rng(3)
    conditioner.build()
    for weight in conditioner.weights:
        weight.assign(rng.normal(0.5, 1.0, weight.shape))
    return conditioner


def model_of(name, **options):
    return tiny_model(3, conditioner_of(name, **options))


def sites_of(conditioner, stack, task_ids, training=False):
    if stack == "encoder":
        return conditioner.encoder(task_ids, training)
    return conditioner.decoder(task_ids, None, None, training)


@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_the_paper(name, norms):
    """The paper has d = heads * d_kv; norms are the authors' code's."""
    config = tiny_config(d_kv=8, num_encoder_layers=3)
    conditioner = conditioner_of(name, config, norms=norms)
    conditioner.build()
    d, expected = config.d_model, 0
    for stack, length in LENGTHS.items():
        layers = conditioner.num_layers(stack)
        expected += d * length * TASKS
        if name == "hyperprompt-share":
            expected += 4 * B * d * layers
        elif name == "hyperprompt-sep":
            expected += 4 * B * d * layers * TASKS
        else:
            expected += 4 * B * d * FINAL + (TASKS + layers) * RAW
            expected += (2 * RAW + FINAL) * HIDDEN
        if norms:
            normed = d + FINAL if name == "hyperprompt-global" else d
            expected += 2 * normed * layers
    assert conditioner.count_params() == expected


# Those of the paper's tables 3, 4, 8 to 11: both stacks, and the decoder alone.
RATIOS = {
    "t5.1.1-base": {
        "hyperprompt-share": ("1.008", "1.004"),
        "hyperprompt-sep": ("1.06", "1.03"),
        "hyperprompt-global": ("1.04", "1.02"),
    },
    "t5.1.1-large": {
        "hyperprompt-share": ("1.008", "1.004"),
        "hyperprompt-sep": ("1.06", "1.03"),
        "hyperprompt-global": ("1.02", "1.01"),
    },
}


@pytest.mark.parametrize("size", RATIOS)
def test_defaults_have_the_size_of_the_paper_tables(size):
    config = hypertf.T5Config.from_name(size)
    with hypertf.t5.Unallocated():
        plain = hypertf.T5(config).count_params()
    for name, ratios in RATIOS[size].items():
        for options, ratio in zip(({}, {"encoder_length": 0}), ratios, strict=True):
            with hypertf.t5.Unallocated():
                conditioner = create(name, config, num_tasks=8, **options)
                conditioner.build()
            digits = len(ratio) - len("1.")
            got = 1 + conditioner.count_params() / plain
            assert f"{got:.{digits}f}" == ratio, name


def layer_norm(x, scale, bias):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6) * scale + bias


def naive_hyper_prompt(prompts, task, m, k_or_v, norms):
    """P_k or P_v of one task in block m, by the equations: [heads, length, d_kv]."""
    shared, block = prompts.shared, prompts.blocks[m]

    def value(holder, name):
        return getattr(holder, name).numpy().astype("float64")

    def normed(x, name):
        if not norms:
            return x
        return layer_norm(
            x, value(block, f"{name}_scale"), value(block, f"{name}_bias")
        )

    p = normed(value(shared, "prompts")[task], "prompts")
    if isinstance(prompts, prompt_layers.GlobalPrompts):
        raw = [
            value(shared, "task_embedding")[task],
            value(shared, "layer_embedding")[m],
        ]
        hidden = np.maximum(
            np.concatenate(raw) @ value(shared, "task_projector_one"), 0
        )
        embedding = normed(hidden @ value(shared, "task_projector_two"), "task")
        down = sum(
            i * w
            for i, w in zip(embedding, value(shared, f"{k_or_v}_down"), strict=True)
        )
        up = sum(
            i * w for i, w in zip(embedding, value(shared, f"{k_or_v}_up"), strict=True)
        )
    else:
        down, up = value(block, f"{k_or_v}_down"), value(block, f"{k_or_v}_up")
        if isinstance(prompts, prompt_layers.SepPrompts):
            down, up = down[task], up[task]
    hidden = np.maximum(p @ down, 0)
    return np.stack([hidden @ up[:, head] for head in range(up.shape[1])])


@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_hyper_prompts_follow_the_equations(name, norms):
    conditioner = spread(name, norms=norms)
    for stack, length in LENGTHS.items():
        prompts = getattr(conditioner, f"{stack}_prompts")
        # As many as tasks, then more: generated per example, then once per task.
        for task_ids in ([2, 0], [1, 1, 2, 0, 1]):
            sites = sites_of(conditioner, stack, np.array(task_ids))
            assert sites.num_keys == length and sites.tokens is None
            for m, block in enumerate(sites.blocks):
                for k_or_v, got in zip("kv", block.keys_values(), strict=True):
                    expected = [
                        naive_hyper_prompt(prompts, task, m, k_or_v, norms)
                        for task in task_ids
                    ]
                    assert relative_error(got, np.stack(expected)) < 1e-5


def rms_norm(x, scale):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale


def naive_attention(layer, table, y, keys, values, bidirectional):
    """Self-attention of y [length, d_model] with hyper-prompts at -l..-1.

    keys and values [heads, l, d_kv].
    """
    length, (heads, extra, d_kv) = len(y), keys.shape
    q, k, v = ((y @ getattr(layer, n).numpy()).reshape(-1, heads, d_kv) for n in "qkv")
    k = np.concatenate([keys.swapaxes(0, 1), k])
    v = np.concatenate([values.swapaxes(0, 1), v])
    out = np.zeros((length, heads, d_kv))
    for i in range(length):
        seen = extra + (length if bidirectional else i + 1)
        distance = np.arange(seen) - extra - i
        bias = table[:, buckets(distance, bidirectional, 32, 128)]
        for h in range(heads):
            weights = np.exp(k[:seen, h] @ q[i, h] + bias[h])
            out[i, h] = weights / weights.sum() @ v[:seen, h]
    return out.reshape(length, -1) @ layer.o.numpy()


@pytest.mark.parametrize("stack", LENGTHS)
def test_hyper_prompts_are_keys_and_values_before_the_tokens(stack):
    """What a stack's first self-attention adds to the stream, by hand."""
    model, task, tokens = model_of("hyperprompt-global"), 1, rows([6], 6)
    sites = sites_of(model.conditioner, stack, np.array([task]))
    block = getattr(model, stack).blocks[0]
    sub, x = block.self_attention, np.array(model.shared(tokens))
    bias = getattr(model, stack).bias(6, sites.num_keys)
    got, _, _ = block._self_attention(x, bias, None, sites.blocks[0], False)
    keys, values = (np.array(e)[0] for e in sites.blocks[0].keys_values())
    table = sub.layer.relative_attention_bias.numpy()
    y = rms_norm(x[0], sub.rms_norm.scale.numpy())
    added = naive_attention(sub.layer, table, y, keys, values, stack == "encoder")
    assert relative_error(got[0], x[0] + added) < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_weight(name):
    model = model_of(name)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(mixed_batch(), training=True) ** 2)
    weights = model.conditioner.trainable_variables
    assert len(weights) == len(model.conditioner.weights)
    gradients = tape.gradient(loss, [w.value for w in weights])
    for weight, gradient in zip(weights, gradients, strict=True):
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path


@pytest.mark.parametrize("name", NAMES)
def test_dropout_is_where_the_authors_have_it(name):
    """On P, on both bottlenecks and, in Global, inside the task MLP."""
    conditioner, shapes = spread(name), []

    def dropout(x):
        shapes.append(tuple(x.shape))
        return x

    conditioner.encoder_prompts.generate(tf.range(2), dropout)
    length, layers, config = LENGTHS["encoder"], 2, conditioner.config
    mlp = [(layers, 2, HIDDEN)] if name == "hyperprompt-global" else []
    bottlenecks = [(layers, 2, length, B)] * 2
    assert shapes == [(layers, 2, length, config.d_model), *mlp, *bottlenecks]


def test_dropout_is_of_training_and_an_option():
    def keys(training, **options):
        conditioner = spread("hyperprompt-share", **options)
        site = conditioner.encoder(np.arange(TASKS), training).blocks[0]
        return np.array(site.keys)

    np.testing.assert_array_equal(keys(True, dropout=False), keys(False))
    dropped = keys(True)
    assert relative_error(dropped, keys(False)) > 1e-2
    assert not np.isclose(dropped[0], keys(False)[0]).all(axis=-1).any()


@pytest.mark.parametrize("stack", LENGTHS)
def test_a_stack_without_prompts_is_plain(stack):
    conditioner = spread("hyperprompt-global", **{f"{stack}_length": 0})
    sites = sites_of(conditioner, stack, np.array([0]))
    assert sites == StackSites.plain(2)
    assert not [w for w in conditioner.weights if f"/{stack}/" in w.path]


def test_initial_values():
    """Glorot by the last two axes and a window of the others; norms 1 and 0."""
    config = tiny_config(d_model=64, num_heads=4, d_kv=16)
    for name, outer in zip(NAMES, (1, TASKS, 40), strict=True):
        extra = {"embedding_size": 40} if name == "hyperprompt-global" else {}
        conditioner = conditioner_of(name, config, bottleneck=12, **extra)
        conditioner.build()
        prompts = conditioner.encoder_prompts
        holder = prompts.shared if extra else prompts.blocks[1]
        for side, fans in (("down", 64 + 12), ("up", 12 * (4 + 16))):
            largest = np.abs(getattr(holder, f"v_{side}")).max()
            limit = np.sqrt(6 / (outer * fans))
            assert 0.98 * limit < largest <= limit * (1 + 1e-6)
        assert 0.9 < np.std(prompts.shared.prompts) < 1.1
        assert (prompts.blocks[0].prompts_scale.numpy() == 1).all()
        assert (prompts.blocks[0].prompts_bias.numpy() == 0).all()
        if extra:
            # What Global writes starts with the variance of Share's own weights.
            local = prompts.local_networks(tf.range(TASKS), lambda x: x)
            for side, variance in (("down", 2 / (64 + 12)), ("up", 2 / (12 * 20))):
                assert 0.7 < np.var(local[f"k_{side}"]) / variance < 1.3


def test_what_trains():
    everything = model_of("hyperprompt-sep")
    assert len(everything.trainable_weights) == len(named_weights(everything))
    task = model_of("hyperprompt-sep", trains="task")
    mine = {w.path for w in task.conditioner.weights}
    assert {w.path for w in task.trainable_weights} == mine


@pytest.mark.parametrize("name", NAMES)
def test_config_round_trip(name):
    conditioner = conditioner_of(name, norms=False)
    again = type(conditioner).from_config(conditioner.get_config())
    assert again.options == conditioner.options
    assert again.get_config() == conditioner.get_config()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder_length": -1}, "encoder_length=-1, expected an integer >= 0"),
        ({"decoder_length": 2.0}, "decoder_length=2.0, expected an integer >= 0"),
        ({"encoder_length": 0, "decoder_length": 0}, "at least one stack"),
        ({"bottleneck": 0}, "bottleneck=0, expected an integer >= 1"),
        ({"reduction": 0, "bottleneck": None}, "reduction=0, expected an integer >= 1"),
        ({"reduction": 16}, "reduction=16, expected None beside bottleneck=4"),
        ({"bottleneck": None}, "reduction=32, expected at most d_model=16"),
        ({"norms": "yes"}, "norms='yes', expected True or False"),
        ({"hidden_size": 0}, "hidden_size=0, expected an integer >= 1"),
        ({"trains": "prompts"}, "trains='prompts', expected one of"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=f"hyperprompt-global: .*{message}"):
        conditioner_of("hyperprompt-global", **options)


def test_options_of_global_are_not_those_of_share():
    with pytest.raises(ValueError, match="unknown option 'hidden_size'"):
        create("hyperprompt-share", tiny_config(), TASKS, bottleneck=4, hidden_size=8)
