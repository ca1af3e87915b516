"""Many clients at once: every request gets its own answer, and batches are made."""

import collections
import concurrent.futures
import random

import numpy as np
import pytest

from experiments.serving.server import Server, Settings
from tests.experiments.serving.asking import Asker
from tests.experiments.serving.fake_export import (
    LABELS,
    TASKS,
    expected,
    predict_request,
)

CLIENTS = 32
ASKED = ["serving_default", "classify", "encode"]
FAST = [task for task in TASKS if task != "nano/slow"]
LABELLED = [task for task in TASKS if LABELS[task]]


def ask(asker, number):
    """Sends request `number` and returns whether its answer is its own."""
    draw = random.Random(number)
    signature = draw.choice(ASKED)
    rows = draw.randint(1, 3)
    tasks = draw.choices(LABELLED if signature == "classify" else FAST, k=rows)
    texts = [f"text {number}.{row} " + "x" * draw.randint(0, 20) for row in range(rows)]
    if draw.random() < 0.5:
        request = predict_request(signature, text=texts, task=tasks)
        code, outputs = asker.grpc(request)
        assert code == "OK", outputs
    else:
        inputs = {"text": texts, "task": tasks}
        status, answer = asker.post({"signature_name": signature, "inputs": inputs})
        assert status == 200, answer
        outputs = {name: to_array(v) for name, v in answer["outputs"].items()}
    for i in range(rows):
        wanted = expected(signature, texts[i].encode(), tasks[i])
        for name, value in wanted.items():
            np.testing.assert_array_equal(outputs[name][i], value, str(number))
    return signature


def to_array(values):
    array = np.array(values)
    if array.dtype.kind == "U":
        return np.char.encode(array, "utf-8").astype(object)
    return array.astype("float32") if array.dtype.kind == "f" else array


@pytest.mark.slow
def test_no_answer_is_lost_or_swapped(server, asker):
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        answered = list(clients.map(lambda i: ask(asker, i), range(2000)))
    assert collections.Counter(answered) == {s: batch_rows(server, s)[0] for s in ASKED}


def started(folder, settings):
    return Server(folder, settings, say=lambda _: None)


def batch_rows(server, signature):
    """How many requests ran in batches, and the sum of the sizes of these."""
    value = server.engine.metrics.registry.get_sample_value
    names = ("hypertf_batch_rows_count", "hypertf_batch_rows_sum")
    return tuple(value(name, {"signature": signature}) for name in names)


def test_requests_at_the_same_time_run_as_one_batch(bare_export):
    settings = {"max_batch_size": 8, "batch_timeout_micros": 5_000_000}
    settings = Settings(rest_port=0, grpc_port=0, **settings)
    with started(bare_export, settings) as server, Asker(server) as asker:
        body = {"instances": [{"text": "a", "task": "nano/free"}]}
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            answers = list(clients.map(lambda _: asker.post(body), range(8)))
        assert answers == [answers[0]] * 8
        assert batch_rows(server, "serving_default") == (8, 64)


@pytest.fixture(scope="module")
def without_card(bare_export):
    """A server that does not know the tasks of its model."""
    settings = Settings(rest_port=0, grpc_port=0, batch_timeout_micros=20_000)
    with started(bare_export, settings) as made, Asker(made) as asker:
        yield asker


def test_a_wrong_request_does_not_spoil_the_batch_it_is_in(without_card):
    def ask_right_or_wrong(number):
        if number % 8:
            return ask(without_card, number)
        row = {"text": "a", "task": f"nano/no_{number}"}
        status, answer = without_card.post({"instances": [row]})
        assert status == 400
        assert f"[unknown task] [nano/no_{number}] [expected one of]" in answer["error"]
        assert all(task in answer["error"] for task in TASKS)
        assert "node" not in answer["error"]
        return "refused"

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        results = list(clients.map(ask_right_or_wrong, range(400)))
    assert results.count("refused") == 50


def test_without_batches_the_answers_are_the_same(export):
    settings = Settings(rest_port=0, grpc_port=0, batching=False)
    with started(export, settings) as server:
        model = server.engine.versions.current
        assert not any(s.is_batched for s in model.signatures.values())
        with Asker(server) as asker:
            for number in range(20):
                ask(asker, number)
