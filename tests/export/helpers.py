"""Models, texts and processes that the tests of exports share."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import hypertf
import tfds_tasks
from hypertf.conditioning import create
from hypertf.testing.case import eagerly
from tests.export.reader import TEXT_OPS
from tests.helpers import tiny_config, tiny_model

READER = Path(__file__).with_name("reader.py")
OP_LIBRARY = Path(tf.__file__).parents[1] / "tensorflow_text" / TEXT_OPS
OURS = ("hypertf", "tfds_tasks", "experiments", "tests", "keras", "keras_hub")
VOCABULARY = tfds_tasks.get_vocabulary("nano")
SIZES = {"vocab_size": 512, "num_encoder_layers": 1, "num_decoder_layers": 1}
TEXTS = (
    "the old dog sleeps.",
    "",
    "nli premise: the red cat sleeps. hypothesis: a cat sleeps.",
    "yes",
    "did ann see the small bird?",
)


@dataclasses.dataclass(frozen=True)
class Task:
    """What an export must know of a task."""

    name: str
    choices: tuple[str, ...] | None = None


TASKS = (Task("a/two", ("yes", "no")), Task("b/free"), Task("c", ("no", "so", "maybe")))
NAMES = [task.name for task in TASKS]


def small_model(method="none", options=None, seed=0, **sizes):
    """A tiny T5 of nano's vocabulary; its answers differ, and some end early."""
    sizes = {**SIZES, **sizes}
    conditioner = create(method, tiny_config(**sizes), len(TASKS), **(options or {}))
    model = tiny_model(seed, conditioner, **sizes)
    # A tied table of large numbers repeats what it reads.
    table = 0.15 * model.shared.embedding.numpy()
    table[1] *= 1.5
    model.shared.embedding.assign(table)
    return model


def save(model, path, vocabulary=VOCABULARY, tasks=TASKS, **options):
    """An export of short texts; small warm-up."""
    lengths = {"inputs_length": 24, "targets_length": 6, "max_batch_size": 2}
    return hypertf.export.save(model, vocabulary, tasks, path, **{**lengths, **options})


def unverified():
    """Saves without asking the export: for those that a test asks itself."""
    return mock.patch("hypertf.export.saving.warmup.verify")


def tokens(texts, length=24):
    """Ids of texts as SentencePiece itself makes them, cut, ended and padded."""
    ids = [[*VOCABULARY.pieces.encode(text)[: length - 1], 1] for text in texts]
    width = max(map(len, ids))
    return np.array([row + [0] * (width - len(row)) for row in ids], "int32")


def batch(model, texts, tasks, length=24):
    """What `model.generate` takes for texts and names of tasks."""
    inputs = {"encoder_tokens": tokens(texts, length)}
    if model.conditioner is not None:
        inputs["task_ids"] = np.array([NAMES.index(task) for task in tasks], "int32")
    return inputs


def shares_of_labels(model, texts, tasks):
    """The softmax of `model.score` over each row's labels: a list of arrays."""
    inputs, shares = batch(model, texts, tasks), []
    for row, name in enumerate(tasks):
        labels = TASKS[NAMES.index(name)].choices
        one = {
            k: np.repeat(v[row : row + 1], len(labels), 0) for k, v in inputs.items()
        }
        with eagerly():
            scores = model.score({**one, "targets": tokens(labels)}).numpy()
        odds = np.exp(scores - scores.max())
        shares.append(odds / odds.sum())
    return shares


def meta_graph(folder):
    """What saved_model.pb holds."""
    data = Path(folder, "saved_model.pb").read_bytes()
    (only,) = saved_model_pb2.SavedModel.FromString(data).meta_graphs
    return only


def nodes(saved):
    """All nodes of a meta graph and of its functions."""
    yield from saved.graph_def.node
    for function in saved.graph_def.library.function:
        yield from function.node_def


def ops(folder):
    """The names of all ops of a SavedModel; those of functions are no ops."""
    saved = meta_graph(folder)
    functions = {f.signature.name for f in saved.graph_def.library.function}
    return {node.op for node in nodes(saved)} - functions


def needs_xla(folder):
    """Functions, nodes and ops that a server without XLA cannot run."""
    saved = meta_graph(folder)
    places = [*saved.graph_def.library.function, *nodes(saved)]
    marked = [place for place in places if place.attr["_XlaMustCompile"].b]
    return [*marked, *(op for op in ops(folder) if op.lower().startswith("xla"))]


def request(folder, signature, **inputs):
    """A request for `read`."""
    inputs = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in inputs.items()}
    return {"folder": str(folder), "signature": signature, "inputs": inputs}


def read(requests, python=sys.executable, blocked=OURS, text=True):
    """Answers of a new process that has TensorFlow, and nothing of ours.

    Each is `{"outputs": {name: list}}` or `{"error": message}`.
    """
    work = {"blocked": list(blocked), "text": text, "requests": requests}
    with tempfile.TemporaryDirectory() as folder:
        source, answers = Path(folder, "requests.json"), Path(folder, "answers.json")
        source.write_text(json.dumps(work))
        run_python(READER, source, answers, python=python, cwd=folder)
        return json.loads(answers.read_text())


def run_python(*arguments, python=sys.executable, cwd=None):
    """Runs Python in a new process; returns what it printed."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [python, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
