"""HyperFormer and adapters equal the public code, from task vector to written text."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

import hypertf
from hypertf.checkpoints import huggingface
from hypertf.checkpoints.rules import translate
from hypertf.conditioning import adapters
from hypertf.conditioning.hyperformer import HyperFormer
from hypertf.t5 import named_weights
from hypertf.training import token_losses
from tests.helpers import relative_error
from tests.parity.goldens import golden_folders

# Both of the size of what is expected.
TOLERANCE = 5e-5
GRADIENT_TOLERANCE = 1e-4

# From our names to the public code's, one substitution after the other.
PLACE = r"\1/block/\2/layer/{}/adapter_controller/"
NAMES = (
    ("^task_features", "task_embedding_controller/task_to_embeddings/<task>"),
    ("^task_projector", "task_embedding_controller/task_hyper_net"),
    ("task_projector/norm", "LayerNorm"),
    ("task_projector", "task_hypernet"),
    ("/hidden/", "/task_embeding_generator/0/"),
    ("/output/", "/task_embeding_generator/2/"),
    ("layer_embeddings", "layer_id_embeddings/weight"),
    ("position_embeddings", "adapters_block_type/weight"),
    # Where it is: at one adapter, at one of two positions, or in the whole stack.
    (r"(\w+)/block_0*(\d+)[/_]self_attention/", PLACE.format(0)),
    (r"(encoder)/block_0*(\d+)[/_]feed_forward/", PLACE.format(1)),
    (r"(decoder)/block_0*(\d+)[/_]feed_forward/", PLACE.format(2)),
    ("^(encoder|decoder)/(?!block/)", r"\1/adapter_layers_hyper_net/"),
    ("/adapters/", "/"),
    ("hyper_net/(self_attention|feed_forward)/", r"hyper_net/\1_"),
    # What it writes, or is.
    ("(down|up)_bias/(kernel|bias)", r"\1_sampler_hyper_net/bias_generator/0/\2"),
    ("(down|up)/(kernel|bias)", r"\1_sampler_hyper_net/weight_generator/0/\2"),
    (r"controller/(\w+_sampler)_hyper_net", r"controller/meta_\1"),
    ("/(down|up)$", r"/adapters/<task>/\1_sampler/weight"),
    ("/(down|up)_bias$", r"/adapters/<task>/\1_sampler/bias"),
    ("before_", "pre_"),
    ("after_", "post_"),
    ("(pre|post)_scale/", r"\1_layernorm_hypernet/weight_generator/"),
    ("(pre|post)_bias/", r"\1_layernorm_hypernet/bias_generator/"),
    ("(pre|post)_(scale|bias)$", r"\1_layer_norm/\2"),
    ("(kernel|scale)$", "weight"),
    ("/", "."),
)


def folders():
    """The folders of goldens that the public HyperFormer code has written."""

    def is_theirs(folder):
        adapter = json.loads((folder / "config.json").read_text()).get("adapter", {})
        return adapter.get("adapter_config_name") in ("adapter", "meta-adapter")

    theirs = [p for p in golden_folders("**/config.json") if is_theirs(p.values[0])]
    assert theirs, "no golden of the public HyperFormer code"
    return theirs


def their_names(name, tasks):
    """The public code's names of a conditioner's weight, one per task or one."""
    name = name.removeprefix("conditioner/")
    for pattern, replacement in NAMES:
        name = re.sub(pattern, replacement, name)
    if "<task>" not in name:
        return [name]
    return [name.replace("<task>", task) for task in tasks]


class Golden:
    """One folder: a model with its weights, and what was computed with them."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.tasks = self.config["tasks"]
        self.io = dict(np.load(folder / "io.npz"))
        self.gradients = load_file(folder / "grads.safetensors")
        name, options = method_of(self.config["adapter"])
        config = t5_config(self.config["t5"])
        conditioner = hypertf.conditioning.create(
            name, config, len(self.tasks), **options
        )
        assert conditioner.bottleneck == self.config["adapter"]["bottleneck"]
        self.model = hypertf.T5(config, conditioner=conditioner)
        tensors = load_file(folder / "weights.safetensors")
        used = set(self.config["ignored_parameters"])
        for ours, weight in named_weights(self.model).items():
            used.update(self.aliases(ours, tensors))
            weight.assign(self.value(ours, tensors))
        assert used == set(tensors)

    def sources(self, name):
        """A weight's names in the public code, and whether its axes are swapped."""
        if name.startswith("conditioner/"):
            names = their_names(name, self.tasks)
            return names, name.endswith(("/kernel", "/down", "/up"))
        names, transpose = translate(name, huggingface.rules(self.model.config))
        return names[:1], transpose

    def aliases(self, name, tensors):
        """All names under which the public code has stored a weight."""
        names, _ = self.sources(name)
        if name.startswith("conditioner/"):
            return names
        names = translate(name, huggingface.rules(self.model.config)).names
        names = [n for n in names if n in tensors]
        for other in names[1:]:
            same = np.array_equal(tensors[other], tensors[names[0]])
            assert same, f"{name}: {other} differs from {names[0]}"
        return names

    def value(self, name, tensors):
        """A weight, or its gradient, from the public code's tensors."""
        names, transpose = self.sources(name)
        like = next(tensors[n] for n in names if n in tensors)
        # What only other tasks use has no gradient.
        parts = [tensors.get(n, np.zeros_like(like)) for n in names]
        of_map = re.search("/(down|up)/(kernel|bias)$", name)
        if of_map:
            # The code writes D and U as [out, in]; here they are [in, out].
            rows = {"down": self.model.conditioner.bottleneck, "up": self.d_model}
            parts = [_swap_written(part, rows[of_map[1]]) for part in parts]
        if transpose:
            parts = [part.T for part in parts]
        return parts[0] if "task_num" not in self._dims(name) else np.stack(parts)

    @property
    def d_model(self):
        return self.model.config.d_model

    def _dims(self, name):
        return named_weights(self.model)[name].dims

    def batch(self, tasks):
        """The batch once for each of `tasks`, all in one."""
        rows = len(self.io["input_ids"])
        names = {"encoder_tokens": "input_ids", "decoder_tokens": "decoder_input_ids"}
        batch = {
            ours: np.concatenate([self.io[theirs]] * len(tasks))
            for ours, theirs in names.items()
        }
        ids = [self.tasks.index(task) for task in tasks]
        return {**batch, "task_ids": np.repeat(ids, rows).astype("int32")}


