"""Weights in fewer bits: what lies on disk, and that answers are those of it."""

import gc
import os
import re
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.t5 import named_weights
from hypertf.testing.case import eagerly
from tests.conditioning.all_methods_test import METHODS
from tests.export.helpers import (
    NAMES,
    TEXTS,
    meta_graph,
    read,
    request,
    save,
    shares_of_labels,
    small_model,
    tokens,
    unverified,
)

pytestmark = pytest.mark.slow

GIVEN = {"tokens": tokens(TEXTS), "task": [NAMES[i] for i in (2, 0, 1, 2, 0)]}
FORMS = {
    "float32": {},
    "int8": {"quantize": "int8"},
    "bfloat16": {"precision": "bfloat16"},
}
LARGE = 4096  # numbers; a weight of fewer stays as it is


def nano(seed=0):
    """A shallow t5-nano whose weights differ in size from channel to channel."""
    keras.utils.set_random_seed(seed)
    depth = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    model = hypertf.T5(hypertf.T5Config.from_name("t5-nano", **depth))
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        scale = rng.uniform(0.5, 2.0, size=weight.shape[-1:])
        weight.assign((weight + 0.05 * rng.normal(size=weight.shape)) * scale)
    return model


def rounded(model):
    """A copy whose large weights are multiples of a 127th of their channel's largest.

    A channel is a column of a kernel, and a row of the table of words.
    """
    copy = hypertf.T5(model.config)
    for name, weight in named_weights(copy).items():
        value = named_weights(model)[name].numpy()
        if value.ndim == 2 and value.size >= LARGE:
            axis = 1 if name == "shared/embedding" else 0
            step = np.abs(value).max(axis=axis, keepdims=True) / np.float32(127)
            value = np.round(value / step) * step
        weight.assign(value)
    return copy


@pytest.fixture(scope="module")
def model():
    return nano()


