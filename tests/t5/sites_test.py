"""The sites sit where the methods need them, in training and in decoding alike."""

import contextlib
import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import hypertf
from hypertf.t5 import Conditioner, Sites, StackSites, map_tensors, shared
from hypertf.t5.products import project
from hypertf.t5.relative_bias import buckets
from hypertf.testing.case import eagerly, logits_before
from tests.helpers import log_likelihood, relative_error, rows, tiny_config, tiny_model

TASKS = 3


class EverySite(Conditioner):
    """Uses all sites at once, with random weights per task and layer."""

    def __init__(self, config, num_tokens=2, num_keys=3):
        super().__init__(config, TASKS)
        self.num_tokens, self.num_keys = num_tokens, num_keys

    def build(self, input_shape=None):
        c = self.config
        layers = c.num_encoder_layers + c.num_decoder_layers
        keys = (TASKS, layers, self.num_keys, c.num_heads, c.d_kv)
        shapes = {
            "tokens": (TASKS, 2, self.num_tokens, c.d_model),
            "keys": keys,
            "values": keys,
            "shift": (TASKS, layers, c.d_model),
            "scale": (TASKS, layers, c.d_model),
            "side": (TASKS, layers, c.d_model, c.d_model),
            "gate": (layers, c.d_model, c.d_ff),
        }
        for name, shape in shapes.items():
            weight = self.add_weight(name=name, shape=shape, initializer="normal")
            setattr(self, f"{name}_table", weight)
        self.built = True

    def encoder(self, task_ids, training=False, first_pass=None):
        return self._stack(task_ids, 0, range(self.config.num_encoder_layers))

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        first = self.config.num_encoder_layers
        layers = range(first, first + self.config.num_decoder_layers)
        return self._stack(task_ids, 1, layers)

    def _stack(self, task_ids, stack, layers):
        def of_task(table):
            return ops.take(table, task_ids, axis=0)

        names = ("keys", "values", "shift", "scale", "side")
        tables = {name: of_task(getattr(self, f"{name}_table")) for name in names}
        blocks = tuple(
            EveryBlock(
                {name: table[:, i] for name, table in tables.items()},
                self.gate_table[i],
                self.num_tokens,
            )
            for i in layers
        )
        tokens = of_task(self.tokens_table)[:, stack] if self.num_tokens else None
        return StackSites(blocks, tokens=tokens, num_keys=self.num_keys)


@dataclasses.dataclass(frozen=True)
class EveryBlock(Sites):
    w: dict  # {name: [batch, ...]}
    gate: Any = shared()
    num_tokens: int = shared()

    kernels = frozenset(["wo"])

    def keys_values(self):
        both = (self.w["keys"], self.w["values"])  # [batch, extra, heads, d_kv]
        if not both[0].shape[1]:
            return None
        return tuple(ops.transpose(x, (0, 2, 1, 3)) for x in both)

    def observe(self, x, place):
        if place == "input" or not self.num_tokens:
            return None
        return ops.sigmoid(ops.matmul(x[:, 0], self.gate))  # [batch, d_ff]

    def project(self, name, x, kernel, observed):
        if observed is not None:
            x = x * observed[:, None]
        return project(x, kernel)

    def after_attention(self, y, training):
        return y + self.w["shift"][:, None]

    def after_ffn(self, y, training):
        return y * (1.0 + self.w["scale"][:, None])

    def beside_ffn(self, x, normed, training):
        return ops.matmul(x, self.w["side"])


def conditioned(**options):
    return tiny_model(seed=4, conditioner=EverySite(tiny_config(), **options))


@pytest.fixture(scope="module", params=[(2, 3), (0, 3), (2, 0)], ids=str)
def model(request):
    num_tokens, num_keys = request.param
    return conditioned(num_tokens=num_tokens, num_keys=num_keys)


def batch(tasks=(0, 2, 1)):
    return {
        "encoder_tokens": rows([4, 8, 6][: len(tasks)], 8),
        "task_ids": np.array(tasks, "int32"),
    }


