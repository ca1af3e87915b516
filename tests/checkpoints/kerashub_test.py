"""KerasHub preset folders. That outputs agree is tests/parity's to check."""

import functools
import json

import h5py
import keras
import keras_hub
import numpy as np
import pytest

import hypertf
from hypertf import checkpoints

V1_0 = {"activation": "relu", "tie_embeddings": True}
V1_1 = {"activation": "gated-gelu", "tie_embeddings": False}
ONE_LAYER = {"num_layers": 1}  # enough where only the config matters

pytestmark = pytest.mark.filterwarnings("ignore:.*mask attached to it.*")


def backbone(version, **options):
    gated = version["activation"] == "gated-gelu"
    sizes = {
        "vocabulary_size": 64,
        "num_layers": 2,
        "num_heads": 2,
        "hidden_dim": 16,
        "intermediate_dim": 24,
        "key_value_dim": 6,
        "activation": "gelu" if gated else "relu",
        "use_gated_activation": gated,
        "tie_embedding_weights": version["tie_embeddings"],
    }
    model = keras_hub.models.T5Backbone(**{**sizes, **options})
    random = np.random.default_rng(3)
    for weight in model.weights:
        weight.assign(random.normal(size=weight.shape))
    return model


@functools.cache
def plain_backbone(tie_embeddings):
    """That of T5 1.0, which ties them, or of 1.1: made once, changed by no test."""
    return backbone(V1_0 if tie_embeddings else V1_1)


def expected(source):
    """`{our name: variable}`, read through the attributes of KerasHub's layers."""
    weights = {
        "shared/embedding": source.token_embedding.embeddings,
        "encoder/rms_norm/scale": source.encoder_layer_norm.weight,
        "decoder/rms_norm/scale": source.decoder_layer_norm.weight,
    }
    if not source.tie_embedding_weights:
        weights["decoder/logits/kernel"] = source.token_embedding.reverse_embeddings
    for stack in ("encoder", "decoder"):
        for i, layer in enumerate(getattr(source, f"{stack}_transformer_layers")):
            for name, variable in expected_of_layer(layer).items():
                weights[f"{stack}/block_{i:03d}/{name}"] = variable
    return weights


def expected_of_layer(layer):
    last = "layer_002" if layer.is_decoder else "layer_001"
    weights = {
        "layer_000/rms_norm/scale": layer.self_attention_layer_norm.weight,
        f"{last}/rms_norm/scale": layer.layer_norm.weight,
        f"{last}/DenseReluDense/wo/kernel": layer.output_projector.kernel,
    }
    attentions = {"layer_000/SelfAttention": layer.self_attention}
    if layer.is_decoder:
        attentions["layer_001/EncDecAttention"] = layer.cross_attention
        norm = layer.cross_attention_layer_norm.weight
        weights["layer_001/rms_norm/scale"] = norm
    for name, attention in attentions.items():
        for part in ("query", "key", "value", "output"):
            kernel = getattr(attention, f"{part}_projector").kernel
            weights[f"{name}/{part[0]}"] = kernel
        if attention.use_relative_attention_bias:
            bias = keras.ops.transpose(attention.relative_attention_bias)
            weights[f"{name}/relative_attention_bias"] = bias
    if layer.use_gated_activation:
        weights[f"{last}/DenseReluDense/wi_0/kernel"] = layer.input_projector.kernel
        weights[f"{last}/DenseReluDense/wi_1/kernel"] = layer.gate_projector.kernel
    else:
        weights[f"{last}/DenseReluDense/wi/kernel"] = layer.input_projector.kernel
    return weights


def check(source, folder, values):
    model = hypertf.T5(checkpoints.read_config(folder))
    report = checkpoints.load(model, folder)
    wanted, actual = expected(source), values(model)
    assert wanted.keys() == actual.keys()
    for name, variable in wanted.items():
        theirs = keras.ops.convert_to_numpy(variable).astype("float32")
        np.testing.assert_array_equal(actual[name], theirs, err_msg=name)
    assert report.format == "KerasHub"
    assert report.parameters == source.count_params()
    return model, report


def test_every_weight_arrives(version, tmp_path, values):
    source = plain_backbone(version["tie_embeddings"])
    source.save_to_preset(tmp_path)
    model, _ = check(source, tmp_path, values)
    assert model.config == hypertf.T5Config(
        vocab_size=64,
        d_model=16,
        d_ff=24,
        num_heads=2,
        d_kv=6,
        num_encoder_layers=2,
        num_decoder_layers=2,
        **version,
    )


def test_more_layers_than_one_digit_counts(tmp_path, values):
    source = backbone(V1_0, num_layers=11)
    source.save_to_preset(tmp_path)
    model, _ = check(source, tmp_path, values)
    assert len(model.encoder.blocks) == len(model.decoder.blocks) == 11


def test_several_files_are_one_preset(tmp_path, values):
    source = plain_backbone(tie_embeddings=False)
    source.save_to_preset(tmp_path, max_shard_size=1e-5)  # in GB
    assert len(list(tmp_path.glob("model_*.weights.h5"))) > 2
    assert not (tmp_path / "model.weights.h5").exists()
    check(source, tmp_path, values)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_widened_exactly(dtype, tmp_path, values):
    source = backbone(V1_1, dtype=dtype, **ONE_LAYER)
    source.save_to_preset(tmp_path)
    _, report = check(source, tmp_path, values)
    assert report.dtype == dtype


def test_files_of_older_keras(tmp_path, values):
    source = plain_backbone(tie_embeddings=True)
    source.save_to_preset(tmp_path)
    with h5py.File(tmp_path / "model.weights.h5", "a") as file:
        file.move("layers", "_layer_checkpoint_dependencies")
        name = "_layer_checkpoint_dependencies/dropout/seed_generator/vars/0"
        file[name] = np.zeros(2, "int32")
    _, report = check(source, tmp_path, values)
    assert report.left_over == ("dropout/seed_generator",)


def test_a_file_cut_short_is_an_error(tmp_path):
    plain_backbone(tie_embeddings=True).save_to_preset(tmp_path)
    path = tmp_path / "model.weights.h5"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"weights\.h5 is not a whole HDF5 file"):
        checkpoints.read_config(tmp_path)


def test_heads_of_the_default_width(tmp_path, values):
    source = backbone(V1_0, key_value_dim=None, **ONE_LAYER)
    source.save_to_preset(tmp_path)
    model, _ = check(source, tmp_path, values)
    assert model.config.d_kv == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"use_gated_activation": True},
            "activation='relu', use_gated_activation=True",
        ),
        ({"activation": "gelu"}, "activation='gelu', use_gated_activation=False"),
        ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon=1e-05"),
    ],
)
def test_a_backbone_that_is_not_t5s_is_an_error(tmp_path, changes, message):
    backbone(V1_0, **changes, **ONE_LAYER).save_to_preset(tmp_path)
    with pytest.raises(ValueError, match=message):
        checkpoints.read_config(tmp_path)


def test_another_class_is_an_error(tmp_path):
    plain_backbone(tie_embeddings=True).save_to_preset(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text()) | {"class_name": "BertBackbone"}
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="'BertBackbone', expected 'T5Backbone'"):
        checkpoints.read_config(tmp_path)
