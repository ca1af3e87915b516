"""Modular skills: a mixture of low-rank additions per task."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.conditioning import create, modular_skills
from hypertf.t5 import Unallocated, named_weights
from tests.helpers import V1_1, mixed_batch, relative_error, tiny_config, tiny_model

TASKS, SKILLS, RANK = 3, 4, 2
ALL = modular_skills.KERNELS


def conditioned(sizes=None, **options):
    config = tiny_config(**(sizes or {}))
    options = {"rank": RANK, "kernels": ALL, **options}
    conditioner = create("modular-skills", config, TASKS, **options)
    return tiny_model(seed=5, conditioner=conditioner, **(sizes or {}))


@pytest.mark.parametrize("finegrained", [False, True])
@pytest.mark.parametrize("sizes", [{}, V1_1], ids=["1.0", "1.1"])
def test_parameters(sizes, finegrained):
    config = tiny_config(num_encoder_layers=3, **sizes)
    with Unallocated():
        conditioner = create(
            "modular-skills", config, 7, kernels=ALL, finegrained=finegrained
        )
        conditioner.build()
    d, h, f = config.d_model, config.d_heads, config.d_ff
    ffn_kernels = 3 if sizes else 2
    attention, ffn = 4 * (d + h), ffn_kernels * (d + f)
    # 3 blocks in the encoder; 2 in the decoder, which have cross-attention.
    low_rank = SKILLS * 16 * ((3 + 2 * 2) * attention + (3 + 2) * ffn)
    matrices = (3 + 2 * 2) * 4 + (3 + 2) * ffn_kernels if finegrained else 1
    expected = low_rank + matrices * 7 * SKILLS
    assert sum(np.prod(w.shape) for w in conditioner.weights) == expected


def test_share_of_trained_parameters_is_the_papers():
    config = hypertf.T5Config.from_name("t5.1.1-large")
    with Unallocated():
        plain = hypertf.T5(config).count_params()
        conditioner = create("modular-skills", config, 8)
        conditioner.build()
    share = sum(np.prod(w.shape) for w in conditioner.weights) / plain
    assert round(100 * share, 1) == 4.8  # Hyperdecoders, Table 1


def naive_kernel(w, stack, block, name, task, kernel):
    """The kernel of a task, of weights w: a loop over skills, in float64."""
    at = f"conditioner/{stack}/block_{block:03d}/{name}/"
    own = f"{at}skill_logits"
    logits = w.get(own, w.get("conditioner/skill_logits"))[task]
    active = [1 / (1 + np.exp(-logit)) for logit in logits]
    down = sum(z * a for z, a in zip(active, w[f"{at}down"], strict=True)) / sum(active)
    up = sum(z * b for z, b in zip(active, w[f"{at}up"], strict=True)) / sum(active)
    return kernel.numpy().astype("float64") + down @ up / RANK


def kernels_of(model, stack, block):
    block = getattr(model, stack).blocks[block]
    attention = block.self_attention.layer
    kernels = {name: getattr(attention, name) for name in "qkvo"}
    if block.cross_attention is not None:
        cross = block.cross_attention.layer
        kernels.update({f"cross_{name}": getattr(cross, name) for name in "qkvo"})
    ffn = block.feed_forward.layer
    kernels.update({layer.name: layer.kernel for layer in (*ffn.wi, ffn.wo)})
    return kernels


@pytest.mark.parametrize("finegrained", [False, True])
@pytest.mark.parametrize("sizes", [{}, V1_1], ids=["1.0", "1.1"])
def test_equals_a_model_with_the_tasks_own_kernels(sizes, finegrained):
    """Merged into a plain T5's kernels by hand, task by task."""
    model = conditioned(sizes, finegrained=finegrained)
    w = {k: v.numpy().astype("float64") for k, v in named_weights(model).items()}
    inputs = mixed_batch((0, 2, 1))
    logits = model(inputs).numpy()
    plain = hypertf.T5(model.config)
    for i, task in enumerate(inputs["task_ids"]):
        for name, weight in named_weights(plain).items():
            weight.assign(w[name])
        for stack in ("encoder", "decoder"):
            for block in range(2):
                for name, kernel in kernels_of(plain, stack, block).items():
                    kernel.assign(naive_kernel(w, stack, block, name, task, kernel))
        one = {k: v[i : i + 1] for k, v in inputs.items() if k != "task_ids"}
        assert relative_error(logits[i : i + 1], plain(one)) < 1e-5


def test_only_the_chosen_kernels_change():
    model = conditioned(kernels=("v",))
    fields = model.conditioner.encoder(np.array([0, 1])).blocks[0]
    assert set(fields.down) == {"v"}
    x, kernel = tf.random.normal((2, 3, 16)), tf.random.normal((16, 12))
    np.testing.assert_allclose(fields.project("q", x, kernel, None), x @ kernel, 1e-5)
    assert relative_error(fields.project("v", x, kernel, None), x @ kernel) > 1e-2
    assert model(mixed_batch((0, 2, 1))).shape == (3, 5, 60)


