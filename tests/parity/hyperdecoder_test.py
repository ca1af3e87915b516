"""Hyperdecoder and its variants equal the authors' code."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file

from hypertf.conditioning import hyperdecoder, parallel_adapters
from hypertf.t5 import named_weights
from hypertf.training import token_losses
from tests.helpers import relative_error
from tests.parity.goldens import golden_folders
from tests.parity.hyperdecoder_golden import Golden

TOLERANCE = 5e-5  # of the size of what is expected: a golden's values may be large

FOLDERS = golden_folders("hyperdecoder*/**/config.json")


@pytest.fixture(scope="module", params=FOLDERS)
def golden(request, tmp_path_factory):
    return Golden(request.param, tmp_path_factory.mktemp("golden"))


def close(got, expected):
    return relative_error(got, expected) < TOLERANCE


def test_every_tensor_has_its_weight(golden):
    used = set()
    for name in named_weights(golden.model):
        used.update(golden.stored_names(golden.tensors, name))
    assert set(golden.tensors) == used | set(golden.c["unused_parameters"])


def test_what_trains(golden):
    """By default what theirs trains, but for what theirs has and never uses."""
    weights = named_weights(golden.make())
    trained = {name for name, weight in weights.items() if weight.trainable}
    theirs = set(golden.c["trainable_parameters"])
    unused = set(golden.c["unused_parameters"]) & theirs
    ours = golden.ours()
    assert trained == {ours[name] for name in theirs - unused}
    count = sum(np.prod(weights[name].shape) for name in trained)
    left_out = sum(golden.tensors[name].size for name in unused)
    assert count == golden.c["trainable_count"] - left_out


def test_outputs_and_losses(golden):
    model, io, labels = golden.model, golden.io, golden.io["labels"]
    smoothed = [name for name in io if name.startswith("loss_label_smoothed_")]
    assert smoothed

    @tf.function(jit_compile=True, autograph=False)
    def run(inputs):
        return model.encode(inputs)[0], model(inputs)

    real = io["attention_mask"][..., None]
    for inputs, pick in golden.runs():
        encoder_output, logits = run(inputs)
        assert close(encoder_output, pick(io["encoder_output"]) * real)
        assert close(logits, pick(io["logits"]))
        loss = tf.reduce_sum(token_losses(logits, labels))
        assert relative_error(loss, pick(io["loss_sum"])) < 1e-5
        for name in smoothed:
            amount = float(".".join(re.findall(r"\d+", name)))
            losses = token_losses(logits, labels, label_smoothing=amount)
            assert relative_error(tf.reduce_sum(losses), pick(io[name])) < 1e-5


def test_mixed_tasks(golden):
    if not golden.of_tasks:
        pytest.skip("this variant does not look at the task")
    assert close(golden.model(golden.inputs()), golden.io["logits_mixed"])


def gradients_of(golden):
    """Of the summed loss, one array for each of the model's named weights."""
    weights = named_weights(golden.model).values()
    with tf.GradientTape() as tape:
        logits = golden.model(golden.inputs())
        loss = tf.reduce_sum(token_losses(logits, golden.io["labels"]))
    gradients = tape.gradient(loss, [weight.value for weight in weights])
    return [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


def test_gradients(golden):
    weights = named_weights(golden.model)
    for name, gradient in zip(weights, gradients_of(golden), strict=True):
        expected = golden.find(golden.gradients, name, weights[name].shape)
        assert relative_error(gradient, expected) < 1e-4, name


def test_greedy(golden):
    for inputs, pick in golden.runs():
        inputs = {k: v for k, v in inputs.items() if k != "decoder_tokens"}
        expected = pick(golden.io["greedy_ids"])[:, 1:]
        ids = golden.model.generate(inputs, expected.shape[1])
        assert np.array_equal(ids, expected)


def test_generated_adapters(golden):
    model, io = golden.model, golden.io
    if not set(golden.kinds.values()) & {"task", "generated"}:
        pytest.skip("this variant generates nothing")
    seen = set()
    for k, (inputs, _pick) in enumerate(golden.runs()):
        sites = {"encoder": model.encoder_sites(inputs)}
        sites["decoder"] = model.decoder_sites(inputs, *model.encode(inputs))
        task = f"{golden.c['tasks'][k]}/" if golden.of_tasks else ""
        pattern = rf"gen/{task}(\w+)/(\d+)/(down|up)_(weight|bias)"
        for name, expected in io.items():
            if match := re.fullmatch(pattern, name):
                stack, block, part, what = match.groups()
                field = part if what == "weight" else f"{part}_bias"
                got = getattr(sites[stack].blocks[int(block)], field)
                got = got[:, 0] if what == "bias" else got
                assert close(got, np.broadcast_to(expected, got.shape)), name
                seen.add(name)
    assert seen == {name for name in io if name.startswith("gen/")}


def test_pooled(golden):
    if golden.kinds["decoder"] != "generated":
        with pytest.raises(ValueError, match="pools no input"):
            golden.model.conditioner.pooled(golden.model, golden.inputs())
        return
    mean, embedding = golden.model.conditioner.pooled(golden.model, golden.inputs())
    assert close(mean, golden.io["decoder_pooled_mean"])
    assert close(embedding, golden.io["decoder_hypernet_input"])


def test_the_first_pass_has_trained_adapters(golden, monkeypatch):
    if golden.kinds["encoder"] != "generated":
        pytest.skip("the encoder runs once")
    seen = []
    network = hyperdecoder.InputHypernetwork
    plain = network.call

    def record(self, mean):
        seen.append((mean, self.embedding(mean)))
        return plain(self, mean)

    monkeypatch.setattr(network, "call", record)
    golden.model.encode(golden.inputs())
    ((mean, embedding),) = seen
    assert close(mean, golden.io["encoder_pooled_mean"])
    assert close(embedding, golden.io["encoder_hypernet_input"])


def test_what_adapters_read_and_write(golden, monkeypatch):
    seen = []
    plain = parallel_adapters._BesideFFN.beside_ffn

    def record(self, x, normed, training):
        y = plain(self, x, normed, training)
        seen.append((normed if self.norm_input else x, y))
        return y

    monkeypatch.setattr(parallel_adapters._BesideFFN, "beside_ffn", record)
    golden.model(golden.inputs())
    decoders = golden.config.num_decoder_layers
    first = len(seen) - decoders - golden.config.num_encoder_layers
    real = golden.io["attention_mask"].astype(bool)
    probes = {
        "encoder_block0": (seen[first], real),
        "decoder_last_block": (seen[-1], ...),
    }
    for name, (values, where) in probes.items():
        for way, got in zip(("in", "out"), values, strict=True):
            expected = golden.io[f"probe/{name}/{way}"]
            assert close(np.asarray(got)[where], expected[where]), f"{name}/{way}"


def test_a_golden_of_large_values(tmp_path):
    """A larger final norm makes the logits larger, and what is rounded in them."""
    golden = Golden(FOLDERS[0].values[0], tmp_path)
    norm = named_weights(golden.model)["decoder/rms_norm/scale"]
    norm.assign(norm * 1024)
    for inputs, pick in golden.runs():
        expected = 1024 * pick(golden.io["logits"])
        assert np.abs(expected).max() > 70
        assert close(golden.model(inputs), expected)


def has_head(folder):
    c = json.loads((folder / "config.json").read_text())
    return not c["t5"]["tie_word_embeddings"]


def tied(folder, to, stored):
    """A golden's tied twin, which stores the embedding under these names too.

    A tied head is the embedding scaled by d_model ** -0.5: our untied model with that
    head says what the twin's logits and gradients are.
    """
    to.mkdir()
    golden = Golden(folder, to)
    golden.c["t5"]["tie_word_embeddings"] = True
    tensors, scale = golden.tensors, golden.config.d_model**-0.5
    named_weights(golden.model)["decoder/logits/kernel"].assign(
        tensors["shared.weight"].T * scale
    )
    gradients = {}
    for name, x in zip(named_weights(golden.model), gradients_of(golden), strict=True):
        (theirs, *_), transpose = golden.their_names(name)
        x = x.T if transpose else x
        gradients[theirs] = np.reshape(x, golden.gradients[theirs].shape)
    gradients["shared.weight"] += scale * gradients.pop("lm_head.weight")
    del tensors["lm_head.weight"]
    for name in stored:
        for values in (tensors, gradients):
            values[name] = values["shared.weight"].copy()
    (to / "config.json").write_text(json.dumps(golden.c))
    for name, values in (("weights", tensors), ("grads", gradients)):
        values = {key: np.ascontiguousarray(x) for key, x in values.items()}
        save_file(values, to / f"{name}.safetensors")
    io = {**golden.io, "logits": np.array(golden.model(golden.inputs()))}
    np.savez(to / "io.npz", **io)
    return Golden(to, to.parent)


@pytest.mark.parametrize(
    "stored", [(), ("lm_head.weight", "decoder.embed_tokens.weight")], ids=bool
)
def test_a_golden_with_tied_embeddings(tmp_path, stored):
    untied = [folder for folder in (p.values[0] for p in FOLDERS) if has_head(folder)]
    if not untied:
        pytest.skip("every golden is tied, and tested above")
    golden = tied(untied[0], tmp_path / "tied", stored)
    assert golden.config.tie_embeddings
    for alias in ("shared.weight", "lm_head.weight", "decoder.embed_tokens.weight"):
        assert golden.ours()[alias] == "shared/embedding"
    test_every_tensor_has_its_weight(golden)
    test_what_trains(golden)
    test_gradients(golden)
    assert close(golden.model(golden.inputs()), golden.io["logits"])
    if stored:  # a head of its own is no tied one
        golden.tensors["lm_head.weight"] = golden.tensors["lm_head.weight"] + 1
        with pytest.raises(AssertionError, match=r"lm_head\.weight differs"):
            test_every_tensor_has_its_weight(golden)
