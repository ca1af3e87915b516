"""Adafactor's arithmetic equals the formulas of its paper."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from hypertf.optimizers import Adafactor, adafactor_update, reductions
from hypertf.t5 import target

SHAPES = [
    (),
    (1,),
    (5,),
    (1, 1),
    (3, 4),
    (400, 1),
    (127, 300),
    (128, 128),
    (300, 130),
    (130, 192),
    (2, 128, 129),
    (128, 3, 150),
    (1, 130, 2, 128),
]


class NaiveAdafactor:
    """The formulas of Shazeer and Stern's algorithms 4 to 6, one variable, float64."""

    def __init__(
        self, value, learning_rate, relative=True, clip=1.0, beta1=0.0, exponent=0.8
    ):
        self.value = np.array(value, "float64")
        self.learning_rate, self.relative, self.clip = learning_rate, relative, clip
        self.beta1, self.exponent = beta1, exponent
        self.step, self.momentum = 0, 0.0
        sizes = sorted(self.value.shape, reverse=True)
        self.is_factored = len(sizes) > 1 and sizes[1] >= 128
        by_size = np.argsort([-size for size in self.value.shape], kind="stable")
        self.axes = [int(axis) for axis in by_size[:2]]
        self.v = self.vr = self.vc = 0.0

    def apply(self, gradient):
        self.step += 1
        beta2 = 1 - self.step**-self.exponent
        squares = np.square(np.array(gradient, "float64")) + 1e-30
        if self.is_factored:
            largest, second = self.axes
            row_means = np.mean(squares, largest, keepdims=True)
            column_means = np.mean(squares, second, keepdims=True)
            self.vr = beta2 * self.vr + (1 - beta2) * row_means
            self.vc = beta2 * self.vc + (1 - beta2) * column_means
            v = self.vr * self.vc / np.mean(self.vr, second, keepdims=True)
        else:
            self.v = v = beta2 * self.v + (1 - beta2) * squares
        update = gradient / np.sqrt(v)
        if self.clip:
            update /= max(1, root_mean_square(update) / self.clip)
        scale = max(1e-3, root_mean_square(self.value)) if self.relative else 1
        change = self.learning_rate * scale * update
        if self.beta1:
            self.momentum = self.beta1 * self.momentum + (1 - self.beta1) * change
            change = self.momentum
        self.value = self.value - change


def root_mean_square(x):
    return np.sqrt(np.mean(np.square(x)))


def random(shape, seed=0, scale=1.0):
    values = np.random.default_rng(seed).normal(size=shape) * scale
    return np.asarray(values, "float32")


def assert_close(actual, expected, tolerance=3e-6):
    actual, expected = np.array(actual, "float64"), np.array(expected, "float64")
    scale = np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def train(optimizer, variables, gradients):
    """Applies gradients[step][variable]."""
    for of_step in gradients:
        optimizer.apply([tf.convert_to_tensor(g) for g in of_step], variables)


