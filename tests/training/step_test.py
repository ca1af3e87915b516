"""A step against its formula, and against itself cut up in other ways."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from hypertf.optimizers import Adafactor, AdamW
from hypertf.t5.dropout import Dropout
from hypertf.t5.remat import rematerialized
from hypertf.testing.case import Case
from hypertf.testing.packing import LENGTHS, examples, packed
from hypertf.training import T5Loss, TrainStep, token_losses
from hypertf.training.step import sums_by_task
from tests.helpers import V1_1, relative_error, tiny_config
from tests.training.tiny import (
    METHODS,
    ROWS,
    TASKS,
    arrays,
    batch_at,
    iterator,
    make_batches,
    make_model,
    with_rematerialization,
)

INPUTS = ("encoder_tokens", "decoder_tokens", "task_ids")
LOSS = {"z_loss": 0.01, "label_smoothing": 0.1}
BATCHES = make_batches(4)
FIRST = batch_at(BATCHES, 0)


def sgd():
    """Its update is the gradient."""
    return keras.optimizers.SGD(1.0)


def make_step(model, optimizer=None, **options):
    return TrainStep(model, optimizer or sgd(), TASKS, **{**LOSS, **options})


def gradients(model, batch, **options):
    """The loss and its gradients, computed on the whole batch at once."""
    with tf.GradientTape() as tape:
        logits = model({name: batch[name] for name in INPUTS}, training=True)
        loss = T5Loss(**{**LOSS, **options})(batch["targets"], logits)
    results = tape.gradient(
        loss,
        [v.value for v in model.trainable_variables],
        unconnected_gradients="zero",
    )
    return loss, [tf.convert_to_tensor(g) for g in results]


def changes(model, run):
    """What `run` changes of the trained weights, in the order of the weights."""
    before = arrays(model.trainable_variables)
    run()
    after = arrays(model.trainable_variables)
    return [b - a for a, b in zip(before, after, strict=True)]


def flat(values):
    return np.concatenate([np.ravel(v) for v in values])


def assert_near(values, expected, tolerance=1e-5):
    """Relative to the largest of all: some gradients are nothing but rounding."""
    assert np.abs(flat(expected)).max() > 0
    assert relative_error(flat(values), flat(expected)) < tolerance


class State:
    """Weights and slots to come back to."""

    def __init__(self, step):
        self.variables = [*step.model.variables, *step.optimizer.variables]
        self.values = arrays(self.variables)

    def restore(self):
        for variable, value in zip(self.variables, self.values, strict=True):
            variable.assign(value)


# Large epsilons, so that a rounded gradient makes a rounded update.
OPTIMIZERS = {
    "adafactor": lambda: Adafactor(0.1, epsilon1=1e-4),
    "adamw": lambda: AdamW(0.1, weight_decay=0.1, epsilon=1e-2),
}


@pytest.mark.parametrize(
    ("normalization", "optimizer", "method"),
    [
        ("target_size", "adafactor", "hyperprompt-global"),
        ("tokens", "adamw", "none"),
        ("sum", "adamw", "none"),
    ],
)
def test_a_step_is_the_gradient_of_the_loss(normalization, optimizer, method):
    model, same = make_model(method), make_model(method)
    step = make_step(model, OPTIMIZERS[optimizer](), normalization=normalization)
    got = changes(model, lambda: step.run(iterator(BATCHES), 0, 2))
    other = OPTIMIZERS[optimizer]()

    def by_hand():
        for i in range(2):
            _, results = gradients(
                same, batch_at(BATCHES, i), normalization=normalization
            )
            other.apply(results, same.trainable_variables)

    assert_near(got, changes(same, by_hand), 1e-4)


def test_sums_for_each_task():
    model = make_model("hypergrid")
    before = model.get_weights()
    batches = make_batches(2)
    batches["task_ids"][:] %= 2  # the last task has no rows
    step = make_step(model, keras.optimizers.SGD(0.0))
    totals = step.run(iterator(batches), 0, 2)
    expected = {name: np.zeros(TASKS) for name in ("loss", "tokens", "examples")}
    for number in range(2):
        batch = batch_at(batches, number)
        logits = model({name: batch[name] for name in INPUTS})
        losses = token_losses(logits, batch["targets"], **LOSS).numpy()
        for row, task in enumerate(batch["task_ids"]):
            tokens = int((batch["targets"][row] > 0).sum())
            expected["loss"][task] += losses[row, :tokens].sum()
            expected["tokens"][task] += tokens
            expected["examples"][task] += tokens > 0
    for name, value in expected.items():
        np.testing.assert_allclose(totals[name], value, rtol=1e-5, err_msg=name)
    assert totals["examples"].sum() == 2 * (ROWS - 1)  # all but the fillers
    assert totals["bad_step"] == -1
    assert step.any_process(True) and not step.any_process(False)
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("method", "cuts"),
    [("none", (2, 4)), ("hyperprompt-global", (4,)), ("hypergrid", (2,))],
)
def test_parts_of_a_batch_make_the_whole(method, cuts):
    """Also where the parts have different numbers of tokens."""
    results, totals = {}, {}
    for parts in (1, *cuts):
        model = make_model(method)
        step = make_step(model, microbatches=parts, normalization="tokens")
        results[parts] = changes(
            model, lambda p=parts, s=step: totals.update({p: s.one(FIRST, 0)})
        )
    for parts in cuts:
        assert_near(results[parts], results[1])
        for name in ("loss", "tokens", "examples"):
            np.testing.assert_allclose(totals[parts][name], totals[1][name], rtol=1e-5)


@pytest.fixture(scope="module")
def random_step():
    """A step whose dropout, of model and conditioner, drops much."""
    model = make_model("hyperprompt-global", dropout_rate=0.3)
    return make_step(model, Adafactor(0.05), seed=7)


def weights_after(step, *numbers):
    return flat(changes(step.model, lambda: [step.one(FIRST, n) for n in numbers]))


def test_dropout_is_a_function_of_the_step(random_step):
    start = State(random_step)
    results = []
    for number in (0, 0, 1):
        results.append(weights_after(random_step, number))
        start.restore()
    np.testing.assert_array_equal(results[0], results[1])
    assert np.abs(results[0] - results[2]).max() > 1e-4


def test_dropout_is_a_function_of_the_seed():
    losses = []
    for seed in (0, 1):
        step = make_step(make_model(dropout_rate=0.3), seed=seed)
        losses.append(step.one(FIRST, 5)["loss"])
    assert (losses[0] != losses[1]).all()


def test_how_many_steps_are_run_at_once_does_not_matter(random_step):
    start = State(random_step)
    results = []
    for parts in ([4], [1, 3], [2, 2], [1, 1, 1, 1]):
        batches, at = iterator(BATCHES), 10
        for count in parts:
            random_step.run(batches, at, count)
            at += count
        results.append(arrays(start.variables))
        start.restore()
    for other in results[1:]:
        np.testing.assert_array_equal(flat(other), flat(results[0]))


def test_going_on_at_a_step_is_going_on_in_the_data_and_the_dropout(random_step):
    start = State(random_step)
    random_step.run(iterator(BATCHES), 0, 4)
    whole = arrays(start.variables)
    start.restore()
    random_step.run(iterator(BATCHES), 0, 2)
    keras.utils.set_random_seed(99)  # nothing else is remembered
    random_step.run(iterator(BATCHES, start=2), 2, 2)
    np.testing.assert_array_equal(flat(arrays(start.variables)), flat(whole))
    start.restore()


def test_parts_of_a_batch_draw_their_own_dropout():
    batch = {name: np.concatenate([x[4:], x[4:]]) for name, x in FIRST.items()}
    batch["task_ids"] = np.repeat([0, 1], 4).astype("int32")
    step = make_step(make_model(dropout_rate=0.3), microbatches=2)
    first, second, _ = step.one(batch, 0)["loss"]
    assert abs(first - second) > 1e-3
    step = make_step(make_model(), microbatches=2)  # without dropout they are the same
    first, second, _ = step.one(batch, 0)["loss"]
    assert abs(first - second) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("none", {}),
        ("hyperdecoder", {}),
        ("hyperprompt-global", {"rematerialize": True}),  # beside one without
    ],
)
def test_compiled_equals_plain(method, options):
    results, totals = [], []
    for compiled in (False, True):
        model = make_model(method, **(options if compiled else {}))
        step = make_step(
            model, jit_compile=compiled, normalization="tokens", clip_norm=1.0
        )
        run = step.run
        results.append(
            changes(model, lambda r=run: totals.append(r(iterator(BATCHES), 0, 1)))
        )
    assert_near(results[1], results[0], 1e-4)
    np.testing.assert_allclose(totals[1]["loss"], totals[0]["loss"], rtol=1e-4)


@pytest.mark.parametrize("share", [0.25, 4.0])
def test_clipping(share):
    model, same = make_model(), make_model()
    _, results = gradients(same, FIRST, normalization="target_size")
    norm = np.sqrt(np.sum(np.square(flat(results), dtype="float64")))
    step = make_step(model, clip_norm=share * norm)
    got = changes(model, lambda: step.one(FIRST, 0))
    assert_near(got, [-min(1.0, share) * g.numpy() for g in results])


def test_frozen_weights_stay():
    model = make_model("hyperprompt-global", options={"trains": "task"})
    before = dict(
        zip([w.path for w in model.weights], model.get_weights(), strict=True)
    )
    step = make_step(model, AdamW(0.1, weight_decay=0.1), clip_norm=1.0)
    step.run(iterator(BATCHES), 0, 3)
    trained = {w.path for w in model.conditioner.weights}
    assert 0 < len(trained) < len(before)
    for weight in model.weights:
        same = np.array_equal(weight.numpy(), before[weight.path])
        assert same == (weight.path not in trained), weight.path


def test_the_first_step_that_is_not_a_number():
    model = make_model(**V1_1)  # whose logits do not read the embedding
    batches = make_batches(4)
    tokens = batches["encoder_tokens"]
    tokens[tokens == 59] = 58
    tokens[2, 4, 0] = tokens[3, 4, 0] = 59
    embedding = model.shared.embedding.numpy()
    embedding[59] = np.inf
    model.shared.embedding.assign(embedding)
    totals = make_step(model).run(iterator(batches), 20, 4)
    assert totals["bad_step"] == 22
    rows = batches["task_ids"][2][batches["targets"][2].any(axis=1)]
    assert totals["bad_examples"].tolist() == [(rows == t).sum() for t in range(TASKS)]


@pytest.mark.parametrize("method", METHODS)
def test_rematerialized_gradients_are_the_plain_ones(method):
    plain = make_model(method, layers=2)
    loss, expected = gradients(plain, FIRST)
    again = with_rematerialization(plain)
    loss_again, results = gradients(again, FIRST)
    assert relative_error(loss_again, loss) < 1e-6
    for one, other, variable in zip(
        results, expected, plain.trainable_variables, strict=True
    ):
        error = np.abs(one - other).max() / np.abs(flat(expected)).max()
        assert error < 1e-5, variable.path


def test_a_rematerialized_step_is_the_plain_one_in_parts_too():
    plain = make_model("hyperprompt-global")
    again = with_rematerialization(plain)
    results = []
    for model, parts in ((plain, 1), (again, 2)):
        step = make_step(model, microbatches=parts)
        results.append(changes(model, lambda s=step: s.one(FIRST, 0)))
    assert_near(results[1], results[0])


def test_rematerialized_dropout_goes_back_where_it_came_from():
    generator = keras.random.SeedGenerator(0)
    dropout = Dropout(0.5, generator)

    def block(x, bias, sites, training):
        return dropout(x, training=training) + 0.0 * bias

    x = tf.ones([4, 3, 16])
    masks = []
    for _ in range(2):
        with tf.GradientTape() as tape:
            tape.watch(x)
            rest = {"sites": (), "training": True}
            y = rematerialized(block, generator, (), x, bias=tf.zeros([]), **rest)
        kept = tape.gradient(y, x).numpy() != 0
        np.testing.assert_array_equal(kept, y.numpy() != 0)
        assert 0.2 < kept.mean() < 0.8
        masks.append(kept)
    assert (masks[0] != masks[1]).any()


def test_rematerialized_gradients_with_dropout_are_slopes_of_the_loss():
    """Another mask in the backward pass would be another function's slope."""
    model = make_model("hyperformer++", layers=2, rematerialize=True, dropout_rate=0.3)
    variables = model.trainable_variables
    states = [v for v in model.non_trainable_variables if "seed_generator" in v.path]
    start, fixed = arrays(variables), [(s, tf.constant(s.numpy())) for s in states]

    def loss_and_gradients():
        with keras.StatelessScope(state_mapping=fixed):
            return gradients(model, FIRST)

    loss, results = loss_and_gradients()
    again, results_again = loss_and_gradients()
    assert loss == again
    assert_near(results_again, results, 1e-6)
    length = np.sqrt(np.sum(np.square(flat(results))))
    values = []
    for side in (-1, 1):
        for variable, value, slope in zip(variables, start, results, strict=True):
            variable.assign(value + side * 1e-3 / length * slope.numpy())
        values.append(float(loss_and_gradients()[0]))
    slope = (values[1] - values[0]) / 2e-3
    assert slope == pytest.approx(length, rel=0.02)


