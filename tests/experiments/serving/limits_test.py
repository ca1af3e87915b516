"""A full queue, a deadline, a wrong setting: refused, and the server goes on."""

import collections
import concurrent.futures
import time

import pytest

from experiments.serving.server import Server, Settings
from tests.experiments.serving.asking import Asker
from tests.experiments.serving.fake_export import predict_request

SLOW = {"inputs": {"text": ["0.3"], "task": ["nano/slow"]}}
QUICK = {"inputs": {"text": ["a"], "task": ["nano/free"]}}
ONE_BY_ONE = {"max_batch_size": 1, "num_batch_threads": 1}


def started(export, **settings):
    settings = Settings(rest_port=0, grpc_port=0, **settings)
    return Server(export, settings, say=lambda _: None)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_enqueued_batches": 2}, 'the queue of "serving_default" is full'),
        ({"max_requests": 3}, "3 requests are in flight"),
    ],
    ids=["batches", "requests"],
)
def test_a_full_queue_refuses(export, settings, said):
    with started(export, **ONE_BY_ONE, **settings) as server, Asker(server) as asker:

        def over_http(_):
            status, answer = asker.post(SLOW)
            return status, answer.get("error", "")

        def over_grpc(_):
            request = predict_request(text=["0.3"], task=["nano/slow"])
            code, answer = asker.grpc(request)
            return code, answer if code != "OK" else ""

        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            answers = [
                *clients.map(over_http, range(8)),
                *clients.map(over_grpc, range(8)),
            ]
        codes = collections.Counter(code for code, _ in answers)
        assert set(codes) == {200, 429, "OK", "RESOURCE_EXHAUSTED"}
        refused = {m for c, m in answers if c in (429, "RESOURCE_EXHAUSTED")}
        assert len(refused) == 1 and said in refused.pop()
        assert asker.post(QUICK)[0] == 200
        assert server.engine.queue.in_flight == 0


def test_deadlines(export):
    with started(export, timeout=0.4) as server, Asker(server) as asker:
        slow = {"inputs": {"text": ["1.5"], "task": ["nano/slow"]}}
        began = time.perf_counter()
        sooner = asker.post(slow, headers={"X-Timeout-Seconds": "0.1"})
        assert sooner == (504, {"error": "there was no answer within 0.1 seconds"})
        later = asker.post(slow, headers={"X-Timeout-Seconds": "100"})
        assert later == (504, {"error": "there was no answer within 0.4 seconds"})
        assert time.perf_counter() - began < 1.4
        request = predict_request(text=["1.5"], task=["nano/slow"])
        assert asker.grpc(request, timeout=None) == (
            "DEADLINE_EXCEEDED",
            "there was no answer within 0.4 seconds",
        )
        for wrong in ("soon", "-1", "0", "nan"):
            status, answer = asker.post(QUICK, headers={"X-Timeout-Seconds": wrong})
            assert status == 400
            assert f'X-Timeout-Seconds is "{wrong}"' in answer["error"]


def test_work_whose_time_is_over_is_not_begun():
    from experiments.serving.errors import RequestError
    from experiments.serving.request_queue import RequestQueue

    queue = RequestQueue(most=2, timeout=1)
    done = []
    future = queue.submit(lambda: done.append(1), seconds=-1)
    with pytest.raises(RequestError, match="no answer"):
        future.result()
    assert not done
    assert queue.close(1)
    with pytest.raises(RequestError, match="shutting down"):
        queue.submit(lambda: None, seconds=1)


def test_a_port_in_use_is_an_error(server, export):
    for name in ("rest_port", "grpc_port"):
        ports = {"rest_port": 0, "grpc_port": 0, name: getattr(server, name)}
        with pytest.raises(OSError, match=str(getattr(server, name))):
            Server(export, Settings(**ports), say=lambda _: None).start()


def test_only_this_machine_is_answered_unless_told(server):
    assert server.url.startswith("http://127.0.0.1:")
    assert server.grpc_address.startswith("127.0.0.1:")
    (address,) = {host for host, _ in server._rest.addresses}
    assert address == "127.0.0.1"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"timeout": 0}, "timeout=0, expected above 0"),
        ({"max_batch_size": 0}, "max_batch_size=0, expected at least 1"),
        ({"name": "a/b"}, "name='a/b', expected one without /"),
    ],
)
def test_wrong_settings_are_named(export, settings, said):
    with pytest.raises(ValueError, match=said):
        started(export, **settings).start()


def test_metrics(export):
    with started(export) as server, Asker(server) as asker:
        for _ in range(3):
            asker.post(QUICK)
        asker.grpc(predict_request(text=["a"], task=["nano/free"]))
        asker.post({"inputs": {"text": ["a"], "task": ["no"]}})
        asker.post({"signature_name": "made up", **QUICK})
        asker.post(b"{")
        status, body = asker.http("GET", "/monitoring/prometheus/metrics")
        assert status == 200
        lines = body.decode().splitlines()
        count = "hypertf_requests_total{{api={},signature={},status={}}} {}"
        default = '"serving_default"'
        for values in [
            ('"rest"', default, '"OK"', "3.0"),
            ('"grpc"', default, '"OK"', "1.0"),
            ('"rest"', default, '"INVALID_ARGUMENT"', "1.0"),
            ('"rest"', '"unknown"', '"INVALID_ARGUMENT"', "2.0"),
        ]:
            assert count.format(*values) in lines
        seconds = 'hypertf_request_seconds_count{api="rest",signature='
        assert f"{seconds}{default}}} 4.0" in lines
        assert f"hypertf_batch_rows_count{{signature={default}}} 4.0" in lines
        assert "hypertf_requests_in_flight 0.0" in lines
        assert "hypertf_version 1.0" in lines


def test_health_until_it_ends(export):
    server = started(export).start()
    with Asker(server) as asker:
        assert asker.get("/healthz") == (200, {"status": "ok", "version": 1})
        server.engine.queue.closed = True
        status, answer = asker.get("/healthz")
        assert (status, answer["error"]) == (503, "the server is shutting down")
        status, answer = asker.post(QUICK)
        assert (status, answer["error"]) == (503, "the server is shutting down")
        request = predict_request(text=["a"], task=["nano/free"])
        assert asker.grpc(request) == ("UNAVAILABLE", "the server is shutting down")
    assert server.stop()
