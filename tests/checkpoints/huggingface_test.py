"""Hugging Face folders, read and written."""

import json

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import hypertf
from hypertf import checkpoints
from hypertf.checkpoints import reader

TYPES = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


def edit_config(folder, **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for name, value in changes.items():
        if value is None:
            config.pop(name)
        else:
            config[name] = value
    path.write_text(json.dumps(config))


def edit_weights(folder, change):
    tensors = load_file(folder / "model.safetensors")
    save_file(change(tensors), folder / "model.safetensors")


@pytest.mark.parametrize("golden", ["hf_t5_v1_0", "hf_t5_v1_1"])
def test_golden_tensors_arrive_transposed(shared, golden, values):
    path = shared / "goldens" / golden / "weights.safetensors"
    model = hypertf.T5(checkpoints.read_config(path))
    report = checkpoints.load(model, path)
    tensors, weights = load_file(path), values(model)
    assert report.tensors == len(tensors) == len(weights)
    assert report.parameters == sum(t.size for t in tensors.values())
    for part in ("Hugging Face", str(path), f"{report.parameters:,}", "float32"):
        assert part in str(report)
    block, attention = "block.1.layer.0.SelfAttention", "SelfAttention"
    for ours, theirs in {
        "shared/embedding": tensors["shared.weight"],
        f"decoder/block_001/layer_000/{attention}/q": tensors[
            f"decoder.{block}.q.weight"
        ].T,
        f"encoder/block_000/layer_000/{attention}/relative_attention_bias": tensors[
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        ].T,
        "decoder/rms_norm/scale": tensors["decoder.final_layer_norm.weight"],
    }.items():
        np.testing.assert_array_equal(weights[ours], theirs, err_msg=ours)


@pytest.mark.parametrize("golden", ["hf_t5_v1_0", "hf_t5_v1_1"])
def test_a_golden_is_written_back_as_it_was(shared, golden, tmp_path):
    path = shared / "goldens" / golden / "weights.safetensors"
    model = hypertf.T5(checkpoints.read_config(path))
    checkpoints.load(model, path)
    checkpoints.save(model, tmp_path / "out")
    old, new = load_file(path), load_file(tmp_path / "out" / "model.safetensors")
    assert old.keys() == new.keys()
    for name in old:
        np.testing.assert_array_equal(old[name], new[name], err_msg=name)
    config = json.loads((path.parent / "config.json").read_text())
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    for name in config.keys() & written.keys():
        assert config[name] == written[name], name
    assert checkpoints.read_config(tmp_path / "out") == model.config


@pytest.mark.parametrize("shard", [10**9, 5000, 1])
def test_round_trip_whatever_the_shards(
    make_model, version, shard, tmp_path, assert_equal
):
    model = make_model(**version)
    checkpoints.save(model, tmp_path / "hf", max_shard_size=shard)
    files = list((tmp_path / "hf").glob("*.safetensors"))
    assert (len(files) == 1) == (shard == 10**9)
    other = make_model(seed=1, **version)
    report = checkpoints.load(other, tmp_path / "hf")
    assert_equal(model, other)
    assert report.format == "Hugging Face" and report.dtype == "float32"


def test_shards_are_as_the_library_reads_them(make_model, tmp_path):
    checkpoints.save(make_model(), tmp_path / "hf", max_shard_size=5000)
    index = json.loads((tmp_path / "hf" / "model.safetensors.index.json").read_text())
    tensors = {}
    for file in set(index["weight_map"].values()):
        part = load_file(tmp_path / "hf" / file)
        assert all(index["weight_map"][name] == file for name in part)
        assert len(part) == 1 or sum(t.nbytes for t in part.values()) <= 5000
        tensors |= part
    assert tensors.keys() == index["weight_map"].keys()
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in tensors.values())


def test_many_blocks_are_one_tensor(
    make_model, version, tmp_path, assert_equal, monkeypatch
):
    model = make_model(**version)
    checkpoints.save(model, tmp_path / "whole")
    monkeypatch.setattr(reader, "BLOCK_BYTES", 100)
    checkpoints.save(model, tmp_path / "blocks")
    whole, blocks = (tmp_path / n / "model.safetensors" for n in ("whole", "blocks"))
    assert whole.read_bytes() == blocks.read_bytes()
    other = make_model(seed=1, **version)
    checkpoints.load(other, tmp_path / "whole")
    assert_equal(model, other)


@pytest.mark.parametrize("dtype", TYPES)
def test_types_are_widened_exactly(make_model, version, dtype, tmp_path, values):
    model = make_model(**version)
    checkpoints.save(model, tmp_path / "hf")

    def narrow(tensors):
        return {name: t.astype(TYPES[dtype]) for name, t in tensors.items()}

    edit_weights(tmp_path / "hf", narrow)
    other = make_model(seed=1, **version)
    report = checkpoints.load(other, tmp_path / "hf")
    assert report.dtype == dtype
    wanted = values(model)
    for name, value in values(other).items():
        narrowed = wanted[name].astype(TYPES[dtype]).astype("float32")
        np.testing.assert_array_equal(value, narrowed, err_msg=name)


def test_bfloat16_is_written_rounded_and_then_exact(
    make_model, tmp_path, values, assert_equal
):
    model = make_model()
    checkpoints.save(model, tmp_path / "hf", dtype="bfloat16")
    tensors = load_file(tmp_path / "hf" / "model.safetensors")
    assert {t.dtype for t in tensors.values()} == {np.dtype(ml_dtypes.bfloat16)}
    np.testing.assert_array_equal(
        tensors["shared.weight"],
        values(model)["shared/embedding"].astype(ml_dtypes.bfloat16),
    )
    checkpoints.load(model, tmp_path / "hf")
    checkpoints.save(model, tmp_path / "again", dtype="bfloat16")
    other = make_model(seed=1)
    checkpoints.load(other, tmp_path / "again")
    assert_equal(model, other)