@pytest.mark.parametrize("uses_products", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_the_formulas(shape, uses_products, monkeypatch):
    if not uses_products:
        monkeypatch.setattr(reductions, "_prefers_products", lambda x: False)
    naive = NaiveAdafactor(random(shape), 0.1)
    variable = keras.Variable(random(shape))
    optimizer = Adafactor(0.1)
    for step in range(4):
        gradient = random(shape, seed=step + 1, scale=10.0 ** (step - 2))
        naive.apply(gradient)
        train(optimizer, [variable], [[gradient]])
        assert_close(variable, naive.value)
    for name, slot in optimizer.slots(variable).items():
        assert_close(slot, getattr(naive, name).reshape(slot.shape))


@pytest.mark.parametrize("shape", [(5,), (130, 128)], ids=str)
@pytest.mark.parametrize(
    ("options", "naive_options"),
    [
        ({"multiply_by_parameter_scale": False}, {"relative": False}),
        ({"exclude_from_parameter_scale": ["^other$", "ker.el"]}, {"relative": False}),
        ({"exclude_from_parameter_scale": ["^other$"]}, {}),
        ({"clipping_threshold": None}, {"clip": None}),
        ({"clipping_threshold": 0.25}, {"clip": 0.25}),
        ({"beta1": 0.9}, {"beta1": 0.9}),
        ({"decay_exponent": 1.0}, {"exponent": 1.0}),
    ],
    ids=str,
)
def test_options_equal_the_formulas(shape, options, naive_options):
    gradients = [random(shape, seed) * seed for seed in (1, 2, 3)]
    naive = NaiveAdafactor(random(shape), 0.1, **naive_options)
    for gradient in gradients:
        naive.apply(gradient)
    variable = keras.Variable(random(shape), name="kernel")
    train(Adafactor(0.1, **options), [variable], [[g] for g in gradients])
    assert_close(variable, naive.value)


@pytest.mark.parametrize("most", [1, 2 * 128 * 130, 2**22])
@pytest.mark.parametrize("beta1", [0.0, 0.9])
def test_weights_of_one_shape_do_not_mix(most, beta1, monkeypatch):
    """Whether each is a group of its own, some are together, or all."""
    monkeypatch.setattr(
        adafactor_update, "LARGEST_GROUP", {"factored": most, "full": most}
    )
    shapes = [(128, 130), (5,), (128, 130), (3, 4), (5,), (128, 130), (128, 130), ()]
    names = ["kernel", "bias", "absolute", *"defgh"]
    naive = [
        NaiveAdafactor(
            random(shape, seed), 0.1, beta1=beta1, relative=name != "absolute"
        )
        for seed, (shape, name) in enumerate(zip(shapes, names, strict=True))
    ]
    variables = [
        keras.Variable(random(shape, seed), name=name)
        for seed, (shape, name) in enumerate(zip(shapes, names, strict=True))
    ]
    optimizer = Adafactor(0.1, beta1=beta1, exclude_from_parameter_scale=["^absolute$"])
    for step in range(3):
        gradients = [
            random(shape, seed=100 * (step + 1) + i, scale=10.0 ** (i - 3))
            for i, shape in enumerate(shapes)
        ]
        for one, gradient in zip(naive, gradients, strict=True):
            one.apply(gradient)
        train(optimizer, variables, [gradients])
    for variable, one in zip(variables, naive, strict=True):
        assert_close(variable, one.value)


def test_groups_are_of_one_kind_and_not_too_large():
    def groups(shapes):
        items = list(enumerate(shapes))
        grouped = adafactor_update.groups_of(
            items, lambda item: item[1], lambda item: "key", 128
        )
        return [[number for number, _ in group] for group in grouped]

    small, large = (512, 512), (2048, 2048)
    assert groups([small, large, small, (7,), large, (7,)]) == [
        [0, 2],
        [1],
        [3, 5],
        [4],
    ]
    assert [len(group) for group in groups([small] * 40)] == [16, 16, 8]
    assert [len(group) for group in groups([(64, 512, 16)] * 3)] == [1, 1, 1]
    with target.tracing_for("TPU"):
        assert groups([small, small, (7,), (7,)]) == [[0], [1], [2], [3]]


def test_one_more_weight_of_a_shape_costs_few_operations():
    """A graph of many small operations takes long to make and to start."""

    def operations(count):
        variables = [keras.Variable(random((128, 130))) for _ in range(count)]
        optimizer = Adafactor()
        optimizer.build(variables)
        gradients = [tf.zeros((128, 130))] * count
        apply = tf.function(lambda: optimizer.apply(gradients, variables))
        return len(apply.get_concrete_function().graph.get_operations())

    assert operations(8) - operations(7) <= 25


@pytest.mark.parametrize("shape", [(), (7,), (128, 150)], ids=str)
def test_zero_gradients_change_nothing(shape):
    variable = keras.Variable(random(shape))
    optimizer = Adafactor(1.0)
    train(optimizer, [variable], [[np.zeros(shape, "float32")]] * 2)
    np.testing.assert_array_equal(variable, random(shape))
    for slot in optimizer.slots(variable).values():
        np.testing.assert_allclose(slot, np.full(slot.shape, 1e-30), rtol=1e-6)


def test_row_without_gradient_beside_very_large_gradients_stays_finite():
    gradient = np.full((128, 150), 1e16, "float32")
    gradient[7], gradient[:, 3] = 0, 0
    variable = keras.Variable(random((128, 150)))
    train(Adafactor(0.1), [variable], [[gradient]])
    assert np.isfinite(variable.numpy()).all()
    np.testing.assert_array_equal(variable.numpy()[7], random((128, 150))[7])


def test_long_sums_keep_their_digits():
    # Adding 40,000 equal float32 numbers one by one loses four digits.
    squares = tf.fill([40_000, 3], 1.1)
    means = reductions.means([squares, 2 * squares], 0)
    np.testing.assert_allclose(means, [[1.1] * 3, [2.2] * 3], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(6,), (128, 150)], ids=str)