def _swap_written(x, rows):
    """[rows * columns, ...], written row by row, as if written column by column."""
    return np.swapaxes(x.reshape(rows, -1, *x.shape[1:]), 0, 1).reshape(x.shape)


def method_of(adapter):
    """The method and its options, from the public code's flags."""
    options = {
        "reduction": adapter["reduction_factor"],
        "norm_before": adapter["add_layer_norm_before_adapter"],
        "norm_after": adapter["add_layer_norm_after_adapter"],
    }
    if adapter["adapter_config_name"] == "adapter":
        return "adapters-shared-norm", options
    options |= {
        "task_features": adapter["task_embedding_dim"],
        "task_hidden": adapter["task_hidden_dim"],
        "task_embedding": adapter["projected_task_embedding_dim"],
    }
    if adapter["efficient_unique_hyper_net"] or adapter["unique_hyper_net"]:
        options["embedding_norm"] = adapter["unique_hyper_net_layer_norm"]
        if adapter["efficient_unique_hyper_net"]:
            return "hyperformer++", options
        return "hyperformer", options | {"sharing": "stack-positions"}
    options["conditional_norm"] = adapter["conditional_layer_norm"]
    if not adapter["train_adapters_blocks"]:
        return "hyperformer", {"adapter_blocks": False}
    if not adapter["train_task_embeddings"]:
        options |= {
            "task_projector": False,
            "task_hidden": None,
            "task_embedding": None,
        }
    return "hyperformer", options


def t5_config(t5):
    return hypertf.T5Config(
        vocab_size=t5["vocab_size"],
        d_model=t5["d_model"],
        d_ff=t5["d_ff"],
        num_heads=t5["num_heads"],
        d_kv=t5["d_kv"],
        num_encoder_layers=t5["num_layers"],
        num_decoder_layers=t5["num_decoder_layers"],
        activation=t5["feed_forward_proj"],
        tie_embeddings=t5["tie_word_embeddings"],
        dropout_rate=t5["dropout_rate"],
        num_buckets=t5["relative_attention_num_buckets"],
        max_distance=t5["relative_attention_max_distance"],
    )


@pytest.fixture(scope="module", params=folders())
def golden(request):
    return Golden(request.param)


def close(got, expected):
    return relative_error(got, expected) < TOLERANCE


def test_outputs_of_all_tasks_in_one_batch(golden):
    model, io = golden.model, golden.io
    batch = golden.batch(golden.tasks)
    encoder_output, _ = model.encode(batch)
    real = io["attention_mask"][None, ..., None]
    expected = io["encoder_output"] * real
    assert close(np.reshape(encoder_output, expected.shape), expected)
    logits = np.reshape(model(batch), io["logits"].shape)
    real = io["labels"] > 0
    assert close(logits[:, real], io["logits"][:, real])
    for got, loss in zip(logits, io["loss_sum"], strict=True):
        losses = np.sum(token_losses(got, io["labels"]))
        assert relative_error(losses, loss) < TOLERANCE