@pytest.mark.parametrize("beam_size", [1, 3])
def test_cached_equals_uncached(model, beam_size):
    how = {"beam_size": beam_size, "length_penalty": 0.0, "return_scores": True}
    every = model.conditioner.num_tokens and model.conditioner.num_keys
    with contextlib.nullcontext() if every else eagerly():  # with XLA, and without
        ids, scores = model.generate(batch(), 6, **how)
    assert relative_error(scores, log_likelihood(model, batch(), ids)) < 1e-4
    if beam_size == 1:
        ids = ids.numpy()
        logits = logits_before(model, batch(), ids)
        assert (np.argmax(logits, -1) == ids)[ids > 0].all()


def test_rows_do_not_depend_on_the_tasks_of_their_mates(model):
    inputs = {**batch(), "decoder_tokens": rows([3, 4, 5], 5)}
    logits = model(inputs).numpy()
    others = model({**inputs, "task_ids": np.array([0, 1, 1])}).numpy()
    assert relative_error(others[[0, 2]], logits[[0, 2]]) < 1e-6
    assert relative_error(others[1], logits[1]) > 1e-2


def test_choices_equal_one_by_one(model):
    targets = np.stack([rows([2, 3, 4], 4, seed=s) for s in (1, 2)], axis=1)
    together = model.score({**batch(), "targets": targets})
    for j in range(2):
        alone = model.score({**batch(), "targets": targets[:, j]})
        assert relative_error(together[:, j], alone) < 1e-5


def test_gradients_reach_every_weight():
    model = conditioned()
    inputs = {**batch(), "decoder_tokens": rows([3, 4, 5], 5)}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs, training=True) ** 2)
    gradients = tape.gradient(loss, [w.value for w in model.trainable_variables])
    for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path


def rms_norm(x, scale):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale


def naive_encoder_block(block, table, x, w, gate, num_keys):
    """One example x [length, d_model], position by position, from the definition."""
    attention, ffn = block.self_attention, block.feed_forward
    heads, d_kv = table.shape[0], w["keys"].shape[-1]
    y = rms_norm(x, attention.rms_norm.scale.numpy())
    q, k, v = (
        (y @ getattr(attention.layer, n).numpy()).reshape(-1, heads, d_kv)
        for n in "qkv"
    )
    k, v = np.concatenate([w["keys"], k]), np.concatenate([w["values"], v])
    out = np.zeros((len(x), heads, d_kv))
    for i in range(len(x)):
        for h in range(heads):
            logits = np.array(
                [
                    q[i, h] @ k[j, h]
                    + table[h, buckets(np.array(j - num_keys - i), True, 32, 128)]
                    for j in range(len(k))
                ]
            )
            weights = np.exp(logits - logits.max())
            out[i, h] = (weights / weights.sum()) @ v[:, h]
    y = out.reshape(len(x), -1) @ attention.layer.o.numpy()
    x = x + y + w["shift"]
    observed = 1 / (1 + np.exp(-x[0] @ gate))
    y = rms_norm(x, ffn.rms_norm.scale.numpy()) @ ffn.layer.wi[0].kernel.numpy()
    y = (np.maximum(y, 0) * observed) @ ffn.layer.wo.kernel.numpy()
    return x + y * (1 + w["scale"]) + x @ w["side"]


def test_every_site_is_where_it_says():
    """A block by hand: extra keys at -l..-1, adapters before the residual, ..."""
    model = conditioned()
    conditioner, num_keys = model.conditioner, 3
    task, tokens = 2, rows([6], 6)
    sites = conditioner.encoder(np.array([task]))
    x = np.concatenate([sites.tokens[0], model.shared(tokens)[0]]).astype("float64")
    names = ("keys", "values", "shift", "scale", "side")
    attention = model.encoder.blocks[0].self_attention.layer
    table = attention.relative_attention_bias.numpy()
    for i, block in enumerate(model.encoder.blocks):
        w = {n: getattr(conditioner, f"{n}_table")[task, i].numpy() for n in names}
        gate = conditioner.gate_table[i].numpy()
        x = naive_encoder_block(block, table, x, w, gate, num_keys)
    expected = rms_norm(x, model.encoder.rms_norm.scale.numpy())
    inputs = {"encoder_tokens": tokens, "task_ids": np.array([task])}
    got, mask = model.encode(inputs)
    assert mask.shape == (1, 2 + 6) and np.asarray(mask).all()
    assert relative_error(got[0], expected) < 1e-5


