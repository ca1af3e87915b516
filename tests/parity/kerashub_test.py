"""KerasHub's T5Backbone, random weights: same outputs after import.

KerasHub's `activation="gelu"` is the erf form, where T5 1.1 has the tanh form. Its
gated backbone is therefore given the tanh form here, to compare everything else.
"""

import keras
import keras_hub
import numpy as np
import pytest

import hypertf
from hypertf import checkpoints

pytestmark = pytest.mark.filterwarnings("ignore:.*mask attached to it.*")


@keras.saving.register_keras_serializable("hypertf_tests")
def tanh_gelu(x):
    return keras.activations.gelu(x, approximate=True)


VERSIONS = {
    "1.0": {
        "activation": "relu",
        "use_gated_activation": False,
        "tie_embedding_weights": True,
    },
    "1.1": {
        "activation": tanh_gelu,
        "use_gated_activation": True,
        "tie_embedding_weights": False,
    },
}


@pytest.fixture(scope="module", params=VERSIONS)
def backbone(request):
    model = keras_hub.models.T5Backbone(
        vocabulary_size=96,
        num_layers=2,
        num_heads=4,
        hidden_dim=32,
        intermediate_dim=48,
        key_value_dim=6,
        dropout=0.0,
        **VERSIONS[request.param],
    )
    randomize(model)
    return model


def randomize(model):
    """Gives every weight a size at which it matters, norms and biases too."""
    random = np.random.default_rng(7)
    for weight in model.weights:
        if len(weight.shape) == 1:
            value = random.uniform(0.5, 1.5, weight.shape)
        elif weight.name == "embeddings":  # of tokens, and of relative positions
            value = random.normal(size=weight.shape)
        else:
            value = random.normal(size=weight.shape) * weight.shape[0] ** -0.5
        weight.assign(value)


@pytest.fixture(scope="module")
def model(backbone, tmp_path_factory):
    folder = tmp_path_factory.mktemp("preset")
    backbone.save_to_preset(folder)
    model = hypertf.T5(checkpoints.read_config(folder))
    checkpoints.load(model, folder)
    return model


@pytest.fixture(scope="module")
def inputs():
    """Rows of several lengths, some beyond the largest distance; 0 is padding."""
    random = np.random.default_rng(8)
    encoder, decoder = np.zeros((3, 150), "int32"), np.zeros((3, 140), "int32")
    for row, (source, target) in enumerate([(150, 140), (61, 33), (4, 1)]):
        encoder[row, :source] = random.integers(2, 96, source)
        decoder[row, 1:target] = random.integers(2, 96, target - 1)
    real = decoder > 0
    real[:, 0] = True  # the start token is 0, too
    return {"encoder": encoder, "decoder": decoder, "real": real}


@pytest.fixture(scope="module")
def outputs(backbone, inputs):
    return backbone(
        {
            "encoder_token_ids": inputs["encoder"],
            "encoder_padding_mask": inputs["encoder"] > 0,
            "decoder_token_ids": inputs["decoder"],
            "decoder_padding_mask": inputs["real"],
        }
    )


def assert_close(ours, theirs, real):
    ours, theirs = (keras.ops.convert_to_numpy(x)[real] for x in (ours, theirs))
    scale = np.abs(theirs).max()
    np.testing.assert_allclose(ours / scale, theirs / scale, atol=1e-5, rtol=0)


def test_encoder_output(model, inputs, outputs):
    ours, _ = model.encode({"encoder_tokens": inputs["encoder"]})
    theirs = outputs["encoder_sequence_output"]
    assert_close(ours, theirs, inputs["encoder"] > 0)


def test_logits(model, backbone, inputs, outputs):
    ours = model(
        {"encoder_tokens": inputs["encoder"], "decoder_tokens": inputs["decoder"]}
    )
    theirs = outputs["decoder_sequence_output"]
    if backbone.tie_embedding_weights:  # as KerasHub's own T5 for text does
        theirs = theirs * backbone.hidden_dim**-0.5
    theirs = backbone.token_embedding(theirs, reverse=True)
    assert_close(ours, theirs, inputs["real"])
