"""TF Serving's REST API: its forms, and its errors."""

import base64
import json
import math

import numpy as np
import pytest

from tests.experiments.serving.fake_export import LABELS, LONGEST, expected

ROWS = [("one", "nano/yes_no"), ("", "nano/three"), ("drei Füße", "nano/free")]
INSTANCES = [{"text": text, "task": task} for text, task in ROWS]
COLUMNS = {"text": [t for t, _ in ROWS], "task": [t for _, t in ROWS]}


def test_rows_are_answered_by_rows(asker):
    status, answer = asker.post({"instances": INSTANCES})
    assert status == 200
    assert list(answer) == ["predictions"]
    for (text, task), row in zip(ROWS, answer["predictions"], strict=True):
        want = expected("serving_default", text.encode(), task)
        assert row["output_text"] == want["output_text"].decode()
        assert row["trimmed"] is False
        assert np.float32(row["score"]) == want["score"]


def test_columns_are_answered_by_columns(asker):
    _, rows = asker.post({"instances": INSTANCES})
    status, answer = asker.post({"inputs": COLUMNS})
    assert status == 200
    columns = answer["outputs"]
    assert sorted(columns) == ["output_text", "score", "trimmed"]
    for name, values in columns.items():
        assert values == [row[name] for row in rows["predictions"]]


def test_a_single_output_loses_its_name(asker):
    by_row = asker.post({"signature_name": "shout", "instances": ["a", {"text": "b"}]})
    assert by_row == (200, {"predictions": ["A", "B"]})
    by_column = asker.post({"signature_name": "shout", "inputs": ["a", "b"]})
    assert by_column == (200, {"outputs": ["A", "B"]})
    named = asker.post({"signature_name": "shout", "inputs": {"text": ["a", "b"]}})
    assert named == by_column


def test_bytes_are_base64_both_ways(asker):
    broken = b"\xff\xfe broken"
    coded = {"b64": base64.b64encode(broken).decode()}
    fine = {"b64": base64.b64encode("fein ü".encode()).decode()}
    body = {"signature_name": "as_bytes", "inputs": [coded, fine]}
    assert asker.post(body)[1]["outputs"] == {
        "text": [coded, "fein ü"],
        "same_bytes": [coded, fine],  # as TF Serving does with such a name
    }


def test_labels_and_their_probabilities(asker):
    instances = [{"text": "12", "task": "nano/yes_no"}]
    body = {"signature_name": "classify", "instances": instances}
    (row,) = asker.post(body)[1]["predictions"]
    assert row == {
        "labels": ["yes", "no", ""],
        "probabilities": [0.25, 0.75, 0.0],
        "label": "no",
        "trimmed": False,
    }


def test_tokens_of_any_length(asker):
    for tokens in ([[5, 6, 7]], [[1], [2]]):
        columns = {"tokens": tokens, "task": ["nano/free"] * len(tokens)}
        body = {"signature_name": "tokens", "inputs": columns}
        outputs = asker.post(body)[1]["outputs"]
        assert outputs["score"] == [sum(row) for row in tokens]
        assert [row[: len(tokens[0])] for row in outputs["output_tokens"]] == [
            [2 * token for token in row] for row in tokens
        ]


def test_a_megabyte_of_text_is_trimmed_and_the_answer_says_so(asker):
    text = "ab" * 2**19
    instances = [{"text": text, "task": "nano/free"}, INSTANCES[0]]
    status, answer = asker.post({"instances": instances})
    assert status == 200
    long, short = answer["predictions"]
    assert long["trimmed"] is True and short["trimmed"] is False
    assert long["output_text"] == f"v1|nano/free:{text[:LONGEST]}"


def test_more_rows_than_a_batch_holds(asker):
    texts = [f"text {i}" for i in range(100)]
    body = {"inputs": {"text": texts, "task": ["nano/free"] * 100}}
    outputs = asker.post(body)[1]["outputs"]
    assert outputs["output_text"] == [f"v1|nano/free:{text}" for text in texts]


def test_state_metadata_and_card(asker):
    state = {"error_code": "OK", "error_message": ""}
    available = {"version": "1", "state": "AVAILABLE", "status": state}
    for path in ("/v1/models/fake", "/v1/models/fake/versions/1"):
        assert asker.get(path) == (200, {"model_version_status": [available]})
    for path in ("/v1/models/fake/metadata", "/v1/models/fake/versions/1/metadata"):
        status, metadata = asker.get(path)
        assert status == 200
        spec = {"name": "fake", "version": "1", "signature_name": ""}
        assert metadata["model_spec"] == spec
        definitions = metadata["metadata"]["signature_def"]["signature_def"]
        inputs = definitions["serving_default"]["inputs"]
        assert sorted(inputs) == ["task", "text"]
        assert inputs["text"]["dtype"] == "DT_STRING"
        assert inputs["text"]["tensor_shape"]["dim"][0]["size"] == "-1"
    card = asker.get("/card")[1]
    assert [task["name"] for task in card["tasks"]] == list(LABELS)
    assert card["signatures"]["tokens"]["inputs"] == ["task", "tokens"]