def test_half_precision_rounds_once(shape, dtype):
    start = np.array(tf.cast(tf.cast(random(shape), dtype), "float32"))
    gradient = np.array(tf.cast(tf.cast(random(shape, 1), dtype), "float32"))
    full, half = keras.Variable(start), keras.Variable(start, dtype=dtype)
    # One each: where a value stands in its group decides how its sums round.
    train(full_optimizer := Adafactor(0.01), [full], [[gradient]])
    train(optimizer := Adafactor(0.01), [half], [[tf.cast(gradient, dtype)]])
    np.testing.assert_array_equal(
        keras.ops.cast(half, "float32"),
        keras.ops.cast(keras.ops.cast(full, dtype), "float32"),
    )
    for name, slot in optimizer.slots(half).items():
        assert slot.dtype == "float32"
        np.testing.assert_array_equal(slot, full_optimizer.slots(full)[name])


def test_learning_rate_schedule_and_callable():
    gradients = [random((5,), seed) for seed in range(3)]
    expected = NaiveAdafactor(random((5,)), None)
    for rate, gradient in zip([0.1, 0.1, 0.02], gradients, strict=True):
        expected.learning_rate = rate
        expected.apply(gradient)
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([1], [0.1, 0.02])
    scheduled = keras.Variable(random((5,)))
    train(Adafactor(schedule), [scheduled], [[g] for g in gradients])
    assert_close(scheduled, expected.value)
    called, rates = keras.Variable(random((5,))), iter([0.1, 0.1, 0.02])
    train(Adafactor(lambda: next(rates)), [called], [[g] for g in gradients])
    assert_close(called, expected.value)


def test_weight_decay_and_its_exclusions():
    names = ["kernel", "bias", "scale"]
    decayed = [keras.Variable(random((5,)), name=name) for name in names]
    plain = [keras.Variable(random((5,))) for _ in names]
    # A first step without gradient leaves the decay alone to be seen.
    gradients = [[np.zeros(5, "float32")] * 3]
    optimizer = Adafactor(0.5, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_list=[decayed[2]], var_names=["bias"])
    train(optimizer, decayed, gradients)
    train(Adafactor(0.5), plain, gradients)
    assert_close(decayed[0], random((5,)) * (1 - 0.5 * 0.1))
    for variable, same in zip(decayed[1:], plain[1:], strict=True):
        np.testing.assert_array_equal(variable, same)


@pytest.mark.parametrize("options", [{}, {"clipnorm": 0.1}, {"loss_scale_factor": 4.0}])
@pytest.mark.parametrize("shape", [(9, 3), (200, 128)], ids=str)
def test_sparse_gradient_equals_dense(shape, options):
    rows, indices = random((4, shape[1]), 1), [3, 0, 3, 7]
    gradient = np.zeros(shape, "float32")
    np.add.at(gradient, indices, rows)
    dense, sparse = keras.Variable(random(shape)), keras.Variable(random(shape))
    train(Adafactor(0.1, **options), [dense], [[gradient]] * 2)
    optimizer = Adafactor(0.1, **options)
    for _ in range(2):
        slices = tf.IndexedSlices(tf.constant(rows), tf.constant(indices))
        optimizer.apply([slices], [sparse])
    assert_close(sparse, dense, tolerance=1e-7)


@pytest.mark.parametrize("in_function", [False, True])
def test_accumulated_gradients_equal_their_mean(in_function):
    shapes, micro_steps, updates = [(5,), (150, 128)], 3, 4
    accumulating = Adafactor(0.1, weight_decay=0.01, gradient_accumulation_steps=3)
    reference = Adafactor(0.1, weight_decay=0.01)
    small = [keras.Variable(random(shape)) for shape in shapes]
    large = [keras.Variable(random(shape)) for shape in shapes]
    accumulating.build(small)
    apply = tf.function(accumulating.apply) if in_function else accumulating.apply
    for update in range(updates):
        seeds = [update * micro_steps + i for i in range(micro_steps)]
        parts = [[tf.constant(random(s, seed)) for s in shapes] for seed in seeds]
        for part in parts:
            apply(part)
        means = [sum(of_one) / micro_steps for of_one in zip(*parts, strict=True)]
        train(reference, large, [means])
        assert int(accumulating.iterations) == int(reference.iterations)
        for one, other in zip(small, large, strict=True):
            assert_close(one, other, tolerance=5e-7)
