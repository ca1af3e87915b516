"""Methods combined do at their sites what each does alone."""

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.conditioning import create, names, register
from hypertf.conditioning.lora import LoRA
from hypertf.conditioning.registry import split_name
from tests.helpers import mixed_batch, relative_error, tiny_config, tiny_model

TASKS = 3
PROMPTS = {"encoder_length": 3, "decoder_length": 2, "bottleneck": 4}
GRID = {"d_r": 4, "d_c": 8}


def of(method, options):
    return {f"{method}.{name}": value for name, value in options.items()}


COMBINATIONS = {
    "hyperprompt-global+hypergrid": of("hyperprompt-global", PROMPTS)
    | of("hypergrid", GRID),
    "prompt-tuning+hypergrid": of("prompt-tuning", {"length": 2})
    | of("hypergrid", GRID),
    "hyperformer+++parallel-adapters": of("hyperformer++", {"bottleneck": 4})
    | of("parallel-adapters", {"encoder_size": 4, "decoder_size": 3}),
    "adapters+hyperprompt-share": of("adapters", {"bottleneck": 4})
    | of("hyperprompt-share", PROMPTS),
}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_member_alone_is_the_method_alone(name):
    """With the same weights; the other member is taken out of the combination."""
    config = tiny_config()
    combined = create(name, config, TASKS, **COMBINATIONS[name])
    model = tiny_model(seed=4, conditioner=combined)
    batch = mixed_batch()
    together = model(batch).numpy()
    for member in list(combined.members):
        alone = hypertf.T5(config, conditioner=member)
        for weight, other in zip(plain(alone), plain(model), strict=True):
            weight.assign(other)
        everyone, combined.members = combined.members, [member]
        assert relative_error(model(batch), alone(batch)) < 1e-6
        combined.members = everyone
        assert relative_error(together, alone(batch)) > 1e-3


def plain(model):
    mine = {id(weight) for weight in model.conditioner.weights}
    return [weight for weight in model.weights if id(weight) not in mine]


def test_what_is_beside_and_after_adds_up():
    """Two kinds of adapters by hand: block 0 of the encoder on given values."""
    name = "hyperformer+++parallel-adapters"
    config = tiny_config()
    combined = create(name, config, TASKS, **COMBINATIONS[name])
    tiny_model(seed=4, conditioner=combined)
    tasks = np.array([0, 2])
    both = combined.encoder(tasks).blocks[0]
    first, second = (m.encoder(tasks).blocks[0] for m in combined.members)
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 4, 16)), "float32")
    assert (both.after_ffn(x, False) == first.after_ffn(x, False)).numpy().all()
    assert (
        (both.beside_ffn(x, x, False) == second.beside_ffn(x, x, False)).numpy().all()
    )


def test_each_method_observes_its_own_tokens():
    name = "prompt-tuning+hypergrid"
    config = tiny_config()
    combined = create(name, config, TASKS, **COMBINATIONS[name])
    tiny_model(seed=4, conditioner=combined)
    sites = combined.encoder(np.array([0, 2]))
    assert sites.num_tokens == 3
    grid = combined.members[1]
    token = tf.constant(np.random.default_rng(0).normal(size=(2, 1, 16)), "float32")
    x = tf.concat([tf.zeros([2, 2, 16]), token, tf.ones([2, 4, 16])], axis=1)
    seen = sites.blocks[0].observe(x, "attention")
    expected = grid.encoder(np.array([0, 2])).blocks[0].observe(token, "attention")
    assert seen[0] is None
    assert (seen[1]["wo"] == expected["wo"]).numpy().all()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "lora+ia3",
            {"lora.kernels": ("k",)},
            "both change the kernel k of the encoder",
        ),
        (
            "hyperdecoder+lora",
            {"hyperdecoder.encoder": "generated"},
            "hyperdecoder runs the encoder twice",
        ),
        ("lora+lora", {}, "expected different methods"),
        ("lora+none", {}, "none of them 'none'"),
        (
            "lora+ia3",
            {"lora.rnk": 2},
            "lora: unknown option 'rnk'; did you mean 'rank'",
        ),
        ("lora+ia3", {"rank": 2}, "unknown option 'rank'; did you mean 'lora.rank'"),
        ("lora+adaptors", {}, "unknown conditioner 'lora.adaptors'"),
    ],
)
def test_what_cannot_be_combined_says_why(name, options, message):
    config = tiny_config()
    with pytest.raises(ValueError, match=message):
        hypertf.T5(config, conditioner=create(name, config, TASKS, **options))


@pytest.mark.parametrize(
    ("name", "trains", "expected"),
    [
        ("lora+mpt", None, "task"),
        ("hyperprompt-share+lora", None, "all"),
        ("hyperformer+lora", None, "task+norms"),
        ("hyperprompt-share+lora", "task", "task"),
    ],
)
def test_what_trains(name, trains, expected):
    config = tiny_config(d_model=32)
    options = {} if trains is None else {"trains": trains}
    combined = create(name, config, TASKS, **options)
    model = hypertf.T5(config, conditioner=combined)
    assert combined.what_trains == expected
    assert all(weight.trainable for weight in combined.trainable_weights)
    norms = [w for w in plain(model) if w.path.endswith("rms_norm/scale")]
    assert all(w.trainable == (expected != "task") for w in norms)


def test_names_are_split_at_plus_signs_that_join():
    assert split_name("hyperformer++") == ["hyperformer++"]
    assert split_name("hyperformer+lora") == ["hyperformer", "lora"]
    assert split_name("lora+hyperformer+++ia3") == ["lora", "hyperformer++", "ia3"]


def test_a_name_is_registered_once():
    before = names()
    with pytest.raises(ValueError, match="method 'lora' is registered already"):
        register(LoRA, "lora")
    with pytest.raises(ValueError, match="method 'none' is registered already"):
        register(LoRA, "none")
    assert names() == before