def row(**changes):
    return {"instances": [{**INSTANCES[0], **changes}]}


def tokens(value, **more):
    body = {"tokens": value, "task": ["nano/free"], **more}
    return {"signature_name": "tokens", "inputs": body}


REFUSED = {
    "broken JSON": (b'{"instances": [', "not JSON"),
    "not UTF-8": (b'{"instances": ["\xff"]}', "not UTF-8"),
    "too deep": (b"[" * 100_000, "too deep"),
    "no object": (b"[1]", "[1]"),
    "neither": ({"signature_name": "classify"}, "instances"),
    "both": ({"instances": INSTANCES, "inputs": COLUMNS}, "either"),
    "no rows": ({"instances": []}, "has no rows"),
    "no list": ({"instances": {"text": "a"}}, "expected a list of rows"),
    "signature": (
        {"signature_name": "no_such", "instances": INSTANCES},
        'signature_name "no_such" is unknown, expected one of as_bytes, classify',
    ),
    "signature's type": ({"signature_name": 3, **row()}, "signature_name is 3"),
    "task": (
        row(task="nano/nine"),
        'task "nano/nine" is unknown, expected one of nano',
    ),
    "task without labels": (
        {"signature_name": "classify", **row(task="nano/free")},
        'task "nano/free" has no labels to classify, expected one of nano/yes_no',
    ),
    "missing": ({"instances": [{"text": "a"}]}, 'instances[0] has "text", expected'),
    "additional": (row(extra="a"), '"extra"'),
    "bare": ({"instances": ["a"]}, "expected one with task, text"),
    "number for text": (row(text=7), 'input "text" has 7, expected a string'),
    "null": (row(text=None), 'input "text" has None'),
    "list for text": (row(text=["a"]), "expected a string"),
    "base64": (row(text={"b64": "?"}), '"?", which is not base64'),
    "half a character": (row(text="\ud800"), "half of a character"),
    "counts": (
        {"inputs": {"text": ["a", "b"], "task": ["nano/free"]}},
        "inputs differ in rows: text 2, task 1",
    ),
    "scalar": ({"inputs": {"text": "a", "task": ["nano/free"]}}, "expected a list"),
    "ragged": (tokens([[1, 2], [3]]), "rows of 1 and of 2 values"),
    "float for int": (tokens([[1.5]]), "1.5, expected a whole number"),
    "bool for int": (tokens([[True]]), "True, expected a whole number"),
    "int too large": (tokens([[2**31]]), "expected int32"),
    "too many rows": (
        {"inputs": {"text": ["a"] * 5000, "task": ["nano/free"] * 5000}},
        "5000 rows, expected at most 2048",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_named(asker, case):
    body, said = REFUSED[case]
    status, answer = asker.post(body)
    assert status == 400
    assert list(answer) == ["error"]
    assert said in answer["error"]


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("POST", "/v1/models/other:predict", 404, 'model "other" is not served'),
        ("GET", "/v1/models/other", 404, 'expected "fake"'),
        ("POST", "/v1/models/fake/versions/7:predict", 404, "version 7 is not served"),
        ("GET", "/v1/models/fake/versions/7", 404, "version 7"),
        ("GET", "/v1/models/fake/versions/x", 400, "expected a number"),
        ("GET", "/v1/models/fake/labels/stable", 400, '"stable"'),
        ("POST", "/v1/models/fake:classify", 400, "expected :predict"),
        ("GET", "/v1/models/fake:predict", 404, "POST"),
        ("GET", "/v1/models/a/b/c", 404, "expected /v1/models/NAME"),
        ("GET", "/no/such/page", 404, "/no/such/page"),
        ("DELETE", "/v1/models/fake", 405, "Method Not Allowed"),
    ],
)
def test_paths_that_lead_nowhere(asker, method, path, status, said):
    body = json.dumps({"inputs": COLUMNS}) if method == "POST" else None
    got, answer = asker.http(method, path, body)
    assert got == status
    assert said in json.loads(answer)["error"]


def test_a_body_that_is_too_large_or_not_what_it_says(asker):
    status, answer = asker.post(b" " * (17 * 2**20))
    assert status == 413
    assert "too large" in answer["error"]
    status, answer = asker.post(b"{}", headers={"Content-Encoding": "gzip"})
    assert status == 400
    assert "cannot be read" in answer["error"]


def test_numbers_have_the_digits_of_their_precision(asker):
    body = {"signature_name": "encode", **row(text="abc")}
    vector = asker.post(body)[1]["predictions"][0]["vector"]
    assert vector == [3.0, 0.3, -9.0]


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinity_is_written_as_tf_serving_does(value):
    from experiments.serving import json_tensors

    outputs = {"score": np.array([value, math.nan, 0.1], np.float32)}
    written = json.dumps(json_tensors.to_json(outputs, rows=False))
    assert written == f'{{"outputs": [{"-" * (value < 0)}Infinity, NaN, 0.1]}}'
