"""The files of an export beside the SavedModel: warm-up, settings, the card."""

import json
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

import hypertf
from tests.export.helpers import NAMES, TASKS, save, small_model

EXAMPLES = {NAMES[0]: [{"text": "is a | b?", "target": "no"}]}
SCORES = {NAMES[0]: {"accuracy": 81.25}, NAMES[2]: {"accuracy": 12.5}}
CARD = {"scores": SCORES, "source": "a run of ours", "seen": [1, 2]}


@pytest.fixture(scope="module")
def model():
    return small_model("lora", {"rank": 2})


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("folder") / "my_model"
    save(model, path, max_batch_size=5, examples=EXAMPLES, card=CARD)
    return path


def test_warm_up_requests_are_answered(path):
    loaded = hypertf.export.load(path)
    file = path / "1/assets.extra/tf_serving_warmup_requests"
    sizes, texts = {}, []
    for record in tf.data.TFRecordDataset(str(file)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        assert request.model_spec.name == "my_model"
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        signature = loaded.signatures[request.model_spec.signature_name]
        answers = signature(**{k: tf.constant(v) for k, v in inputs.items()})
        (rows,) = {len(value) for value in (*inputs.values(), *answers.values())}
        sizes.setdefault(request.model_spec.signature_name, []).append(rows)
        texts += inputs.get("text", np.array([])).tolist()
    # One of each task that has what the signature needs, and a full batch.
    each = {name: [1, 1, 1, 5] for name in hypertf.export.SIGNATURES}
    assert sizes == {**each, "classify": [1, 1, 5]}
    assert EXAMPLES[NAMES[0]][0]["text"].encode() in texts
    assert loaded.card["warmup_requests"] == sum(map(len, sizes.values())) <= 1000


def proto(name, fields):
    """A message of TF Serving that no package has; `fields` are (name, type, label)."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    message = file.message_type.add(name=name)
    types = {"int64": 3, "bool": 8, "string": 9}
    for number, (field, kind, label) in enumerate(fields, start=1):
        new = message.field.add(name=field, number=number, label=label)
        if kind in types:
            new.type = types[kind]
        else:
            new.type, new.type_name = 11, kind
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


ONE, MANY, WRAPPED = 1, 3, ".google.protobuf.Int64Value"
# servables/tensorflow/session_bundle_config.proto
BATCHING = [
    ("max_batch_size", WRAPPED, ONE),
    ("batch_timeout_micros", WRAPPED, ONE),
    ("max_enqueued_batches", WRAPPED, ONE),
    ("num_batch_threads", WRAPPED, ONE),
    ("thread_pool_name", ".google.protobuf.StringValue", ONE),
    ("allowed_batch_sizes", "int64", MANY),
    ("pad_variable_length_inputs", "bool", ONE),
]


@pytest.mark.parametrize("most", [1, 2, 5, 32])
def test_batching_parameters(model, path, tmp_path, most):
    if most != 5:
        path = tmp_path
        with mock.patch("hypertf.export.saving.warmup.verify"):
            save(model, path, signatures=("encode",), max_batch_size=most)
    text = (path / "1/batching_params.pbtxt").read_text()
    parsed = text_format.Parse(text, proto("BatchingParameters", BATCHING)())
    sizes = list(parsed.allowed_batch_sizes)
    assert parsed.max_batch_size.value == most == sizes[-1]
    assert sizes[0] == 1 and sizes == sorted(set(sizes))
    assert parsed.num_batch_threads.value >= 1
    assert parsed.max_enqueued_batches.value >= 1
    assert parsed.HasField("batch_timeout_micros")
    assert not parsed.pad_variable_length_inputs  # it pads with garbage


def test_files_for_the_server(path):
    text = (path / "models.config").read_text()
    parsed = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (config,) = parsed.model_config_list.config
    assert (config.name, config.base_path) == ("my_model", "/models/my_model")
    assert config.model_platform == "tensorflow"
    # config/monitoring_config.proto: MonitoringConfig{prometheus_config}
    text = (path / "monitoring.config").read_text().strip()
    inner = text.removeprefix("prometheus_config {").removesuffix("}")
    assert len(inner) == len(text) - len("prometheus_config {}")
    fields = [("enable", "bool", ONE), ("path", "string", ONE)]
    parsed = text_format.Parse(inner, proto("PrometheusConfig", fields)())
    assert parsed.enable
    assert parsed.path == "/monitoring/prometheus/metrics"


def test_card(model, path):
    card = json.loads((path / "1/assets.extra/model_card.json").read_text())
    assert card == hypertf.export.load(path).card
    assert (card["name"], card["version"], card["method"]) == ("my_model", 1, "lora")
    assert card["parameters"] == model.count_params()
    assert hypertf.T5Config(**card["config"]) == model.config
    assert card["source"] == CARD["source"] and card["seen"] == CARD["seen"]
    for task, entry in zip(TASKS, card["tasks"], strict=True):
        assert entry["name"] == task.name
        assert entry["labels"] == (list(task.choices) if task.choices else None)
        assert entry["scores"] == SCORES.get(task.name, {})
        assert entry["examples"] == EXAMPLES.get(task.name, [])
    page = (path / "1/model_card.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        r"| a/two | yes, no | accuracy 81.2 | is a \| b? |",
        "| b/free | (free text) |  |  |",
        "| c | no, so, maybe | accuracy 12.5 |  |",
    ]
    assert CARD["source"] in page and f"{card['parameters']:,}" in page
