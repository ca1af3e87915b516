"""What holds for every method: each in a batch that mixes tasks."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.conditioning import create, names
from hypertf.t5 import Unallocated, named_weights
from tests.helpers import log_likelihood, relative_error, rows, tiny_config, tiny_model

TASKS = 3
LENGTH = 6  # of what is written; the same in all tests, which then share a function
# Sizes that fit the tiny T5: d_model 16, d_ff 24, 2 heads of 6.
METHODS = {
    "hypergrid": {"d_r": 4, "d_c": 8},
    "hyperprompt-share": {"encoder_length": 3, "decoder_length": 2, "bottleneck": 4},
    "hyperprompt-sep": {"encoder_length": 3, "decoder_length": 2, "bottleneck": 4},
    "hyperprompt-global": {"encoder_length": 3, "decoder_length": 2, "bottleneck": 4},
    "hyperformer": {"bottleneck": 4},
    "hyperformer++": {"bottleneck": 4},
    "hyperdecoder": {"encoder_size": 4, "decoder_size": 3, "bottleneck": 5},
    "task-hypernet": {"encoder_size": 4, "decoder_size": 3, "bottleneck": 5},
    "parallel-adapters": {"encoder_size": 4, "decoder_size": 3},
    "adapters": {"bottleneck": 4},
    "adapters-shared-norm": {"bottleneck": 4},
    "prompt-tuning": {"length": 3},
    "modular-skills": {"skills": 2, "rank": 2, "temperature": None},  # no draws
}
SAME_FOR_ALL_TASKS = {"parallel-adapters", "hyperdecoder"}


def make(name, seed=3, **overrides):
    keras.utils.set_random_seed(seed)
    config = tiny_config(**overrides)
    conditioner = create(name, config, TASKS, **METHODS[name])
    return tiny_model(seed=seed, conditioner=conditioner, **overrides)


@pytest.fixture(scope="module", params=METHODS)
def method(request):
    return request.param


@pytest.fixture(scope="module")
def model(method):
    return make(method)


def batch(tasks=(0, 2, 1, 2)):
    return {
        "encoder_tokens": rows([4, 8, 6, 5], 8),
        "task_ids": np.array(tasks, "int32"),
    }


def with_targets(tasks=(0, 2, 1, 2)):
    return {**batch(tasks), "decoder_tokens": rows([3, 4, 5, 2], 5)}


def test_every_name_is_covered():
    assert set(METHODS) | {"none"} == set(names())


def test_cached_equals_uncached(model):
    ids = model.generate(batch(), LENGTH).numpy()
    decoder_tokens = np.pad(ids, ((0, 0), (1, 0)))[:, :-1]
    logits = model({**batch(), "decoder_tokens": decoder_tokens})
    assert (np.argmax(logits, -1) == ids)[ids > 0].all()


def test_beam_scores_are_the_log_likelihood_of_what_they_wrote(model):
    ids, scores = model.generate(
        batch(), 5, beam_size=2, length_penalty=0.0, return_scores=True
    )
    assert relative_error(scores, log_likelihood(model, batch(), ids)) < 1e-4


def test_score_is_the_log_likelihood(model):
    targets = with_targets()["decoder_tokens"]
    scores = model.score({**batch(), "targets": targets})
    assert relative_error(scores, log_likelihood(model, batch(), targets)) < 1e-4


def test_a_row_does_not_depend_on_the_tasks_of_its_mates(method, model):
    logits = model(with_targets()).numpy()
    others = model(with_targets((0, 1, 1, 0))).numpy()
    assert relative_error(others[[0, 2]], logits[[0, 2]]) < 1e-5
    if method not in SAME_FOR_ALL_TASKS:
        assert relative_error(others[[1, 3]], logits[[1, 3]]) > 1e-3


def test_one_row_equals_its_row_of_a_batch(model):
    """Fewer rows than tasks, and more: generated per example, and once per task."""
    logits = model(with_targets()).numpy()
    for i in range(4):
        one = {key: value[i : i + 1] for key, value in with_targets().items()}
        assert relative_error(model(one).numpy(), logits[i : i + 1]) < 1e-5


def gradients(model):
    with tf.GradientTape() as tape:
        logits = model(with_targets(), training=True)
        loss = tf.reduce_mean(tf.square(logits - 0.1))
    variables = [v.value for v in model.trainable_variables]
    return dict(
        zip(
            [v.path for v in model.trainable_variables],
            tape.gradient(loss, variables),
            strict=True,
        )
    )


def test_gradients_reach_every_parameter_of_the_method(model):
    found = gradients(model)
    mine = [weight.path for weight in model.conditioner.trainable_weights]
    assert mine
    for path in mine:
        assert found[path] is not None, f"no gradient for {path}"
        assert np.abs(tf.convert_to_tensor(found[path]).numpy()).max() > 0, path


def test_what_trains(method, model):
    trains = model.conditioner.options.trains or model.conditioner.trains
    mine = {weight.path for weight in model.conditioner.weights}
    trained = {weight.path for weight in model.trainable_variables}
    plain = {w.path for w in model.weights} - mine
    norms = {path for path in plain if path.endswith("rms_norm/scale")}
    embeddings = {path for path in plain if path.endswith("shared/embedding")}
    expected = {
        "all": plain,
        "all-but-embeddings": plain - embeddings,
        "task": set(),
        "task+norms": norms,
    }[trains]
    assert trained - mine == expected
    assert trained & mine


def test_what_trains_is_an_option(method):
    for trains in ("all", "task"):
        config = tiny_config()
        options = {**METHODS[method], "trains": trains}
        model = hypertf.T5(config, conditioner=create(method, config, TASKS, **options))
        mine = {weight.path for weight in model.conditioner.weights}
        others = {w.path for w in model.trainable_variables} - mine
        assert bool(others) == (trains == "all")


@pytest.mark.slow
def test_a_training_step_compiles_and_equals_the_plain_one(method):
    model = make(method, num_encoder_layers=1, num_decoder_layers=1, dropout_rate=0.0)
    inputs = {key: tf.constant(value) for key, value in with_targets().items()}

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs, training=True)))
        return loss, tape.gradient(loss, [v.value for v in model.trainable_variables])

    loss, grads = step()
    compiled_loss, compiled = tf.function(step, jit_compile=True)()
    assert relative_error(compiled_loss, loss) < 1e-5
    for one, other in zip(grads, compiled, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            one, other = tf.convert_to_tensor(one), tf.convert_to_tensor(other)
            assert relative_error(other, one) < 1e-3


def test_bfloat16_is_near_float32(method):
    full = make(method)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        half = make(method)
    finally:
        keras.config.set_dtype_policy("float32")
    half.set_weights(full.get_weights())
    expected = full(with_targets()).numpy()
    got = half(with_targets()).numpy()
    assert got.dtype == "float32"
    error = np.abs(got - expected).mean() / np.abs(expected).mean()
    assert 0 < error < 0.1
    assert all(weight.dtype == "float32" for weight in half.weights)


def trained_names(model):
    return {name for name, w in named_weights(model).items() if w.trainable}


def test_configuration_round_trip(model):
    copy = hypertf.T5.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    assert relative_error(copy(with_targets()), model(with_targets())) < 1e-6
    assert trained_names(copy) == trained_names(model)


def test_dropout_draws_anew_in_training_only(method):
    model = make(method, dropout_rate=0.5)
    first, second = (model(with_targets(), training=True).numpy() for _ in range(2))
    assert relative_error(first, second) > 1e-3
    first, second = (model(with_targets()).numpy() for _ in range(2))
    assert (first == second).all()


def test_baked_equals_unbaked(method, model):
    baked = hypertf.export.bake(model)
    assert relative_error(baked(with_targets()), model(with_targets())) < 1e-5
    ids = model.generate(batch(), LENGTH).numpy()
    assert (baked.generate(batch(), LENGTH).numpy() == ids).all()
    if not model.conditioner.reads_input:
        before = {id(weight) for weight in model.weights}
        assert not before & {id(weight) for weight in baked.weights}
        assert not baked.trainable_variables


def test_some_tasks_are_baked(method, model):
    if model.conditioner.reads_input:
        pytest.skip(f"{method} reads the input: nothing is kept per task")
    baked = hypertf.export.bake(model, tasks=[2, 0])
    some = (0, 2, 2, 0)
    assert relative_error(baked(with_targets(some)), model(with_targets(some))) < 1e-5
    if method not in SAME_FOR_ALL_TASKS:
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            baked(with_targets((0, 1, 2, 0)))


def test_names_and_dimensions(model):
    for name, weight in named_weights(model).items():
        assert len(weight.dims) == len(weight.shape), name


def test_the_largest_t5_needs_no_memory_to_be_counted(method):
    config = hypertf.T5Config.from_name("t5-11b")
    with Unallocated():
        model = hypertf.T5(config, conditioner=create(method, config, 16))
    counted = hypertf.analysis.parameters(model)
    assert counted.plain == 11_307_321_344
    assert counted.added == sum(np.prod(w.shape) for w in model.conditioner.weights)
    assert f"{counted.added:,}" in str(counted)


@pytest.mark.parametrize("tasks", [0, -1, 2.5, True, "eight"])
def test_number_of_tasks(method, tasks):
    with pytest.raises(ValueError, match=f"{method.replace('+', '.')}: num_tasks="):
        create(method, tiny_config(), tasks, **METHODS[method])


def test_misspelt_option(method):
    with pytest.raises(ValueError, match="did you mean 'trains'"):
        create(method, tiny_config(), TASKS, trians="all")
    with pytest.raises(ValueError, match="trains='some', expected one of 'all'"):
        create(method, tiny_config(), TASKS, trains="some")


@pytest.mark.parametrize("task", [TASKS, -1])
def test_task_id_out_of_range(model, task):
    with pytest.raises(
        ValueError, match=rf"task id {task} at \[1\].*num_tasks={TASKS}"
    ):
        model(with_targets((0, task, 1, 2)))
    with pytest.raises(ValueError, match=f"task id {task}"):
        model.generate(batch((0, task, 1, 2)), 3)


def test_unknown_method():
    with pytest.raises(ValueError, match=r"unknown conditioner 'hyperformer\+'"):
        create("hyperformer+", tiny_config(), TASKS)
    with pytest.raises(ValueError, match="unknown option 'length'"):
        create("none", tiny_config(), TASKS, length=3)
    assert create("none", tiny_config(), TASKS) is None