def test_a_bfloat16_model_is_filled(make_model, tmp_path, values):
    model = make_model()
    checkpoints.save(model, tmp_path / "hf")
    half = hypertf.T5(model.config, dtype="bfloat16")
    checkpoints.load(half, tmp_path / "hf")
    wanted = values(model)
    for name, value in values(half).items():
        assert value.dtype == ml_dtypes.bfloat16
        rounded = wanted[name].astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(value, rounded, err_msg=name)


DUPLICATES = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "lm_head.weight",
)


def test_equal_duplicates_of_the_embedding_are_tolerated(
    make_model, tmp_path, assert_equal
):
    model = make_model()
    checkpoints.save(model, tmp_path / "hf")
    edit_weights(
        tmp_path / "hf",
        lambda t: t | {name: t["shared.weight"].copy() for name in DUPLICATES},
    )
    other = make_model(seed=1)
    checkpoints.load(other, tmp_path / "hf")
    assert_equal(model, other)


@pytest.mark.parametrize("name", DUPLICATES)
def test_the_embedding_may_go_by_another_name(make_model, tmp_path, name, assert_equal):
    model = make_model()
    checkpoints.save(model, tmp_path / "hf")
    edit_weights(tmp_path / "hf", lambda t: t | {name: t.pop("shared.weight")})
    other = make_model(seed=1)
    checkpoints.load(other, tmp_path / "hf")
    assert_equal(model, other)


@pytest.mark.parametrize("name", DUPLICATES)
def test_an_unequal_duplicate_is_an_error(make_model, tmp_path, name, values):
    model = make_model()
    checkpoints.save(model, tmp_path / "hf")
    edit_weights(tmp_path / "hf", lambda t: t | {name: t["shared.weight"] + 1})
    other = make_model(seed=1)
    before = values(other)
    with pytest.raises(ValueError, match=f"(?s)different values.*{name} and shared"):
        checkpoints.load(other, tmp_path / "hf")
    for key, value in values(other).items():
        np.testing.assert_array_equal(value, before[key])


def test_the_published_files_unused_bias_is_reported(make_model, tmp_path):
    name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    model = make_model()
    checkpoints.save(model, tmp_path / "hf")
    edit_weights(tmp_path / "hf", lambda t: t | {name: np.zeros((32, 2), "float32")})
    report = checkpoints.load(model, tmp_path / "hf")
    assert report.left_over == (name,)
    assert name in str(report)


def test_transformers_5_says_untied_in_its_own_way(make_model, tmp_path, assert_equal):
    untied = {"activation": "gated-gelu", "tie_embeddings": False}
    model = make_model(**untied)
    checkpoints.save(model, tmp_path / "hf")
    edit_config(tmp_path / "hf", tie_word_embeddings=True, scale_decoder_outputs=False)
    assert checkpoints.read_config(tmp_path / "hf") == model.config
    other = make_model(seed=1, **untied)
    checkpoints.load(other, tmp_path / "hf")
    assert_equal(model, other)
    # Before training, the head is the embedding, not scaled, and is not stored.
    edit_weights(
        tmp_path / "hf", lambda t: {k: v for k, v in t.items() if k != "lm_head.weight"}
    )
    checkpoints.load(other, tmp_path / "hf")
    np.testing.assert_array_equal(
        other.decoder.logits.kernel, np.transpose(other.shared.embedding)
    )


def test_what_config_json_leaves_out_has_defaults(make_model, tmp_path):
    model = make_model(num_decoder_layers=2)
    checkpoints.save(model, tmp_path / "hf")
    names = ["num_decoder_layers", "relative_attention_max_distance"]
    names += ["tie_word_embeddings", "dense_act_fn", "is_gated_act", "dropout_rate"]
    edit_config(tmp_path / "hf", **dict.fromkeys(names))
    assert checkpoints.read_config(tmp_path / "hf") == model.config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon=1e-05"),
        ({"feed_forward_proj": "gated-silu"}, "feed_forward_proj='gated-silu'"),
        ({"dense_act_fn": "gelu", "is_gated_act": True}, "dense_act_fn='gelu'"),
        ({"model_type": "bart"}, "model_type='bart'"),
        ({"d_kv": None, "d_ff": None}, "does not give d_ff, d_kv"),
    ],
)
def test_a_config_that_is_not_t5s_is_an_error(make_model, tmp_path, changes, message):
    model = make_model()
    checkpoints.save(model, tmp_path / "hf")
    edit_config(tmp_path / "hf", **changes)
    if "feed_forward_proj" in changes:
        edit_config(tmp_path / "hf", dense_act_fn=None, is_gated_act=None)
    for call in (checkpoints.read_config, lambda path: checkpoints.load(model, path)):
        with pytest.raises(ValueError, match=message):
            call(tmp_path / "hf")


def test_another_largest_distance_is_an_error_although_all_shapes_fit(
    make_model, tmp_path
):
    checkpoints.save(make_model(max_distance=64), tmp_path / "hf")
    with pytest.raises(ValueError, match="max_distance: 64 in the checkpoint, 128 in"):
        checkpoints.load(make_model(), tmp_path / "hf")


def test_dropout_is_the_models_own(make_model, tmp_path):
    checkpoints.save(make_model(dropout_rate=0.3), tmp_path / "hf")
    checkpoints.load(make_model(dropout_rate=0.0), tmp_path / "hf")
    assert checkpoints.read_config(tmp_path / "hf").dropout_rate == 0.3
