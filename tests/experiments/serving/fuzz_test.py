"""Thousands of random requests: each is answered rightly or refused clearly."""

import base64
import concurrent.futures
import json
import random

import numpy as np
import pytest
import tensorflow as tf

from tests.experiments.serving.fake_export import (
    LABELS,
    TASKS,
    expected,
    predict_request,
)

REST, GRPC, THREADS = 3200, 2000, 4
FAST = [task for task in TASKS if task != "nano/slow"]
LETTERS = ["a", "Z", " ", "\n", '"', "\\", "ü", "☃", "😀", "\x00", "{", "<b>", "NaN"]
JUNK = [
    *(None, True, 3, -1, 2.5, 1e400, 2**70, "", "no/such", [], {}, [[]], [None]),
    *({"b64": "!"}, {"b64": 1}, {"b64": "YQ==", "more": 1}, "\ud800", [["a"]] * 3),
]


def text_of(draw):
    length = draw.choice([0, 1, 5, 5, 30, 30, 999, 1000, 1001, 5000])
    return "".join(draw.choices(LETTERS, k=length))


def valid(draw):
    """A signature, texts and tasks that have an answer."""
    signature = draw.choice(["serving_default", "classify", "encode"])
    tasks = [t for t in FAST if LABELS[t]] if signature == "classify" else FAST
    rows = draw.choice([*[1] * 16, 2, 2, 3, 3, 40])
    return signature, [text_of(draw) for _ in range(rows)], draw.choices(tasks, k=rows)


def check(signature, texts, tasks, outputs):
    """Whether columns of outputs are what they must be."""
    for i, (text, task) in enumerate(zip(texts, tasks, strict=True)):
        for name, value in expected(signature, text.encode(), task).items():
            got = decoded(outputs[name][i])
            if isinstance(value, float | np.floating | np.ndarray):
                got = np.asarray(got, np.float32)
            np.testing.assert_array_equal(got, value)


def decoded(value):
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode() if isinstance(value, str) else value


def over_rest(asker, number):
    draw = random.Random(f"rest {number}")
    signature, texts, tasks = valid(draw)
    body = {"signature_name": signature}
    by_row = draw.random() < 0.5
    if by_row:
        pairs = zip(texts, tasks, strict=True)
        body["instances"] = [{"text": text, "task": task} for text, task in pairs]
    else:
        body["inputs"] = {"text": texts, "task": tasks}
    kind = draw.choice(["valid", "valid", "junk", "bytes", "removed", "path"])
    path = None
    if kind == "junk":
        put_junk(draw, body)
    elif kind == "removed":
        del body[draw.choice(sorted(set(body) - {"signature_name"}))]
    elif kind == "path":
        wrong = ["models/x:predict", "models/fake/versions/9:predict", "models/fake:x"]
        path = "/v1/" + draw.choice([*wrong, "models/fake/versions/-1:predict"])
    content = json.dumps(body).encode()
    if kind == "bytes":
        content = with_bytes_changed(draw, content)
    status, answer = asker.post(content, path)
    if kind == "valid":
        assert status == 200, answer
        if by_row:
            rows = answer["predictions"]
            outputs = {name: [row[name] for row in rows] for name in rows[0]}
        else:
            outputs = answer["outputs"]
        check(signature, texts, tasks, outputs)
    elif kind in ("removed", "path"):
        assert status in (400, 404), answer
    assert status in (200, 400, 404), answer
    if status != 200:
        assert list(answer) == ["error"] and len(answer["error"]) > 10
        assert "Traceback" not in answer["error"]
    return kind, status


def put_junk(draw, body):
    """Puts a wrong value somewhere."""
    junk = draw.choice(JUNK)
    where = draw.choice(["top", "column", "value"])
    form = "instances" if "instances" in body else "inputs"
    if where == "top":
        body[draw.choice([form, "signature_name"])] = junk
    elif form == "inputs":
        name = draw.choice(["text", "task", "more"])
        if where == "column" or name == "more":
            body[form][name] = junk
        else:
            body[form][name][draw.randrange(len(body[form][name]))] = junk
    else:
        row = draw.randrange(len(body[form]))
        if where == "column":
            body[form][row] = junk
        else:
            body[form][row][draw.choice(["text", "task", "more"])] = junk


def with_bytes_changed(draw, content):
    content = bytearray(content)
    for _ in range(draw.randint(1, 5)):
        content[draw.randrange(len(content))] = draw.randrange(256)
    return bytes(content[: draw.choice([len(content), draw.randrange(len(content))])])


def over_grpc(asker, number):
    draw = random.Random(f"grpc {number}")
    signature, texts, tasks = valid(draw)
    kind = draw.choice(["valid", "valid", "bytes", "type", "shape", "name", "count"])
    inputs = {
        "text": tf.make_tensor_proto([t.encode() for t in texts], tf.string),
        "task": tf.make_tensor_proto(tasks, tf.string),
    }
    proto = inputs[draw.choice(["text", "task"])]
    if kind == "bytes":
        proto.string_val[0] = draw.randbytes(draw.choice([1, 10, 3000]))
    elif kind == "type":
        proto.dtype = draw.choice([1, 3, 5, 9, 10, 14, 20, 21, 22, 99, -4])
    elif kind == "shape":
        dims = proto.tensor_shape.dim
        dims[0].size = draw.choice([-5, -1, 0, 2**31, 2**62, len(texts) + 10**6])
        if draw.random() < 0.3:
            dims.add(size=draw.choice([0, 1, 2**40]))
    elif kind == "name":
        inputs[draw.choice(["", "Text", "☃" * 3000])] = inputs.pop("task")
    elif kind == "count":
        proto.string_val.append(b"one more")
        proto.tensor_shape.dim[0].size += 1
    code, answer = asker.grpc(predict_request(signature, **inputs))
    if kind == "valid":
        assert code == "OK", answer
        check(signature, texts, tasks, answer)
    elif kind in ("type", "name", "count"):
        assert code == "INVALID_ARGUMENT", answer
    assert code in ("OK", "INVALID_ARGUMENT"), answer
    if code != "OK":
        assert len(answer) > 10 and "Traceback" not in answer
    return kind, code


@pytest.mark.slow
def test_random_requests_are_answered_or_refused(server, asker):
    with concurrent.futures.ThreadPoolExecutor(THREADS) as clients:
        rest = clients.map(lambda i: over_rest(asker, i), range(REST))
        protos = clients.map(lambda i: over_grpc(asker, i), range(GRPC))
        results = [*rest, *protos]
    assert len(results) == REST + GRPC > 5000
    for kind in ("valid", "junk", "bytes", "removed", "path", "type", "shape", "name"):
        assert sum(k == kind for k, _ in results) > 100, kind
    for outcome in (200, 400, 404, "OK", "INVALID_ARGUMENT"):
        assert any(status == outcome for _, status in results), outcome
    assert asker.get("/healthz") == (200, {"status": "ok", "version": 1})
    assert server.engine.queue.in_flight == 0
