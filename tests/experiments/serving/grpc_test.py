"""TF Serving's gRPC API answers as REST does."""

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
)

from tests.experiments.serving.fake_export import (
    TASKS,
    expected,
    predict_request,
)

TEXTS = [b"one", b"", "drei Füße".encode(), b"x" * 1500]


@pytest.mark.parametrize("signature", ["serving_default", "classify", "encode"])
def test_answers_are_those_of_rest(asker, signature):
    tasks = ["nano/yes_no", "nano/three"] * 2
    code, arrays = asker.grpc(predict_request(signature, text=TEXTS, task=tasks))
    assert code == "OK"
    inputs = {"text": [text.decode() for text in TEXTS], "task": tasks}
    _, answer = asker.post({"signature_name": signature, "inputs": inputs})
    assert arrays.keys() == answer["outputs"].keys()
    for name, values in answer["outputs"].items():
        array = arrays[name]
        if array.dtype == object:
            array = np.vectorize(bytes.decode)(array)
        np.testing.assert_array_equal(array, np.array(values, array.dtype))
    for i, (text, task) in enumerate(zip(TEXTS, tasks, strict=True)):
        for name, value in expected(signature, text, task).items():
            np.testing.assert_array_equal(arrays[name][i], value)


def test_the_answer_names_what_answered(asker):
    request = predict_request(text=["a"], task=["nano/free"])
    spec = asker.predictions.Predict(request).model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == (
        "fake",
        1,
        "serving_default",
    )
    request.model_spec.version.value = 1
    assert asker.predictions.Predict(request).model_spec.version.value == 1


def test_only_the_outputs_that_are_asked_for(asker):
    request = predict_request(text=["a"], task=["nano/free"])
    request.output_filter.append("score")
    assert list(asker.grpc(request)[1]) == ["score"]
    request.output_filter.append("no_such")
    assert asker.grpc(request) == (
        "INVALID_ARGUMENT",
        'output "no_such" is unknown, expected some of output_text, score, trimmed',
    )


def claimed(*shape, dtype=tf.string):
    """A tensor that claims a shape, and holds one value."""
    proto = tf.make_tensor_proto("a" if dtype == tf.string else 1, dtype)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


LONG = "ü" * 10_000
NOTHING = tf.make_tensor_proto([], tf.string)
REFUSED = {
    "task": (dict(text=["a"], task=["no"]), 'task "no" is unknown, expected one of na'),
    "long task": (dict(text=["a"], task=[LONG]), "is unknown"),
    "unknown input": (dict(text=["a"], task=["nano/free"], more=[1]), '"more"'),
    "long name": ({"text": ["a"], "task": ["nano/free"], LONG: [1]}, "is unknown"),
    "missing": (dict(text=["a"]), 'input "task" is missing'),
    "type": (dict(text=[1], task=["nano/free"]), '"text" is int32, expected string'),
    "shape": (dict(text=[["a"]], task=["nano/free"]), "has shape [1, 1], expected"),
    "rows": (dict(text=["a", "b"], task=["nano/free"]), "inputs differ in rows"),
    "none": (dict(text=NOTHING, task=NOTHING), "no rows"),
    "huge": (dict(text=claimed(2**40), task=["nano/free"]), "expected at most"),
    "negative": (dict(text=claimed(-1), task=["nano/free"]), "sizes that are known"),
    "signature": (dict(signature="no_such", text=["a"]), '"no_such" is unknown'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_named(asker, case):
    inputs, said = REFUSED[case]
    code, message = asker.grpc(predict_request(**inputs))
    assert code == "INVALID_ARGUMENT"
    assert said in message


def test_tensors_that_are_damaged_are_refused(asker):
    request = predict_request("tokens", tokens=[[1, 2]], task=["nano/free"])
    request.inputs["tokens"].tensor_content = b"123"
    code, message = asker.grpc(request)
    assert code == "INVALID_ARGUMENT" and 'input "tokens" is no tensor' in message
    request.inputs["tokens"].dtype = 99
    code, message = asker.grpc(request)
    assert code == "INVALID_ARGUMENT" and 'input "tokens" is no tensor' in message


def test_one_value_stands_for_all_as_in_tensorflow(asker):
    inputs = dict(text=claimed(3), task=["nano/free"] * 3)
    assert asker.grpc(predict_request(**inputs))[1]["trimmed"].shape == (3,)


def test_another_model_version_or_label(asker):
    inputs = {"text": ["a"], "task": ["nano/free"]}
    for request in (
        predict_request(model="other", **inputs),
        predict_request(version=7, **inputs),
    ):
        assert asker.grpc(request)[0] == "NOT_FOUND"
    request = predict_request(**inputs)
    request.model_spec.version_label = "stable"
    code, message = asker.grpc(request)
    assert code == "INVALID_ARGUMENT" and '"stable"' in message


def test_metadata_and_state(asker):
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "fake"
    with pytest.raises(grpc.RpcError, match=r"expected .*signature_def"):
        asker.predictions.GetModelMetadata(request)
    request.metadata_field.append("signature_def")
    response = asker.predictions.GetModelMetadata(request)
    definitions = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(definitions)
    assert set(definitions.signature_def["encode"].inputs) == {"text", "task"}
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "fake"
    (status,) = asker.models.GetModelStatus(request).model_version_status
    assert (status.version, status.state) == (1, status.AVAILABLE)


def test_what_is_not_served_says_so(asker):
    with pytest.raises(grpc.RpcError) as caught:
        asker.predictions.Classify(classification_pb2.ClassificationRequest())
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert "expected Predict" in caught.value.details()


def test_health(asker):
    stub = health_pb2_grpc.HealthStub(asker.channel)
    response = stub.Check(health_pb2.HealthCheckRequest())
    assert response.status == response.SERVING


def test_a_deadline_is_kept(asker):
    request = predict_request(text=["2"], task=["nano/slow"])
    code, _ = asker.grpc(request, timeout=0.2)
    assert code == "DEADLINE_EXCEEDED"
    request = predict_request(text=["a"] * len(TASKS), task=TASKS)
    assert asker.grpc(request)[0] == "OK"
