"""Hyperdecoder and its variants equal the authors' code."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

import hypertf
from hypertf.checkpoints import huggingface
from hypertf.checkpoints.rules import Rule, translate
from hypertf.conditioning import create, hyperdecoder, parallel_adapters
from hypertf.t5 import named_weights
from hypertf.training import token_losses
from tests.conftest import shared_path
from tests.helpers import relative_error

TOLERANCE = 5e-5  # absolute, as the goldens' README has it
STACKS = ("encoder", "decoder")

ADAPTER = r"conditioner/(?P<stack>\w+)/(first_pass/)?block_(?P<block>\d+)/"
MANUAL = "{stack}.block.{block}.layer.%d.adapter_layer.adapter_{part}_manual"
GENERATOR = "{stack}.param_gen."
PARTS = {
    "down": "weight_down",
    "down_bias": "bias_down",
    "up": "weight_up",
    "up_bias": "bias_up",
}


def conditioner_rules(stack, last, specific):
    """Their names of our weights; `last` is the number of the FFN in a block."""
    adapter = ADAPTER.replace(r"\w+", stack) + r"(?P<part>down|up)"
    manual, join = MANUAL % last, "_" if specific else "."
    mine = f"conditioner/(?P<stack>{stack})/"
    network = f"{mine}hypernetwork/"
    yield Rule(adapter, (f"{manual}{join}weight",), not specific)
    yield Rule(f"{adapter}_bias", (f"{manual}{join}bias",))
    yield Rule(f"{mine}task_embedding", ("{stack}.adapter_task_embedding.weight",))
    yield Rule(f"{network}layer_embedding", (GENERATOR + "layer_embed.weight",))
    layers = {f"{network}hidden": GENERATOR + "decoder.linear1"}
    for ours, theirs in PARTS.items():
        layers[f"{network}{ours}"] = f"{GENERATOR}decoder.{theirs}"
    for ours, theirs in ((0, 0), (1, 2)):
        layers[f"{mine}mlp_{ours}"] = f"{{stack}}.mlp.{theirs}"
    for ours, theirs in layers.items():
        yield Rule(f"{ours}/kernel", (f"{theirs}.weight",), transpose=True)
        yield Rule(f"{ours}/bias", (f"{theirs}.bias",))


class Golden:
    """The golden of a folder, with the model it describes."""

    def __init__(self, folder, scratch):
        self.c = json.loads((folder / "config.json").read_text())
        config = scratch / "config.json"
        config.write_text(json.dumps(self.c["t5"]))
        self.config = huggingface.read_config(config)
        self.tensors = load_file(folder / "weights.safetensors")
        self.gradients = load_file(folder / "grads.safetensors")
        self.io = dict(np.load(folder / "io.npz"))
        self.kinds = {
            s: self.c["adapter"][f"{s}_adapter"].replace("_", "-") for s in STACKS
        }
        self.of_tasks = "mixed_task_ids" in self.io
        self.model = self.make(trains="all")
        for name, weight in named_weights(self.model).items():
            weight.assign(self.find(self.tensors, name, weight.shape))

    def make(self, **options):
        a = self.c["adapter"]
        theirs = {
            "encoder_size": a["encoder_adapter_dim"],
            "decoder_size": a["decoder_adapter_dim"],
            "bottleneck": a["hypernetwork_bottleneck"],
            "mlp": a["process_encoder_output"],
            "norm_input": a["adapter_norm_input"],
            "layer_embedding": self.c["layer_embedding_dim"],
        }
        unused = hyperdecoder.without_effect(**self.kinds)
        theirs = {name: value for name, value in theirs.items() if name not in unused}
        tasks = len(self.c["tasks"])
        options = {**self.kinds, **theirs, **options}
        conditioner = create("hyperdecoder", self.config, tasks, **options)
        return hypertf.T5(self.config, conditioner=conditioner)

    def their_names(self, name):
        rules = [
            rule
            for stack, last in (("encoder", 1), ("decoder", 2))
            for rule in conditioner_rules(
                stack, last, self.kinds[stack] == "manual-specific"
            )
        ]
        return translate(name, (*rules, *huggingface.rules(self.config)))

    def find(self, tensors, name, shape):
        names, transpose = self.their_names(name)
        (value,) = (tensors[n] for n in names if n in tensors)
        return np.reshape(value.T if transpose else value, shape)

    def inputs(self, task=None):
        """The batch; of one task, or mixed where the golden has a mixed batch."""
        tasks = np.full(len(self.io["input_ids"]), task or 0, "int32")
        if task is None and self.of_tasks:
            tasks = self.io["mixed_task_ids"]
        return {
            "encoder_tokens": self.io["input_ids"],
            "decoder_tokens": self.io["decoder_input_ids"],
            "task_ids": tasks,
        }

    def runs(self):
        """Each run of the golden: its inputs, and what picks its part of an array."""
        if not self.of_tasks:
            return [(self.inputs(), lambda x: x)]
        return [
            (self.inputs(k), lambda x, k=k: x[k]) for k in range(len(self.c["tasks"]))
        ]


def folders():
    goldens = shared_path("goldens")
    found = sorted(goldens.glob("hyperdecoder*/**/config.json"))
    return [
        pytest.param(f.parent, id=str(f.parent.relative_to(goldens))) for f in found
    ]


@pytest.fixture(scope="module", params=folders())
def golden(request, tmp_path_factory):
    return Golden(request.param, tmp_path_factory.mktemp("golden"))


def close(got, expected, tolerance=TOLERANCE):
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


def test_every_tensor_has_its_weight(golden):
    used = set()
    for name in named_weights(golden.model):
        used.update(golden.their_names(name).names)
    unused = golden.c["unused_parameters"]
    # Stored again under the names of the stacks.
    aliases = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}
    assert set(golden.tensors) - aliases == (used - aliases) | set(unused)


def test_what_trains(golden):
    """By default what theirs trains, but for what theirs has and never uses."""
    weights = named_weights(golden.make())
    trained = {
        name
        for ours, weight in weights.items()
        if weight.trainable
        for name in golden.their_names(ours).names
    }
    unused = set(golden.c["unused_parameters"])
    assert trained == set(golden.c["trainable_parameters"]) - unused
    count = sum(np.prod(w.shape) for w in weights.values() if w.trainable)
    left_out = sum(golden.tensors[name].size for name in unused)
    assert count == golden.c["trainable_count"] - left_out


def test_outputs_and_losses(golden):
    model, io, labels = golden.model, golden.io, golden.io["labels"]
    smoothed = [name for name in io if name.startswith("loss_label_smoothed_")]
    assert smoothed

    @tf.function(jit_compile=True)
    def run(inputs):
        return model.encode(inputs)[0], model(inputs)

    real = io["attention_mask"][..., None]
    for inputs, pick in golden.runs():
        encoder_output, logits = run(inputs)
        close(encoder_output, pick(io["encoder_output"]) * real)
        close(logits, pick(io["logits"]))
        loss = tf.reduce_sum(token_losses(logits, labels))
        assert relative_error(loss, pick(io["loss_sum"])) < 1e-5
        for name in smoothed:
            amount = float(".".join(re.findall(r"\d+", name)))
            losses = token_losses(logits, labels, label_smoothing=amount)
            assert relative_error(tf.reduce_sum(losses), pick(io[name])) < 1e-5


def test_mixed_tasks(golden):
    if not golden.of_tasks:
        pytest.skip("this variant does not look at the task")
    close(golden.model(golden.inputs()), golden.io["logits_mixed"])


def test_gradients(golden):
    weights = named_weights(golden.model)
    with tf.GradientTape() as tape:
        logits = golden.model(golden.inputs())
        loss = tf.reduce_sum(token_losses(logits, golden.io["labels"]))
    gradients = tape.gradient(loss, [w.value for w in weights.values()])
    for name, gradient in zip(weights, gradients, strict=True):
        expected = golden.find(golden.gradients, name, weights[name].shape)
        assert relative_error(tf.convert_to_tensor(gradient), expected) < 1e-4, name


def test_greedy(golden):
    for inputs, pick in golden.runs():
        inputs = {k: v for k, v in inputs.items() if k != "decoder_tokens"}
        expected = pick(golden.io["greedy_ids"])[:, 1:]
        ids = golden.model.generate(inputs, expected.shape[1])
        np.testing.assert_array_equal(ids, expected)


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
            if found := re.fullmatch(pattern, name):
                stack, block, part, what = found.groups()
                field = part if what == "weight" else f"{part}_bias"
                got = getattr(sites[stack].blocks[int(block)], field)
                got = got[:, 0] if what == "bias" else got
                close(got, np.broadcast_to(expected, got.shape))
                seen.add(name)
    assert seen == {name for name in io if name.startswith("gen/")}


def test_pooled(golden):
    if golden.kinds["decoder"] != "generated":
        with pytest.raises(ValueError, match="pools no input"):
            golden.model.conditioner.pooled(golden.model, golden.inputs())
        return
    mean, embedding = golden.model.conditioner.pooled(golden.model, golden.inputs())
    close(mean, golden.io["decoder_pooled_mean"])
    close(embedding, golden.io["decoder_hypernet_input"])


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
    close(mean, golden.io["encoder_pooled_mean"])
    close(embedding, golden.io["encoder_hypernet_input"])


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
            close(np.asarray(got)[where], expected[where])