@pytest.fixture(scope="module")
def folders(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("forms")
    with unverified():
        return {
            name: save(model, path / name, signatures=("tokens", "encode"), **options)
            for name, options in FORMS.items()
        }


@pytest.fixture(scope="module")
def answers(folders):
    """Of another process: int8's tokens, and what the others make of texts."""
    given = {"text": list(TEXTS), "task": GIVEN["task"]}
    requests = {
        "int8": request(folders["int8"], "tokens", **GIVEN),
        "bfloat16": request(folders["bfloat16"], "encode", **given),
        "float32": request(folders["float32"], "encode", **given),
    }
    answers = read(list(requests.values()))
    return {
        form: answer["outputs"] for form, answer in zip(requests, answers, strict=True)
    }


def variables(folder):
    """{name: array} of all variables of a SavedModel, as they lie on disk."""
    checkpoint = tf.train.load_checkpoint(os.path.join(folder, "variables/variables"))
    graph, found = meta_graph(folder).object_graph_def, {}
    paths = {0: ""}
    for i, node in enumerate(graph.nodes):  # parents come first
        for child in node.children:
            paths.setdefault(child.node_id, f"{paths[i]}{child.local_name}/")
    for i, node in enumerate(graph.nodes):
        if node.WhichOneof("kind") == "variable":
            key = f"{paths[i]}.ATTRIBUTES/VARIABLE_VALUE"
            name = re.sub(r"^t5(_\d+)?_", "", node.variable.name.replace("/", "_"))
            found[name] = checkpoint.get_tensor(key)
    return found


def size(folder):
    """Bytes of the weights."""
    data = os.path.join(folder, "variables")
    return sum(entry.stat().st_size for entry in os.scandir(data))


def test_every_large_weight_is_int8(folders):
    plain, stored = variables(folders["float32"]), variables(folders["int8"])
    large = {n for n, v in plain.items() if v.ndim == 2 and v.size >= LARGE}
    # Of a block in each stack: qkv, o, wi, wo; decoders' q, kv, o; table and head.
    assert len(large) == 4 + 7 + 2
    for name, value in plain.items():
        if name not in large:
            np.testing.assert_array_equal(stored.pop(name), value)
            continue
        numbers, scale = stored.pop(f"{name}_int8"), stored.pop(f"{name}_scale")
        assert numbers.dtype == np.int8 and numbers.shape == value.shape
        (axis,) = [i for i, length in enumerate(scale.shape) if length == 1]
        assert scale.shape[1 - axis] == value.shape[1 - axis]
        error = np.abs(numbers * scale - value)
        assert (error <= scale * (0.5 + 1e-3)).all(), name
        assert (np.abs(numbers).max(axis=axis) == 127).all()
    assert not stored


def test_size_on_disk(folders):
    assert 0.25 < size(folders["int8"]) / size(folders["float32"]) < 0.28
    assert 0.50 < size(folders["bfloat16"]) / size(folders["float32"]) < 0.52
    large = [v for v in variables(folders["bfloat16"]).values() if v.size >= LARGE]
    assert large and {v.dtype.name for v in large} == {"bfloat16"}


def test_int8_answers_as_a_model_that_was_rounded_by_hand(model, answers):
    inputs = {"encoder_tokens": GIVEN["tokens"]}
    with eagerly():
        expected, scores = rounded(model).generate(inputs, 6, return_scores=True)
        _, before = model.generate(inputs, 6, return_scores=True)
    np.testing.assert_array_equal(answers["int8"]["output_tokens"], expected)
    np.testing.assert_allclose(answers["int8"]["score"], scores, rtol=1e-4)
    assert np.abs(scores - before).max() > 1e-3  # rounding is felt


def test_bfloat16_is_close(answers):
    half, plain = (np.array(answers[f]["vector"]) for f in ("bfloat16", "float32"))
    error = np.linalg.norm(half - plain, axis=1) / np.linalg.norm(plain, axis=1)
    assert error.max() < 0.05
    assert error.min() > 1e-4  # computed in bfloat16, not only stored


def run(loaded):
    return {k: v.tolist() for k, v in loaded.run("tokens", **GIVEN).items()}


def test_one_export_loads_twice_in_a_process(folders):
    """The first one's end is not the second one's."""
    first = hypertf.export.load(folders["int8"])
    second = hypertf.export.load(folders["int8"])
    expected = run(first)
    assert run(second) == expected
    del first
    gc.collect()
    assert run(second) == expected


def test_versions_in_one_process_are_apart(folders, tmp_path):
    old = hypertf.export.load(folders["int8"])
    expected = run(old)
    options = {"quantize": "int8", "signatures": ("tokens",)}
    other = hypertf.export.load(save(nano(seed=1), tmp_path, **options))
    assert run(other) != expected
    assert run(old) == expected


BAKED = [
    ("int8", "hyperformer++"),
    ("bfloat16", "hyperprompt-share"),
    ("bfloat16", "hyperformer++"),
    ("bfloat16", "lora"),
    ("bfloat16", "ia3"),
]


@pytest.mark.parametrize(("form", "method"), BAKED)
def test_baked_models_in_fewer_bits(form, method, tmp_path):
    """Each at other sites of the model; all that has two axes counts as large."""
    model = small_model(method, METHODS[method])
    options = {"signatures": ("classify",), **FORMS[form]}
    with mock.patch("hypertf.export.stored_weights.SMALL", 2):
        loaded = hypertf.export.load(save(model, tmp_path, **options))
    tasks = [NAMES[i] for i in (2, 0, 0, 2, 0)]
    found = loaded.run("classify", text=TEXTS, task=tasks)["probabilities"]
    errors = [
        np.abs(row[: len(shares)] - shares).max()
        for row, shares in zip(
            found, shares_of_labels(model, TEXTS, tasks), strict=True
        )
    ]
    assert 1e-5 < max(errors) < 0.02
