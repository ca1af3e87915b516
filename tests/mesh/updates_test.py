"""Updates without an optimizer's own state are those of the optimizer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.mesh import limits
from hypertf.mesh.tensors import Named
from hypertf.mesh.updates import Updates, slot_name
from hypertf.optimizers import AdamW

STEPS = 3
DECAY = {"weight_decay": 0.5}


@pytest.mark.parametrize("rate_factors", [None, {"kernel": 0.1}])
@pytest.mark.parametrize(
    "make",
    [
        lambda **kwargs: hypertf.Adafactor(0.1, min_dim_size_to_factor=4, **kwargs),
        lambda **kwargs: AdamW(0.1, beta_1=0.8, beta_2=0.95, **kwargs),
    ],
)
def test_weights_and_slots_are_those_of_the_optimizer(make, rate_factors):
    # Decay goes by the common rate: not with a rate of one's own.
    optimizer = make(**({"rate_factors": rate_factors} if rate_factors else DECAY))
    limits.check_optimizer(optimizer)  # carried out, so not refused
    rng = np.random.default_rng(0)
    weight = keras.Variable(rng.normal(size=(6, 4)).astype("float32"), name="kernel")
    tensor = Named("kernel", ("d_model", "d_ff"), (6, 4))
    updates = Updates(optimizer)
    value = tf.convert_to_tensor(weight)
    slots = {slot_name(s): tf.zeros(s.shape) for s in updates.slots(tensor)}
    for step in range(STEPS):
        gradient = rng.normal(size=(6, 4)).astype("float32")
        told = tf.constant(float(step)), tf.constant(0.1)
        value, slots = updates.updated(weight, value, gradient, slots, *told)
        optimizer.apply([gradient], [weight])
    np.testing.assert_allclose(value, weight, rtol=1e-5)
    own = optimizer.slots(weight)
    assert set(own) == set(slots)
    for name, slot in own.items():
        np.testing.assert_allclose(slots[name], slot, rtol=1e-5)


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        (keras.optimizers.SGD(), "optimizer SGD: only hypertf.Adafactor and hypertf"),
        (hypertf.Adafactor(beta1=0.9), "Adafactor beta1=0.9: not carried out on a"),
        (AdamW(amsgrad=True), "AdamW amsgrad=True: not carried out on a mesh"),
        (AdamW(clipnorm=1.0), "AdamW clipnorm=1.0: not carried out on a mesh"),
    ],
)
def test_what_a_mesh_does_not_carry_out_is_refused(optimizer, words):
    with pytest.raises(ValueError) as error:
        limits.check_optimizer(optimizer)
    assert words in str(error.value)
