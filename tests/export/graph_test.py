"""What a SavedModel is made of: ops that a stock TF Serving has, and nothing besides.

The server switches XLA off and links TensorFlow's own ops and tensorflow-text's.
"""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.testing.case import eagerly
from tests.export.helpers import (
    NAMES,
    OP_LIBRARY,
    OURS,
    TEXTS,
    batch,
    meta_graph,
    needs_xla,
    ops,
    read,
    request,
    run_python,
    save,
    small_model,
    tokens,
    unverified,
)

pytestmark = pytest.mark.slow

TASK = [NAMES[i] for i in (2, 0, 1, 2, 0)]
TEXT = ("serving_default", "classify", "encode")
FORMS = {
    "text": {"signatures": TEXT},
    "tokens": {"signatures": ("tokens",)},
    "int8": {"signatures": ("tokens",), "quantize": "int8"},
    "bfloat16": {"signatures": ("encode",), "precision": "bfloat16", "bake": False},
}
# Of TensorFlow, then those that a library of tensorflow-text adds.
LIST_OPS = """
import json, sys
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session as session

def ops():
    data = session.TF_GetBuffer(session.TF_GetAllOpList())
    return {op.name for op in op_def_pb2.OpList.FromString(data).op}

core = ops()
tf.load_op_library(sys.argv[1])
print(json.dumps([sorted(core), sorted(ops() - core)]))
"""


@pytest.fixture(scope="module")
def model():
    return small_model("lora", {"rank": 2}, d_ff=256)  # has large kernels


@pytest.fixture(scope="module")
def folders(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("graphs")
    with unverified():
        return {n: save(model, path / n, **options) for n, options in FORMS.items()}


@pytest.fixture(scope="module")
def with_xla(model, tmp_path_factory):
    options = {"xla": True, "signatures": ("serving_default",)}
    return save(model, tmp_path_factory.mktemp("xla"), **options)


@pytest.fixture(scope="module")
def known_ops():
    """The names of TensorFlow's ops and of tensorflow-text's, without our code."""
    core, text = json.loads(run_python("-c", LIST_OPS, OP_LIBRARY))
    return set(core), set(text)


@pytest.mark.parametrize("form", FORMS)
def test_no_function_asks_for_xla(folders, form):
    assert not needs_xla(folders[form])


@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_an_input_pipeline(folders, form):
    parts = ("dataset", "iterator", "queue", "pyfunc")
    assert not [op for op in ops(folders[form]) if any(p in op.lower() for p in parts)]


@pytest.mark.parametrize("form", FORMS)
def test_all_ops_are_known_to_a_server(folders, known_ops, form):
    core, text = known_ops
    assert "SentencepieceOp" in text  # else the lists would not tell them apart
    others = ops(folders[form]) - core
    assert others <= text
    assert bool(others) == (FORMS[form]["signatures"] != ("tokens",))


def test_tokens_alone_load_without_text_ops(model, folders):
    given = {"tokens": tokens(TEXTS), "task": TASK}
    work = [request(folders["tokens"], "tokens", **given)]
    (answer,) = read(work, blocked=(*OURS, "tensorflow_text"), text=False)
    with eagerly():
        expected = model.generate(batch(model, TEXTS, TASK), 6).numpy()
    np.testing.assert_array_equal(answer["outputs"]["output_tokens"], expected)


def test_xla_compiles_and_answers_the_same(folders, with_xla):
    assert needs_xla(with_xla)
    assert hypertf.export.load(with_xla).card["xla"] is True
    given = {"text": list(TEXTS), "task": TASK}
    both = (with_xla, folders["text"])
    compiled, plain = read([request(f, "serving_default", **given) for f in both])
    scores = [answer["outputs"].pop("score") for answer in (compiled, plain)]
    np.testing.assert_allclose(*scores, rtol=1e-3)
    assert compiled == plain


@pytest.mark.parametrize("form", FORMS)
def test_every_variable_that_is_saved_is_read(folders, form):
    graph = meta_graph(folders[form]).object_graph_def
    variables = {
        i for i, n in enumerate(graph.nodes) if n.WhichOneof("kind") == "variable"
    }
    read = {i for f in graph.concrete_functions.values() for i in f.bound_inputs}
    unread = [graph.nodes[i].variable.name for i in variables - read]
    assert variables
    assert not unread
    index = os.path.join(folders[form], "variables/variables")
    stored = [k for k, _ in tf.train.list_variables(index) if "VARIABLE_VALUE" in k]
    assert len(stored) == len(variables)


def test_an_encoder_alone_saves_no_decoder(folders):
    kinds = meta_graph(folders["bfloat16"]).object_graph_def.nodes
    names = [n.variable.name for n in kinds if n.WhichOneof("kind") == "variable"]
    assert any("encoder" in name for name in names)
    assert not [name for name in names if "decoder_block" in name]


@pytest.mark.parametrize("form", FORMS)
def test_no_keras_inside(folders, form):
    identifiers = {
        node.user_object.identifier
        for node in meta_graph(folders[form]).object_graph_def.nodes
        if node.WhichOneof("kind") == "user_object"
    }
    assert identifiers
    assert not [name for name in identifiers if "keras" in name]
    assert "keras_metadata.pb" not in os.listdir(folders[form])
