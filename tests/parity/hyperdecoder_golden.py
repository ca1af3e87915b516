"""A golden of the public Hyperdecoders code, and the model that it describes."""

import json

import numpy as np
from safetensors.numpy import load_file

import hypertf
from hypertf.checkpoints import huggingface
from hypertf.checkpoints.rules import Rule, translate
from hypertf.conditioning import create, hyperdecoder
from hypertf.t5 import named_weights

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

    def stored_names(self, tensors, name):
        """Those of a weight's names that the golden has, all with the same values.

        A tied head, or the embedding of a stack, may be stored again or left out.
        """
        names = [n for n in self.their_names(name).names if n in tensors]
        assert names, f"{name}: the golden has none of {self.their_names(name).names}"
        for other in names[1:]:
            same = np.array_equal(tensors[other], tensors[names[0]])
            assert same, f"{name}: {other} differs from {names[0]}"
        return names

    def find(self, tensors, name, shape):
        value = tensors[self.stored_names(tensors, name)[0]]
        transpose = self.their_names(name).transpose
        return np.reshape(value.T if transpose else value, shape)

    def ours(self):
        """`{their name: our name}`, aliases included."""
        return {
            theirs: ours
            for ours in named_weights(self.model)
            for theirs in self.their_names(ours).names
        }

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
