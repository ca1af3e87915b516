"""Prompt-Tuning: the prompt is tokens, and starts from embeddings."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.conditioning import create, prompt_tuning
from hypertf.t5 import named_weights
from tests.helpers import V1_1, mixed_batch, relative_error, tiny_config, tiny_model

TASKS, LENGTH = 3, 4


def conditioned(seed=2, num_tasks=TASKS, overrides=None, **options):
    overrides = overrides or {}
    options = {"length": LENGTH, **options}
    conditioner = create(
        "prompt-tuning", tiny_config(**overrides), num_tasks, **options
    )
    return tiny_model(seed, conditioner, **overrides)


@pytest.mark.parametrize("overrides", [{}, V1_1], ids=["1.0", "1.1"])
def test_prompts_are_tokens_of_a_larger_vocabulary(overrides):
    """The plain T5 gives the same, with the prompts' rows added to its vocabulary."""
    model = conditioned(overrides=overrides)
    size = model.config.vocab_size
    larger = tiny_model(**{**overrides, "vocab_size": size + TASKS * LENGTH})
    ours = named_weights(model)
    prompts = ours.pop("conditioner/prompts").numpy().reshape(TASKS * LENGTH, -1)
    for name, weight in named_weights(larger).items():
        value = ours[name].numpy()
        if name == "shared/embedding":
            value = np.concatenate([value, prompts])
        if name == "decoder/logits/kernel":
            value = np.pad(value, ((0, 0), (0, TASKS * LENGTH)))
        weight.assign(value)
    inputs = mixed_batch()
    task_ids = inputs["task_ids"]
    tokens = size + LENGTH * task_ids[:, None] + np.arange(LENGTH, dtype="int32")
    plain = {
        "encoder_tokens": np.concatenate([tokens, inputs["encoder_tokens"]], axis=1),
        "decoder_tokens": inputs["decoder_tokens"],
    }
    (got, got_mask), (expected, mask) = model.encode(inputs), larger.encode(plain)
    assert relative_error(got, expected) < 1e-5
    np.testing.assert_array_equal(got_mask, mask)
    assert relative_error(model(inputs), larger(plain)[..., :size]) < 1e-5


def test_every_task_has_its_own_prompt():
    model, inputs = conditioned(), mixed_batch()
    logits = model(inputs).numpy()
    others = model({**inputs, "task_ids": np.array([0, 1, 1, 2])}).numpy()
    assert relative_error(others[[0, 2, 3]], logits[[0, 2, 3]]) < 1e-6
    assert relative_error(others[1], logits[1]) > 1e-2


def test_only_prompts_train_unless_told():
    model = conditioned()
    assert [w.path for w in model.trainable_weights] == [model.conditioner.prompts.path]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(mixed_batch(), training=True) ** 2)
    (gradient,) = tape.gradient(loss, [w.value for w in model.trainable_weights])
    gradient = np.array(tf.convert_to_tensor(gradient))
    assert (np.abs(gradient).max(axis=-1) > 0).all()
    model = conditioned(trains="all")
    assert len(model.trainable_weights) == len(named_weights(model))


def test_parameters():
    """T * length * d_model; built without values, the table is not read."""
    with hypertf.t5.Unallocated():
        config = hypertf.T5Config.from_name("t5-small")
        model = hypertf.T5(config, conditioner=create("prompt-tuning", config, 8))
    assert model.conditioner.count_params() == 8 * 100 * 512
    assert not model.conditioner._has_initial_values


def new_model(num_tasks=TASKS, **options):
    keras.utils.set_random_seed(5)
    config = tiny_config()
    conditioner = create(
        "prompt-tuning", config, num_tasks, **{"length": LENGTH, **options}
    )
    return hypertf.T5(config, conditioner=conditioner)


def ids_of(model):
    """The ids of the tokens whose embeddings the prompts are: [tasks, length]."""
    table = model.shared.embedding.numpy()
    prompts = model.conditioner.prompts.numpy()
    same = (prompts[:, :, None] == table).all(axis=-1)  # [tasks, length, vocab]
    assert same.any(axis=-1).all()
    return same.argmax(axis=-1)


def test_starts_from_the_vocabulary():
    model = new_model(num_tasks=20, population=7)
    ids = ids_of(model)
    assert set(ids.flat) == set(range(7))  # 80 draws: no id below 7 is left out
    assert all(len(set(row)) == LENGTH for row in ids)
    assert len({tuple(row) for row in ids}) > 1
    np.testing.assert_array_equal(ids_of(new_model(num_tasks=20, population=7)), ids)
    ids_of(new_model(population=2))  # too few for a prompt without repetition


def test_starts_from_labels():
    labels = [[[11], [12, 13]], [], [[14]]]
    model = new_model(initial_values="labels", labels=labels, population=7)
    table, prompts = model.shared.embedding.numpy(), model.conditioner.prompts.numpy()
    np.testing.assert_array_equal(prompts[[0, 2], 0], table[[11, 14]])
    np.testing.assert_allclose(prompts[0, 1], table[12:14].mean(axis=0), rtol=1e-6)
    prompts[0, 1] = table[0]
    model.conditioner.prompts.assign(prompts)
    ids = ids_of(model)
    assert ids[0, 2:].max() < 7 and ids[1].max() < 7 and ids[2, 1:].max() < 7


def test_starts_uniform():
    prompts = new_model(initial_values="uniform", length=50).conditioner.prompts.numpy()
    assert -0.5 <= prompts.min() < -0.49 and 0.49 < prompts.max() <= 0.5


def test_pretrained_embeddings_are_taken_when_asked():
    model = new_model()
    before = model.conditioner.prompts.numpy()
    model.shared.embedding.assign(model.shared.embedding + 1.0)
    model.build()  # no new start for prompts that have begun
    np.testing.assert_array_equal(model.conditioner.prompts, before)
    model.conditioner.initialize_from(model, seed=3)
    first = ids_of(model)
    model.conditioner.initialize_from(model, seed=3)
    np.testing.assert_array_equal(ids_of(model), first)


def test_prompts_of_another_model_are_kept():
    model = new_model()
    before = model.conditioner.prompts.numpy()
    hypertf.T5(tiny_config(), conditioner=model.conditioner)
    np.testing.assert_array_equal(model.conditioner.prompts, before)


def test_config_round_trip():
    labels = [[[11], [12, 13]], [], [[14]]]
    conditioner = new_model(initial_values="labels", labels=labels).conditioner
    again = prompt_tuning.PromptTuning.from_config(conditioner.get_config())
    assert again.options == conditioner.options
    assert again.get_config() == conditioner.get_config()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length=0, expected an integer >= 1"),
        ({"population": 2.5}, "population=2.5, expected an integer >= 1"),
        ({"initial_values": "labls"}, "initial_values='labls', expected one of"),
        ({"initial_values": "labels"}, "labels=None, expected for each task"),
        ({"labels": [[[1]]] * 3}, "expected None with initial_values='vocabulary'"),
        ({"initial_values": "labels", "labels": [[1, 2]] * 3}, "each a sequence of"),
        ({"initial_values": "labels", "labels": [[[]]] * 3}, "each a sequence of"),
        ({"initial_values": "labels", "labels": [[[1]]] * 2}, "expected num_tasks=3"),
        ({"initial_values": "labels", "labels": [[[60]]] * 3}, "vocab_size=60"),
        (
            {"initial_values": "labels", "labels": [[[1]] * 5] * 3, "length": 4},
            "at most length=4 a task",
        ),
        ({"lenght": 5}, "did you mean 'length'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        create("prompt-tuning", tiny_config(), 3, **options)