def test_cross_attention_alone_leaves_the_encoder():
    model = conditioned(kernels=("cross_k", "cross_o"))
    first, second = mixed_batch((0, 2, 1)), mixed_batch(tasks=(1, 1, 1))
    np.testing.assert_array_equal(model.encode(first)[0], model.encode(second)[0])
    assert relative_error(model(first)[0], model(second)[0]) > 1e-3
    ids, scores = model.generate(
        {k: v for k, v in first.items() if k != "decoder_tokens"}, 4, return_scores=True
    )
    inputs = {**first, "targets": ids}
    del inputs["decoder_tokens"]
    assert relative_error(scores, model.score(inputs)) < 1e-5


def test_a_fresh_model_is_the_plain_one():
    config = tiny_config()
    model = hypertf.T5(config, conditioner=create("modular-skills", config, TASKS))
    plain = hypertf.T5(config)
    for name, weight in named_weights(plain).items():
        weight.assign(named_weights(model)[name])
    inputs = mixed_batch((0, 2, 1))
    expected = plain({k: v for k, v in inputs.items() if k != "task_ids"})
    assert relative_error(model(inputs), expected) < 1e-6


def test_initial_values():
    config = tiny_config(d_model=24)
    model = hypertf.T5(config, conditioner=create("modular-skills", config, 50))
    weights = named_weights(model)
    down = np.abs(weights["conditioner/decoder/block_001/k/down"])
    bound = 1 / np.sqrt(3 * 24)
    assert 0.9 * bound < down.max() <= bound
    assert not weights["conditioner/decoder/block_001/k/up"].numpy().any()
    logits = np.abs(weights["conditioner/skill_logits"])
    assert 0.9e-3 < logits.max() <= 1e-3


@pytest.mark.parametrize("finegrained", [False, True])
def test_gradients_reach_every_weight(finegrained):
    model = conditioned(finegrained=finegrained)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(mixed_batch((0, 2, 1)), training=True) ** 2)
    weights = model.trainable_variables
    assert {w.path for w in weights} == {w.path for w in model.conditioner.weights}
    for weight, gradient in zip(
        weights, tape.gradient(loss, [w.value for w in weights]), strict=True
    ):
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path


def downs(model, stack, tasks, training=True):
    """A of the first block's q, as the model's own calls make it."""
    tasks = np.array(tasks)
    conditioner = model.conditioner
    if stack == "encoder":
        sites = conditioner.encoder(tasks, training)
    else:
        sites = conditioner.decoder(tasks, None, None, training)
    return sites.blocks[0].down["q"].numpy()


def test_training_draws_for_each_example_and_step():
    model = conditioned()
    first, second = downs(model, "encoder", [1, 1])
    assert relative_error(first, second) > 1e-3
    downs(model, "decoder", [1, 1])  # the step is over
    assert relative_error(downs(model, "encoder", [1, 1])[0], first) > 1e-3
    still = downs(model, "encoder", [1, 1], training=False)
    np.testing.assert_array_equal(still[0], still[1])


def test_both_stacks_share_a_draw_unless_finegrained():
    def skills_used(finegrained, stack):
        """The skills' A set to 1, 10, ...: then an entry of A shows z."""
        keras.utils.set_random_seed(1)
        model = conditioned(finegrained=finegrained)
        for weight in model.conditioner.weights:
            if weight.name == "skill_logits":
                weight.assign(np.zeros(weight.shape))
            elif weight.name == "down":
                powers = 10.0 ** np.arange(SKILLS)
                weight.assign(np.broadcast_to(powers[:, None, None], weight.shape))
        drawn = {s: downs(model, s, [0, 1]) for s in ("encoder", "decoder")}
        return drawn[stack]

    same = skills_used(False, "encoder"), skills_used(False, "decoder")
    np.testing.assert_allclose(*same, rtol=1e-6)
    other = skills_used(True, "encoder"), skills_used(True, "decoder")
    assert relative_error(*other) > 1e-3


def test_no_temperature_draws_nothing():
    model = conditioned(temperature=None)
    still = downs(model, "encoder", [0, 2], training=False)
    np.testing.assert_array_equal(downs(model, "encoder", [0, 2]), still)


def test_noise_makes_the_relaxed_bernoulli():
    """At a low temperature the sigmoid is 1 with the probability of the logits."""
    noise = modular_skills.logistic_noise((20000, 3), np.array([3, 4]))
    logits = np.array([-2.0, 0.0, 1.0])
    drawn = (1 / (1 + np.exp(-np.clip((logits + noise) / 1e-2, -50, 50)))).mean(0)
    np.testing.assert_allclose(drawn, 1 / (1 + np.exp(-logits)), atol=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernels": ("q", "wi_0")}, "kernels=.*, expected some of q, k, v, o"),
        ({"kernels": "q"}, "kernels='q', expected some of"),
        ({"kernels": ()}, r"kernels=\(\), expected some of"),
        ({"kernels": ("q", "q")}, "kernels=.*, each once"),
        ({"skills": 0}, "skills=0, expected an integer >= 1"),
        ({"temperature": 0.0}, "temperature=0.0, expected a number > 0"),
        ({"finegrained": 1}, "finegrained=1, expected True or False"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=f"modular-skills: {message}"):
        create("modular-skills", tiny_config(), TASKS, **options)


def test_config_round_trip():
    conditioner = create("modular-skills", tiny_config(), TASKS, kernels=["q", "wo"])
    config = keras.saving.serialize_keras_object(conditioner)
    assert keras.saving.deserialize_keras_object(config).options == conditioner.options
