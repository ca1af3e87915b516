"""Learning rates and AdamW against their formulas."""

import keras
import numpy as np
import pytest

import hypertf
from hypertf import checkpoints
from hypertf.optimizers import AdamW
from hypertf.training import LinearSchedule
from tests.helpers import tiny_model


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({}, {0: 0.4, 7: 0.4, 10**6: 0.4}),
        ({"warmup_steps": 4}, {0: 0.0, 1: 0.1, 3: 0.3, 4: 0.4, 99: 0.4}),
        (
            {"decay_start": 0, "steps": 8},
            {0: 0.4, 2: 0.3, 4: 0.2, 6: 0.1, 8: 0.0, 9: 0.0},
        ),
        (
            {"warmup_steps": 2, "decay_start": 4, "steps": 8, "final": 0.2},
            {0: 0.0, 1: 0.2, 2: 0.4, 4: 0.4, 5: 0.35, 7: 0.25, 8: 0.2, 1000: 0.2},
        ),
    ],
)
def test_rates(options, values):
    schedule = LinearSchedule(0.4, **options)
    for step, rate in values.items():
        assert float(schedule(step)) == pytest.approx(rate, abs=1e-7), step
    again = LinearSchedule.from_config(schedule.get_config())
    for step, rate in values.items():
        assert float(again(step)) == pytest.approx(rate, abs=1e-7), step


def test_a_decay_needs_its_end():
    for steps in (None, 5):
        with pytest.raises(ValueError, match=r"steps=.*expected more than decay_start"):
            LinearSchedule(0.4, decay_start=5, steps=steps)


def test_an_optimizer_asks_for_the_rate_of_its_step():
    variable = keras.Variable(np.zeros(2, "float32"))
    optimizer = keras.optimizers.SGD(LinearSchedule(1.0, warmup_steps=4))
    seen = []
    for _ in range(6):
        before = variable.numpy()
        optimizer.apply([np.ones(2, "float32")], [variable])
        seen.append(float((before - variable.numpy())[0]))
    assert seen == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0, 1.0])


def adam(value, gradients, rate, decay, beta1=0.9, beta2=0.999, epsilon=1e-8):
    """Loshchilov and Hutter (2019), Algorithm 2; the decay is times the rate."""
    m = v = np.zeros_like(value)
    for t, gradient in enumerate(gradients, 1):
        value = value - rate(t - 1) * decay * value
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        unbiased = m / (1 - beta1**t), v / (1 - beta2**t)
        value = value - rate(t - 1) * unbiased[0] / (np.sqrt(unbiased[1]) + epsilon)
    return value, m, v


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamw(decay):
    rng = np.random.default_rng(0)
    value, gradients = rng.normal(size=(3, 4)), rng.normal(size=(6, 3, 4))
    schedule = LinearSchedule(0.1, warmup_steps=2, decay_start=3, steps=7)
    variable = keras.Variable(value.astype("float32"), name="kernel")
    optimizer = AdamW(schedule, weight_decay=decay)
    for gradient in gradients:
        optimizer.apply([gradient.astype("float32")], [variable])
    expected = adam(value, gradients, lambda t: float(schedule(t)), decay)
    slots = optimizer.slots(variable)
    for got, wanted in zip((variable, slots["m"], slots["v"]), expected, strict=True):
        # Keras takes the rate times sqrt(1 - beta2^t), so epsilon weighs a bit more.
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-6)


def built(seed, steps=0):
    model = tiny_model(seed=seed)
    optimizer = AdamW(0.1, weight_decay=0.01)
    optimizer.build(model.trainable_variables)
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        gradients = [rng.normal(size=v.shape) for v in model.trainable_variables]
        optimizer.apply([g.astype("float32") for g in gradients])
    return model, optimizer


def values(model, optimizer):
    state = {"iterations": int(optimizer.iterations)}
    for variable in model.trainable_variables:
        name = variable.path.removeprefix(model.name)
        state[name] = variable.numpy()
        for slot, value in optimizer.slots(variable).items():
            state[f"{name} {slot}"] = value.numpy()
    return state


def test_slots_go_through_a_checkpoint(tmp_path):
    model, optimizer = built(0, steps=3)
    prefix = checkpoints.save(
        model, tmp_path / "model.ckpt-3", format="mesh", optimizer=optimizer, step=3
    )
    other, fresh = built(1)
    report = checkpoints.load(other, prefix, fresh)
    assert report.step == 3
    assert report.slots == 2 * len(model.trainable_variables)
    expected, got = values(model, optimizer), values(other, fresh)
    assert expected["iterations"] == 3
    assert got.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name], err_msg=name)


def test_slots_of_another_optimizer_are_refused(tmp_path):
    model, optimizer = built(0, steps=1)
    prefix = checkpoints.save(
        model, tmp_path / "model.ckpt-1", format="mesh", optimizer=optimizer, step=1
    )
    with pytest.raises(ValueError, match="_slot_m"):
        checkpoints.load(tiny_model(), prefix, hypertf.Adafactor(0.1))


def test_adamw_survives_its_config():
    optimizer = AdamW(LinearSchedule(0.1, 5), weight_decay=0.3)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(copy, AdamW)
    assert copy.get_config() == optimizer.get_config()
