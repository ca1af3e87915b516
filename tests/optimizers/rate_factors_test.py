"""Groups of weights with rates of their own."""

import keras
import numpy as np
import pytest

from hypertf.optimizers import Adafactor, AdamW

OPTIMIZERS = {"adafactor": Adafactor, "adamw": AdamW}


class Weights(keras.layers.Layer):
    """Two weights of one shape, which Adafactor would update together, and another."""

    def build(self):
        rng = np.random.default_rng(0)
        for name, shape in (("down", (4, 3)), ("logits", (4, 3)), ("other", (5,))):
            value = keras.initializers.Constant(rng.normal(size=shape))
            weight = self.add_weight(shape=shape, initializer=value, name=name)
            setattr(self, name, weight)


def updated(make, rate, names, steps=3, **options):
    """The weights of these names after some steps."""
    layer = Weights()
    layer.build()
    optimizer = make(rate, **options)
    rng = np.random.default_rng(1)
    for _ in range(steps):
        gradients = [rng.normal(size=v.shape) for v in layer.trainable_variables]
        gradients = [keras.ops.convert_to_tensor(g, "float32") for g in gradients]
        optimizer.apply(gradients, layer.trainable_variables)
    return [np.array(getattr(layer, name)) for name in names]


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_group_moves_as_with_its_own_rate(make):
    factors = {"logits$": 20.0, "other": 0.0}
    down, logits, other = updated(
        make, 0.01, ["down", "logits", "other"], rate_factors=factors
    )
    np.testing.assert_array_equal(down, *updated(make, 0.01, ["down"]))
    np.testing.assert_allclose(logits, *updated(make, 0.2, ["logits"]), rtol=1e-6)
    np.testing.assert_array_equal(other, *updated(make, 0.01, ["other"], steps=0))


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_what_is_wrong_with_factors(make):
    with pytest.raises(ValueError, match="'lgits' matches none of 3 trained weights"):
        updated(make, 0.01, [], rate_factors={"lgits": 2.0})
    with pytest.raises(ValueError, match=r"'\('.*expected a regular expression"):
        make(0.01, rate_factors={"(": 2.0})
    with pytest.raises(ValueError, match="has -1, expected a number >= 0"):
        make(0.01, rate_factors={"a": -1})
    with pytest.raises(ValueError, match=r"weight_decay=0\.1: expected no decay"):
        make(0.01, rate_factors={"a": 2.0}, weight_decay=0.1)


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_factors_survive_saving(make):
    config = make(0.01, rate_factors={"a": 2.0}).get_config()
    assert make.from_config(config).rate_factors.factors == {"a": 2.0}