def products(model):
    """Matrix products in the graph of the loss and its gradients."""
    batch = {name: tf.constant(value) for name, value in FIRST.items()}
    function = tf.function(lambda: gradients(model, batch), autograph=False)
    definition = function.get_concrete_function().graph.as_graph_def()
    nodes = [*definition.node]
    for function in definition.library.function:
        nodes += function.node_def
    return sum("MatMul" in node.op or "Einsum" in node.op for node in nodes)


def test_the_backward_pass_computes_blocks_again():
    plain = make_model(layers=2)
    forward = 2 * 4 + 2 * (4 + 3)  # at least: q k v together, o, wi, wo; scores, mix
    assert products(with_rematerialization(plain)) >= products(plain) + forward // 2


def test_unknown_normalization():
    with pytest.raises(ValueError, match="normalization='mean', expected one of"):
        make_step(make_model(), normalization="mean")


@pytest.mark.parametrize("mode", ["task", "mixed"])
def test_sums_by_task_are_of_examples_in_packed_rows(mode):
    """Those of the same examples, one a row."""
    case = Case("none", config=tiny_config())
    unpacked = examples(case)
    lengths = np.array([length for _, length in LENGTHS])
    width = unpacked["decoder_tokens"].shape[1]
    real = np.arange(width) < lengths[:, None]
    unpacked["targets"] = np.where(real, 5, 0)
    losses = np.where(real, np.arange(real.size).reshape(real.shape) + 1.0, 0.0)
    batch = packed(unpacked, mode)
    segments = batch["decoder_segment_ids"]
    batch["targets"] = np.where(segments > 0, 5, 0)
    of_rows = np.zeros(segments.shape)
    for row in range(len(segments)):
        for segment in set(segments[row]) - {0}:
            example = batch["index"][row, segment - 1]
            own = segments[row] == segment
            of_rows[row, own] = losses[example, real[example]]
    got = sums_by_task(tf.constant(of_rows, tf.float32), batch, case.num_tasks)
    expected = sums_by_task(tf.constant(losses, tf.float32), unpacked, case.num_tasks)
    assert float(tf.reduce_sum(got["examples"])) == len(LENGTHS)
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)
