"""An export whose answers are known: it has every signature, and no model inside."""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

LABELS = {
    "nano/yes_no": ["yes", "no"],
    "nano/three": ["red", "green", "blue"],
    "nano/free": None,
    "nano/slow": None,  # takes as many seconds as its text says
}
TASKS = list(LABELS)
LONGEST = 1000  # bytes of a text that the model takes
MAX_LENGTH = 8  # of output tokens
MOST = 3  # labels of any task

CARD = {
    "name": "fake",
    "tasks": [
        {
            "name": name,
            "labels": labels,
            "examples": [
                {"text": f"the first of {name}", "target": "yes"},
                {"text": f"<b>the second</b> of {name}", "target": "no"},
            ],
            "scores": {"accuracy": 91.25} if labels else {},
        }
        for name, labels in LABELS.items()
    ],
    "inputs_length": 512,
    "targets_length": MAX_LENGTH,
}


class Fake(tf.Module):
    """Functions of text and task; `tag` tells versions apart."""

    def __init__(self, tag):
        super().__init__()
        self.tag = tag
        indices = tf.range(len(TASKS), dtype=tf.int64)
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(TASKS, indices), -1
        )

    def known(self, task):
        """The index of each task; an error that names the known ones."""
        index = self.table.lookup(task)
        unknown = tf.boolean_mask(task, index < 0)
        said = ["unknown task", unknown, "expected one of", ", ".join(TASKS)]
        check = tf.debugging.Assert(tf.reduce_all(index >= 0), said)
        with tf.control_dependencies([check]):
            return tf.identity(index)

    def answer(self, text, task):
        index = self.known(task)
        slow = (index == TASKS.index("nano/slow")) & tf.strings.regex_full_match(
            text, r"[0-9.]+"
        )
        seconds = tf.strings.to_number(tf.where(slow, text, "0"), tf.float64)
        with tf.control_dependencies([wait(tf.reduce_max(seconds))]):
            kept = tf.strings.substr(text, 0, LONGEST)
        length = tf.strings.length(text)
        return {
            "output_text": tf.strings.join([self.tag, "|", task, ":", kept]),
            "score": tf.cast(length, tf.float32) / 8,
            "trimmed": length > LONGEST,
        }

    def classify(self, text, task):
        index = self.known(task)
        rows = [[*(LABELS[t] or []), *[""] * MOST][:MOST] for t in TASKS]
        labels = tf.gather(tf.constant(rows), index)
        first = tf.cast(tf.strings.length(text) % 8, tf.float32) / 8
        second = tf.ones_like(first) - first
        best = tf.where(first > second, labels[:, 0], labels[:, 1])
        return {
            "labels": labels,
            "probabilities": tf.stack([first, second, tf.zeros_like(first)], axis=1),
            "label": best,
            "trimmed": tf.strings.length(text) > LONGEST,
        }

    def encode(self, text, task):
        self.known(task)
        length = tf.cast(tf.strings.length(text), tf.float32)
        return {
            "vector": length[:, None] * tf.constant([[1.0, 0.1, -3.0]]),
            "trimmed": tf.strings.length(text) > LONGEST,
        }

    def tokens(self, tokens, task):
        self.known(task)
        padded = tf.pad(tokens, [[0, 0], [0, MAX_LENGTH]])[:, :MAX_LENGTH]
        total = tf.reduce_sum(tokens, axis=1)
        return {"output_tokens": padded * 2, "score": tf.cast(total, tf.float32)}


def wait(seconds):
    """An op that ends after so many seconds."""
    began = tf.timestamp()
    return tf.while_loop(
        lambda now: now - began < seconds, lambda now: (tf.timestamp(),), [began]
    )[0]


def expected(signature, text, task, tag="v1"):
    """What a row of an answer is: text as bytes, task as str."""
    trimmed = len(text) > LONGEST
    if signature == "serving_default":
        return {
            "output_text": f"{tag}|{task}:".encode() + text[:LONGEST],
            "score": np.float32(len(text) / 8),
            "trimmed": trimmed,
        }
    if signature == "classify":
        first = np.float32(len(text) % 8 / 8)
        labels = [*LABELS[task], ""][:MOST]
        return {
            "labels": [label.encode() for label in labels],
            "probabilities": [first, np.float32(1) - first, 0],
            "label": labels[0 if first > np.float32(1) - first else 1].encode(),
            "trimmed": trimmed,
        }
    length = np.float32(len(text))
    return {"vector": length * np.float32([1, 0.1, -3]), "trimmed": trimmed}


def write_export(
    folder, version=1, tag=None, *, card=CARD, task=True, warm_up=(), batching=None
):
    """Writes a version; `task=False` makes the export of a single task."""
    fake = Fake(tag or f"v{version}")
    strings = tf.TensorSpec([None], tf.string)
    numbers = tf.TensorSpec([None, None], tf.int32)
    signatures = {}
    for name, function, spec in [
        ("serving_default", fake.answer, strings),
        ("classify", fake.classify, strings),
        ("encode", fake.encode, strings),
        ("tokens", fake.tokens, numbers),
    ]:
        key = "tokens" if name == "tokens" else "text"
        signatures[name] = _signature(function, key, spec, strings if task else None)
    # One input and one output, which loses its name in JSON; and one of bytes.
    signatures["shout"] = tf.function(
        lambda text: {"shout": tf.strings.upper(text)}, input_signature=[strings]
    )
    signatures["as_bytes"] = tf.function(
        lambda text: {"text": text, "same_bytes": text}, input_signature=[strings]
    )
    path = Path(folder) / str(version)
    fake.functions = list(signatures.values())
    tf.saved_model.save(fake, str(path), signatures=signatures)
    extra = path / "assets.extra"
    extra.mkdir()
    if card is not None:
        text = card if isinstance(card, str) else json.dumps(card)
        (extra / "model_card.json").write_text(text)
    if warm_up:
        with tf.io.TFRecordWriter(str(extra / "tf_serving_warmup_requests")) as writer:
            for request in warm_up:
                log = prediction_log_pb2.PredictionLog()
                log.predict_log.request.CopyFrom(request)
                writer.write(log.SerializeToString())
    if batching:
        (path / "batching_params.pbtxt").write_text(batching)
    return path


def _signature(function, key, spec, task_spec):
    if task_spec is None:
        rows = lambda value: tf.fill(tf.shape(value)[:1], TASKS[0])  # noqa: E731
        one_task = {
            "text": lambda text: function(text, rows(text)),
            "tokens": lambda tokens: function(tokens, rows(tokens)),
        }[key]
        return tf.function(one_task, input_signature=[spec], autograph=False)
    both = {
        "text": lambda text, task: function(text, task),
        "tokens": lambda tokens, task: function(tokens, task),
    }[key]
    return tf.function(both, input_signature=[spec, task_spec], autograph=False)


def predict_request(signature="", model="fake", version=None, **inputs):
    """The proto of a request, from lists or tensors by name."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    for name, value in inputs.items():
        if not isinstance(value, TensorProto):
            value = tf.make_tensor_proto(value)
        request.inputs[name].CopyFrom(value)
    return request