class Idle(Conditioner):
    """Uses no site at all."""

    def __init__(self, config):
        super().__init__(config, TASKS)
        self.built = True

    def encoder(self, task_ids, training=False, first_pass=None):
        return StackSites.plain(self.config.num_encoder_layers)

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        return StackSites.plain(self.config.num_decoder_layers)


def test_unused_sites_cost_nothing():
    """The graph of a conditioner that does nothing is that of the plain model."""

    def operations(model):
        inputs = {**batch(), "decoder_tokens": rows([3, 4, 5], 5)}
        graph = tf.function(lambda b: model(b)).get_concrete_function(inputs).graph
        return sorted(op.type for op in graph.get_operations())

    plain, idle = tiny_model(), tiny_model(conditioner=Idle(tiny_config()))
    assert operations(plain) == operations(idle)


def test_a_conditioner_needs_task_ids_and_rows_that_it_packs():
    model = conditioned()
    inputs = {"encoder_tokens": rows([4], 4), "decoder_tokens": [[0, 5]]}
    with pytest.raises(ValueError, match="'task_ids' is missing"):
        model(inputs)
    shapes = {"encoder": (1, 4), "decoder": (1, 2)}
    packed = {f"{s}_segment_ids": np.ones(shape, int) for s, shape in shapes.items()}
    packed |= {f"{s}_positions": np.ones(shape, int) for s, shape in shapes.items()}
    refused = "packing='task': EverySite does not pack rows so, expected 'off'"
    with pytest.raises(ValueError, match=refused):
        model({**inputs, **packed, "task_ids": [0]})


def test_conditioner_weights_are_named_after_it():
    names = hypertf.t5.named_weights(conditioned())
    assert "conditioner/keys" in names


def test_baked_equals_unbaked():
    """What EverySite does depends on the task alone, but for the token it observes."""
    model = conditioned()
    inputs = {**batch(), "decoder_tokens": rows([3, 4, 5], 5)}
    baked = hypertf.export.bake(model)
    assert relative_error(baked(inputs), model(inputs)) < 1e-6


class PlainClass(Sites):
    """Not a dataclass: what it holds can be found by nobody."""

    def __init__(self, shift):
        self.shift = shift

    def after_ffn(self, y, training):
        return y + self.shift[:, None]


@dataclasses.dataclass(frozen=True)
class Numbered(Sites):
    shift: Any
    factor: float = 2.0  # not declared as shared


def test_sites_that_hide_what_they_hold_are_refused():
    with pytest.raises(TypeError, match="PlainClass holds shift outside the fields"):
        StackSites((PlainClass(tf.zeros([4, 16])),))
    with pytest.raises(TypeError, match=r"Numbered.factor is 2.0, expected tensors"):
        StackSites((Numbered(tf.zeros([4, 16])),))
    with pytest.raises(TypeError, match=r"Numbered.shift\[0\]\['a'\] is 'word'"):
        StackSites((Numbered([{"a": "word"}]),))
    with pytest.raises(TypeError, match="None in place of a block's sites"):
        StackSites((None,))


def test_map_tensors_walks_every_nest():
    block = EveryBlock({"a": tf.ones([2]), "b": [(tf.ones([3]),)]}, tf.ones([4]), 7)
    stack = StackSites((block, Sites()), tokens=tf.ones([5]), num_keys=2)
    seen = []
    other = map_tensors(lambda x, s: (seen.append((len(x), s)), x + 1)[1], stack)
    assert seen == [(2, False), (3, False), (4, True), (5, False)]
    assert other.num_keys == 2 and other.blocks[0].num_tokens == 7
    assert (other.blocks[0].w["b"][0][0].numpy() == 2).all()
    assert (other.tokens.numpy() == 2).all() and (stack.tokens.numpy() == 1).all()
