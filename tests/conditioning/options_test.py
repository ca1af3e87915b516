"""Options that several families share, and dropout's one rule."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.conditioning import create
from hypertf.conditioning.adapter_sites import ACTIVATIONS
from hypertf.t5.sites import PLAIN
from hypertf.testing import Case
from hypertf.testing.packing import check_packed
from tests.helpers import mixed_batch, relative_error, tiny_config, tiny_model

ADAPTERS = {
    "adapters": {"bottleneck": 4},
    "adapters-shared-norm": {"bottleneck": 4},
    "hyperformer": {"bottleneck": 4},
    "hyperformer++": {"bottleneck": 4},
    "hyperdecoder": {"encoder_size": 4, "decoder_size": 3, "bottleneck": 5},
    "task-hypernet": {"encoder_size": 4, "decoder_size": 3, "bottleneck": 5},
    "parallel-adapters": {"encoder_size": 4, "decoder_size": 3},
}


def test_activations_are_those_of_the_public_code():
    x = np.linspace(-3, 3, 13).astype("float32")
    gelu = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    expected = {
        "relu": np.maximum(x, 0),
        "swish": x / (1 + np.exp(-x)),
        "gelu_new": gelu,
    }
    assert set(ACTIVATIONS) == set(expected)
    for name, values in expected.items():
        assert relative_error(ACTIVATIONS[name](x), values) < 1e-6


@pytest.mark.parametrize("method", ADAPTERS)
def test_every_adapter_has_a_choice_of_activation(method):
    def make(**options):
        keras.utils.set_random_seed(1)
        options = {**ADAPTERS[method], **options}
        return tiny_model(conditioner=create(method, tiny_config(), 3, **options))

    logits = {a: make(activation=a)(mixed_batch()).numpy() for a in ACTIVATIONS}
    default = "relu" if "encoder_size" in ADAPTERS[method] else "gelu_new"
    model = make()
    for activation, values in logits.items():
        same = relative_error(model(mixed_batch()), values) < 1e-6
        assert same == (activation == default)
    baked = hypertf.export.bake(model)
    assert relative_error(baked(mixed_batch()), logits[default]) < 1e-6
    with pytest.raises(ValueError, match="activation='gelu', expected one of 'relu'"):
        create(method, tiny_config(), 3, **{**ADAPTERS[method], "activation": "gelu"})


@pytest.mark.parametrize(
    ("method", "activation"),
    [("adapters", "relu"), ("hyperformer++", "swish"), ("hyperdecoder", "gelu_new")],
)
def test_packed_rows_have_the_activation_that_is_chosen(method, activation):
    options = {**ADAPTERS[method], "activation": activation}
    assert check_packed(Case(method, options)) is None


def test_where_the_norm_of_trained_adapters_starts_is_an_option():
    for options, scale in (({}, 0.1), ({"initial_scale": 1.0}, 1.0)):
        conditioner = create("adapters", tiny_config(), 3, **options)
        conditioner.build()
        weights = [w for w in conditioner.weights if w.path.endswith("after_scale")]
        assert weights
        assert all((np.asarray(w) == np.float32(scale)).all() for w in weights)
    with pytest.raises(ValueError, match=r"initial_scale=1.0.*conditional_norm=True"):
        create("hyperformer", tiny_config(), 3, initial_scale=1.0)
    with pytest.raises(ValueError, match=r"initial_scale=1.0.*norm_after=False"):
        create("adapters", tiny_config(), 3, initial_scale=1.0, norm_after=False)


@pytest.mark.parametrize("form", ["share", "sep", "global"])
@pytest.mark.parametrize("num_tasks", [4, 16], ids="{} tasks".format)
def test_dropout_of_prompts_draws_once_per_task_whatever_the_batch(form, num_tasks):
    """8 examples of 3 tasks: fewer than 16 tasks, more than 4."""
    keras.utils.set_random_seed(0)
    config = tiny_config(dropout_rate=0.5)
    conditioner = create(
        f"hyperprompt-{form}", config, num_tasks, encoder_length=5, bottleneck=8
    )
    conditioner.build()
    ids = np.array([1, 3, 1, 1, 0, 3, 0, 1])
    sites = conditioner.encoder(tf.constant(ids), training=True)
    for block in sites.blocks:
        for values in (block.keys.numpy(), block.values.numpy()):
            for task in set(ids):
                rows = values[ids == task]
                assert relative_error(rows[1:], rows[:-1]) < 1e-5
            assert relative_error(values[1], values[0]) > 1e-3
    again = conditioner.encoder(tf.constant(ids), training=True)
    assert relative_error(again.blocks[0].keys, sites.blocks[0].keys) > 1e-3


STACKED = {
    "adapters": {"bottleneck": 4},
    "adapters-shared-norm": {"bottleneck": 4},
    "hyperformer": {"bottleneck": 4},
    "hyperformer++": {"bottleneck": 4},
    "hyperdecoder": {},
    "parallel-adapters": {},
    "hyperprompt-global": {"reduction": 4},
    "hypergrid": {"d_r": 4, "d_c": 4},
    "lora": {},
    "ia3": {},
    "modular-skills": {},
}


@pytest.mark.parametrize("method", STACKED)
def test_a_stack_that_is_left_out_is_the_plain_t5s(method):
    config, ids = tiny_config(), tf.constant([0, 1])
    output, mask = tf.zeros([2, 3, config.d_model]), tf.ones([2, 3], tf.bool)
    sizes = {}
    for stacks in ("both", "encoder", "decoder"):
        conditioner = create(method, config, 3, **STACKED[method], stacks=stacks)
        conditioner.build()
        sizes[stacks] = sum(np.prod(w.shape) for w in conditioner.weights)
        sites = {
            "encoder": conditioner.encoder(ids),
            "decoder": conditioner.decoder(ids, output, mask),
        }
        for stack, made in sites.items():
            plain = all(block is PLAIN for block in made.blocks)
            assert plain == (stacks not in ("both", stack)), (stacks, stack)
    assert max(sizes["encoder"], sizes["decoder"]) < sizes["both"]


def test_options_of_a_stack_that_is_left_out_are_refused():
    with pytest.raises(ValueError, match="encoder_size=8, expected none: no effect"):
        create("parallel-adapters", tiny_config(), 3, encoder_size=8, stacks="decoder")
    with pytest.raises(ValueError, match="stacks='none', expected one of"):
        create("adapters", tiny_config(), 3, stacks="none")


def test_the_plain_t5_has_a_choice_of_what_trains():
    assert create("none", tiny_config(), 3, trains="all") is None
    frozen = create("none", tiny_config(), 3, trains="all-but-embeddings")
    model, plain = tiny_model(conditioner=frozen), tiny_model()
    batch = mixed_batch()
    np.testing.assert_array_equal(model(batch), plain(batch))
    names = {w.path.partition("/")[2] for w in model.trainable_weights}
    all_names = {w.path.partition("/")[2] for w in plain.weights}
    assert all_names - names == {"shared/embedding"}
    with pytest.raises(ValueError, match="trains='task', expected some weights"):
        create("none", tiny_config(), 3, trains="task")
