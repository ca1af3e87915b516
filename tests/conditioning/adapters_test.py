"""Adapters: where they sit, what they compute, whose norms they use, what trains."""

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.conditioning import adapter_sites
from hypertf.t5 import Unallocated, named_weights
from tests.helpers import count, mixed_batch, relative_error, tiny_config, tiny_model

METHODS = ("adapters", "adapters-shared-norm")
TASKS = 3


def model_of(name, dropout_rate=0.1, **options):
    config = tiny_config(dropout_rate=dropout_rate)
    options = {"reduction": 4, **options}
    conditioner = hypertf.conditioning.create(name, config, TASKS, **options)
    return tiny_model(seed=3, conditioner=conditioner, dropout_rate=dropout_rate)


# Trained weights per task as a percentage of T5, Tables 1 and 3 of the paper; the
# rows "Adapters" train one task at a time, which comes to the same.
@pytest.mark.parametrize(
    "size, name, reduction, expected",
    [
        ("t5-small", "adapters", 32, 0.74),
        ("t5-base", "adapters", 32, 0.87),
        ("t5-small", "adapters-shared-norm", 32, 0.68),
        ("t5-base", "adapters-shared-norm", 32, 0.82),
        ("t5-small", "adapters-shared-norm", 2, 10.44),
        ("t5-base", "adapters-shared-norm", 2, 12.73),
    ],
)
def test_trained_weights_are_the_papers(size, name, reduction, expected):
    config, tasks = hypertf.T5Config.from_name(size), 8
    with Unallocated():
        conditioner = hypertf.conditioning.create(
            name, config, tasks, reduction=reduction
        )
        model = hypertf.T5(config, conditioner=conditioner)
    plain = count(model.weights) - count(conditioner.weights)
    share = 100 * count(model.trainable_variables) / tasks / plain
    assert round(share, 2) == expected


def test_parameters_are_the_papers_formula():
    """4TL(2hd + 2h) counts D, U and the adapters' norms; not biases, nor T5's norms."""
    config = tiny_config()
    conditioner = model_of("adapters").conditioner
    counted = [
        weight
        for weight in conditioner.weights
        if weight.path.endswith(("/down", "/up", "/after_scale", "/after_bias"))
    ]
    layers, h, d = config.num_encoder_layers, config.d_model, conditioner.bottleneck
    assert count(counted) == 4 * TASKS * layers * (2 * h * d + 2 * h)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def normed(x, scale, bias):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale + bias


def adapter(y, weights, task, own_norms, before, after):
    """Eq. 3 for one example y [length, d_model]."""

    def of(name, own=True):
        value = getattr(weights, name).numpy().astype("float64")
        return value[task] if own else value

    z = y
    if before:
        z = normed(z, of("before_scale", own_norms), of("before_bias", own_norms))
    z = gelu(z @ of("down") + of("down_bias")) @ of("up") + of("up_bias")
    if after:
        z = normed(z, of("after_scale", own_norms), of("after_bias", own_norms))
    return y + z


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("before, after", [(False, True), (True, True), (True, False)])
def test_the_formula(name, before, after):
    model = model_of(name, norm_before=before, norm_after=after)
    y = np.random.default_rng(0).normal(size=(4, 5, 16)).astype("float32")
    task_ids = mixed_batch()["task_ids"]
    stacks = {
        "encoder": model.conditioner.encoder(task_ids),
        "decoder": model.conditioner.decoder(task_ids, None, None),
    }
    for weights, (stack, sites) in zip(
        model.conditioner.stacks, stacks.items(), strict=True
    ):
        assert weights.name == stack
        for block, at in zip(weights.blocks, sites.blocks, strict=True):
            got = {
                "feed_forward": at.after_ffn(y, False),
                "self_attention": at.after_attention(y, False),
            }
            for layer in block.adapters:
                for row, task in enumerate(task_ids):
                    expected = adapter(
                        y[row], layer, task, name == "adapters", before, after
                    )
                    assert relative_error(got[layer.name][row], expected) < 1e-5


def constant_adapters(model, c):
    """Adapters that add c to everything, sublayers that add nothing."""
    for name, weight in named_weights(model).items():
        if name.endswith(("SelfAttention/o", "EncDecAttention/o", "wo/kernel")):
            weight.assign(np.zeros(weight.shape))
        if name.startswith("conditioner/") and name.endswith("/up"):
            weight.assign(np.zeros(weight.shape))
        if name.startswith("conditioner/") and name.endswith("/up_bias"):
            weight.assign(np.full(weight.shape, c))


def test_adapters_come_before_the_residual_and_its_dropout():
    """Twice in each block: none after cross-attention."""
    model = model_of("adapters-shared-norm", dropout_rate=0.5, norm_after=False)
    constant_adapters(model, 1.0)
    x = tf.random.normal((2, 6, 16))
    sites = model.conditioner.decoder(np.array([0, 1]), None, None).blocks[0]
    memory = tf.random.normal((2, 4, 16))
    block = model.decoder.blocks[0]
    bias = np.zeros((1, 2, 6, 6), "float32"), np.zeros((1, 1, 1, 4), "float32")

    def added(training):
        y = block(
            x,
            bias[0],
            memory=memory,
            memory_bias=bias[1],
            sites=sites,
            training=training,
        )
        return np.round(np.asarray(y - x), 4)

    assert (added(False) == 2.0).all()
    # Each of the two is dropped or doubled.
    assert set(np.unique(added(True))) == {0.0, 2.0, 4.0}