def test_outputs_of_fewer_examples_than_tasks(golden):
    """Adapters are then made for the examples, not for the tasks."""
    task = len(golden.tasks) - 1
    batch = {k: v[:1] for k, v in golden.batch([golden.tasks[task]]).items()}
    real = golden.io["labels"][0] > 0
    logits = tf.function(golden.model, autograph=False)(batch)
    assert close(logits[0][real], golden.io["logits"][task, 0][real])


def test_gradients(golden):
    model = golden.model
    batch = golden.batch([golden.config["grad_task"]])
    weights = named_weights(model)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([weight.value for weight in weights.values()])
        loss = tf.reduce_sum(token_losses(model(batch), golden.io["labels"]))
    got = tape.gradient(loss, [weight.value for weight in weights.values()])
    for name, gradient in zip(weights, got, strict=True):
        expected = golden.value(name, golden.gradients)
        error = relative_error(tf.convert_to_tensor(gradient), expected)
        assert error < GRADIENT_TOLERANCE, name


def test_the_same_weights_train(golden):
    weights = named_weights(golden.model)
    trained = [name for name, weight in weights.items() if weight.trainable]
    names = {theirs for name in trained for theirs in golden.sources(name)[0]}
    assert names == set(golden.config["trainable_parameters"])
    count = sum(np.prod(weights[name].shape) for name in trained)
    assert count == golden.config["trainable_count"]


def test_greedy(golden):
    expected = golden.io["greedy_ids"][:, :, 1:]
    batch = golden.batch(golden.tasks)
    del batch["decoder_tokens"]
    ids = golden.model.generate(batch, expected.shape[-1])
    np.testing.assert_array_equal(np.reshape(ids, expected.shape), expected)


def sites_of(golden, tasks):
    """`{stack: StackSites}`, an example for each of `tasks`."""
    ids = np.array([golden.tasks.index(task) for task in tasks])
    conditioner = golden.model.conditioner
    return {
        "encoder": conditioner.encoder(ids),
        "decoder": conditioner.decoder(ids, None, None),
    }


def test_probes(golden):
    """Single adapters, from what enters them to what leaves them."""
    probes = {key.split("/")[1] for key in golden.io if key.startswith("probe/")}
    assert probes
    rows = len(golden.io["input_ids"])
    stacks = sites_of(golden, [golden.config["grad_task"]] * rows)
    for probe in probes:
        stack, block, position = re.fullmatch(
            "(encoder|decoder)_(last_block|block[0-9]+)_(.*)", probe
        ).groups()
        sites = stacks[stack].blocks[
            -1 if block == "last_block" else int(block[len("block") :])
        ]
        site = {
            "self_attention": sites.after_attention,
            "feed_forward": sites.after_ffn,
        }[position]
        x, y = (golden.io[f"probe/{probe}/{end}"] for end in ("in", "out"))
        assert close(site(tf.constant(x), False), y), probe


FIELDS = {
    "down_weight": "down",
    "down_bias": "down_bias",
    "up_weight": "up",
    "up_bias": "up_bias",
    "pre_norm_weight": "before_scale",
    "pre_norm_bias": "before_bias",
    "post_norm_weight": "after_scale",
    "post_norm_bias": "after_bias",
}


def test_what_the_hypernetworks_write(golden):
    keys = [key for key in golden.io if key.startswith("gen/")]
    if not isinstance(golden.model.conditioner, HyperFormer):
        pytest.skip("no hypernetwork")
    assert keys
    stacks = sites_of(golden, golden.tasks)
    for key in keys:
        _, task, stack, layer, position, what = key.split("/")
        task, layer = golden.tasks.index(task), int(layer)
        place = adapters.POSITIONS.index(position)
        if what == "joint_embedding":
            got = golden.model.conditioner.embed(stack, np.array([task]))[0, layer]
            got = got[place] if len(got.shape) == 2 else got
        else:
            got = getattr(stacks[stack].blocks[layer], FIELDS[what])[task, place]
        got = np.transpose(got) if what in ("down_weight", "up_weight") else got
        assert close(got, golden.io[key]), key


def test_task_embeddings(golden):
    """What enters the hypernetworks: z where layers share them, else eq. 5 of it."""
    conditioner = golden.model.conditioner
    if not isinstance(conditioner, HyperFormer):
        pytest.skip("no task embedding")
    for i, task in enumerate(golden.tasks):
        expected = golden.io.get(f"task_embedding/{task}")
        if expected is None:
            assert task not in golden.config["generated_tasks"]
            continue
        if conditioner.options.sharing == "layer":
            got = conditioner.embed("encoder", np.array([i]))[0]
        else:
            got = conditioner.task_features[i]
        assert close(got, expected)
