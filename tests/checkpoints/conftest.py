"""Tiny models, for the tests of all formats."""

import numpy as np
import pytest

import hypertf
from hypertf.t5 import named_weights

V1_0 = {"activation": "relu", "tie_embeddings": True}
V1_1 = {"activation": "gated-gelu", "tie_embeddings": False}


@pytest.fixture(params=[V1_0, V1_1], ids=["1.0", "1.1"])
def version(request):
    """The options that tell T5 1.0 from 1.1."""
    return request.param


@pytest.fixture
def make_model():
    """Makes models whose every weight is random, norms included."""

    def make(seed=0, conditioner=None, **options):
        sizes = {
            "vocab_size": 64,
            "d_model": 16,
            "d_ff": 24,
            "num_heads": 2,
            "d_kv": 6,
            "num_encoder_layers": 2,
            "num_decoder_layers": 3,
        }
        config = hypertf.T5Config(**{**sizes, **options})
        model = hypertf.T5(config, conditioner=conditioner)
        random = np.random.default_rng(seed)
        for weight in named_weights(model).values():
            weight.assign(random.normal(size=weight.shape))
        return model

    return make


@pytest.fixture
def values():
    """`{name: numpy array}` of a model's weights."""

    def get(model):
        return {k: v.value.numpy() for k, v in named_weights(model).items()}

    return get


@pytest.fixture
def assert_equal(values):
    """Asserts that two models hold the same weights, bit for bit."""

    def check(model, other):
        left, right = values(model), values(other)
        assert left.keys() == right.keys()
        for name in left:
            np.testing.assert_array_equal(left[name], right[name], err_msg=name)

    return check