def test_the_stream_enters_the_next_sublayer_adapted():
    """The adapter after self-attention is read by the FFN of the same block."""
    model = model_of("adapters-shared-norm")
    sites = model.conditioner.encoder(np.array([1])).blocks[0]
    block, x = model.encoder.blocks[0], tf.random.normal((1, 5, 16))
    bias = np.zeros((1, 2, 5, 5), "float32")
    attention, ffn = block.self_attention, block.feed_forward
    y = attention.rms_norm(x)
    q, k, v = attention.layer.queries_keys_values(y, sites, None)
    y = attention.layer.output(attention.layer.attend(q, k, v, bias, False))
    y = x + sites.after_attention(y, False)
    expected = y + sites.after_ffn(ffn.layer(ffn.rms_norm(y)), False)
    assert relative_error(block(x, bias, sites=sites), expected) < 1e-5


def test_own_norms_act_as_if_t5_had_them():
    """In every sublayer and at the end: as shared norms that are those of one task."""
    model, shared = model_of("adapters"), model_of("adapters-shared-norm")
    weights = named_weights(model)
    logits = model(mixed_batch()).numpy()
    for task in (0, 2):
        for name, weight in named_weights(shared).items():
            own = weights[name]
            weight.assign(own if own.shape == weight.shape else own[task])
        for scale, of_model in model.conditioner.norm_scales(model):
            path = of_model.path.removeprefix(f"{model.name}/")
            named_weights(shared)[path].assign(scale[task])
        mine = mixed_batch()["task_ids"] == task
        assert relative_error(shared(mixed_batch())[mine], logits[mine]) < 1e-5
    assert relative_error(shared(mixed_batch())[~mine], logits[~mine]) > 1e-2


def test_norms_start_from_the_model():
    config = tiny_config()
    fresh = hypertf.conditioning.create("adapters", config, TASKS)
    model = hypertf.T5(config, conditioner=fresh)
    plain = tiny_model(seed=5)
    for name, weight in named_weights(plain).items():
        named_weights(model)[name].assign(weight)
    fresh.choose_trainable(model)  # its norms are as built: takes over the model's
    checked = 0
    for scale, of_model in fresh.norm_scales(model):
        assert (np.asarray(scale) == np.asarray(of_model)).all()
        assert np.asarray(of_model).std() > 0
        checked += 1
    assert checked == 2 * 2 + 1 + 2 * 3 + 1
    trained = np.asarray(fresh.stacks[0].final_norm.scale) + 1.0
    fresh.stacks[0].final_norm.scale.assign(trained)
    fresh.choose_trainable(model)
    assert (np.asarray(fresh.stacks[0].final_norm.scale) == trained).all()


@pytest.mark.parametrize("name", METHODS)
def test_what_trains_gets_a_gradient(name):
    model = model_of(name)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(mixed_batch(), training=True) ** 2)
    trained = model.trainable_variables
    gradients = tape.gradient(loss, [weight.value for weight in trained])
    for weight, gradient in zip(trained, gradients, strict=True):
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path
    norms = [w for w in trained if w.path.endswith("rms_norm/scale")]
    assert bool(norms) == (name == "adapters-shared-norm")
    assert len(trained) == len(model.conditioner.weights) + len(norms)


def test_all_weights_can_train():
    """But T5's norms, when tasks have their own."""
    model = model_of("adapters", trains="all")
    frozen = {w.path for w in model.weights if not w.trainable}
    assert frozen == {w.path for w in model.weights if "rms_norm" in w.path}


def test_initial_values():
    config = tiny_config(d_model=64)
    for name in METHODS:
        conditioner = hypertf.conditioning.create(name, config, TASKS, bottleneck=16)
        conditioner.build()
        for weight in conditioner.weights:
            value = weight.numpy()
            if weight.path.endswith(("/down", "/up")):
                assert abs(value.std() - 0.01) < 1e-3 and abs(value.mean()) < 1e-3
                continue
            start = 1.0 if "scale" in weight.path else 0.0
            if weight.path.endswith("after_scale"):
                start = np.float32(0.1)  # small: an adapter starts near identity
            assert (value == start).all(), weight.path


@pytest.mark.parametrize(
    "options, message",
    [
        ({"reduction": 0}, "reduction=0, expected an integer >= 1"),
        ({"bottleneck": 2.5}, "bottleneck=2.5, expected an integer >= 1"),
        ({"reduction": 4, "bottleneck": 4}, "bottleneck=4, expected None beside"),
        ({"norms": "own"}, "norms='own', expected one of 'task', 'shared'"),
        ({"norm_after": "yes"}, "norm_after='yes', expected True or False"),
        ({"reducton": 4}, "did you mean 'reduction'"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        hypertf.conditioning.create("adapters", tiny_config(), TASKS, **options)


def test_bottleneck():
    def inner(**options):
        config = tiny_config()
        return hypertf.conditioning.create("adapters", config, 2, **options).bottleneck

    assert inner(reduction=4) == 4
    assert inner(reduction=3) == 5  # as the public code: rounded down
    assert inner(bottleneck=7) == 7
    assert inner() == 1  # d_model 16 is smaller than the paper's r
    assert adapter_sites.REDUCTION == 32
