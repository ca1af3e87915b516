"""Versions come and go while requests are answered, and none is lost."""

import gc
import os
import shutil
import threading
import time
import weakref

import pytest

from experiments.serving.errors import RequestError
from experiments.serving.server import Server, Settings
from experiments.serving.versions import Versions
from tests.experiments.serving.asking import Asker
from tests.experiments.serving.fake_export import predict_request, write_export


def until(condition, seconds=30):
    """Waits for something to become true."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it never became true"
        time.sleep(0.02)


@pytest.fixture
def folder(export, tmp_path):
    """A copy of the export, to add versions to."""
    return shutil.copytree(export, tmp_path / "fake")


@pytest.mark.slow
def test_a_new_version_is_taken_up_without_losing_a_request(folder):
    said, problems, seen = [], [], []
    ended = threading.Event()

    def keep_asking(asker, over_grpc):
        newest, number = 1, 0
        while not ended.is_set():
            number += 1
            inputs = {"text": [f"text {number}"], "task": ["nano/free"]}
            if over_grpc:
                code, answer = asker.grpc(predict_request(**inputs))
                outputs = answer if code == "OK" else {"output_text": [str(answer)]}
                text = outputs["output_text"][0]
                text = text.decode() if code == "OK" else text
            else:
                _, answer = asker.post({"inputs": inputs})
                text = answer.get("outputs", {"output_text": [str(answer)]})
                text = text["output_text"][0]
            rights = [f"v{v}|nano/free:text {number}" for v in range(newest, 4)]
            if text not in rights:  # nor does an older version come back
                problems.append(text)
            else:
                newest += rights.index(text)
            seen.append(newest)

    settings = Settings(rest_port=0, grpc_port=0, poll=0.05)
    with Server(folder, settings, said.append) as server, Asker(server) as asker:
        old = weakref.ref(server.engine.versions.current._loaded)
        clients = [
            threading.Thread(target=keep_asking, args=(asker, i % 2)) for i in range(4)
        ]
        slow = []
        body = {"inputs": {"text": ["3"], "task": ["nano/slow"]}}
        clients.append(threading.Thread(target=lambda: slow.append(asker.post(body))))
        for client in clients:
            client.start()
        for version in (2, 3):
            half_written = write_export(folder / "making.tmp", version)
            os.rename(half_written, folder / str(version))
            until(lambda version=version: max(seen) == version)
        until(lambda: slow)
        ended.set()
        for client in clients:
            client.join()
        assert problems == []
        assert len(seen) > 50 and set(seen) == {1, 2, 3}
        # Asked of version 1, and answered by it, after it was no longer served.
        assert slow[0][1]["outputs"]["output_text"] == ["v1|nano/slow:3"]
        until(lambda: "version 1 is unloaded" in said)
        gc.collect()
        assert old() is None
        states = asker.get("/v1/models/fake")[1]["model_version_status"]
        assert [(s["version"], s["state"]) for s in states] == [
            ("3", "AVAILABLE"),
            ("2", "END"),
            ("1", "END"),
        ]
        assert asker.post(body, "/v1/models/fake/versions/1:predict")[0] == 404


def test_a_broken_version_is_reported_and_the_old_one_goes_on(folder):
    said = []
    settings = Settings(rest_port=0, grpc_port=0, poll=1000)
    with Server(folder, settings, said.append) as server, Asker(server) as asker:
        versions = server.engine.versions
        (folder / "2").mkdir()
        versions.look()  # without a model it is not a version yet
        assert said == []
        (folder / "2/saved_model.pb").write_bytes(b"not a model")
        versions.look()
        (line,) = said
        assert line.startswith("version 2 cannot be served: ")
        assert line.endswith("; version 1 goes on")
        versions.look()
        assert len(said) == 1  # said once
        state = asker.get("/v1/models/fake/versions/2")[1]["model_version_status"][0]
        assert state["state"] == "END" and state["status"]["error_code"] == "UNKNOWN"
        body = {"inputs": {"text": ["a"], "task": ["nano/free"]}}
        assert asker.post(body)[1]["outputs"]["output_text"] == ["v1|nano/free:a"]
        shutil.rmtree(folder / "2")
        wrong = predict_request(text=["a"], task=["no/such"])
        write_export(folder, 2, warm_up=[wrong])
        versions.look()
        assert 'warm-up request 1: task "no/such" is unknown' in said[-1]
        os.remove(folder / "2/assets.extra/tf_serving_warmup_requests")
        versions.look()  # mended
        assert asker.post(body)[1]["outputs"]["output_text"] == ["v2|nano/free:a"]
        shutil.rmtree(folder / "2")
        versions.look()  # taken back
        assert asker.post(body)[1]["outputs"]["output_text"] == ["v1|nano/free:a"]


def test_warm_up_runs_what_lies_beside_the_model(server):
    assert server.engine.versions.current.warm_ups == 3


class Model:
    """As much of a model as `Versions` handles."""

    def __init__(self, path):
        self.version = int(os.path.basename(path))
        self.requests = 0
        self.loaded = True

    def unload(self):
        self.loaded = False


@pytest.fixture
def versions(tmp_path):
    made = Versions(str(tmp_path), Model, say=lambda _: None)
    made.add = lambda name: (
        (tmp_path / name).mkdir(),
        (tmp_path / name / "saved_model.pb").touch(),
    )
    return made


def test_only_plain_numbers_are_versions(versions):
    for name in ("1", "12", "007", "3.tmp", "tmp-4", "-5", "٣", str(2**63)):
        versions.add(name)
    assert versions.on_disk() == [12, 1]


def test_a_version_is_kept_while_it_is_used(versions):
    versions.add("1")
    versions.start()
    with versions.use() as first, versions.use(1) as same:
        assert first is same
        versions.add("2")
        versions.look()
        assert versions.current.version == 2
        assert first.loaded
        assert versions.status(1)[1].state == "UNLOADING"
        with versions.use(1) as again:
            assert again is first
    assert not first.loaded
    assert versions.status(1)[1].state == "END"
    with pytest.raises(RequestError, match="version 1 is not served, expected"):
        versions.use(1).__enter__()


def test_going_back_to_a_version_that_still_ends_its_requests(versions, tmp_path):
    versions.add("1")
    versions.start()
    with versions.use() as first:
        versions.add("2")
        versions.look()
        shutil.rmtree(tmp_path / "2")
        versions.look()
        with versions.use() as anew:
            assert anew.version == 1 and anew is not first
    assert not first.loaded and anew.loaded
    assert versions.status(1)[1].state == "AVAILABLE"


def test_nothing_to_serve_is_an_error(versions, tmp_path):
    with pytest.raises(ValueError, match="holds no version, expected folders such as"):
        versions.start()

    def fail(path):
        raise OSError(f"{path} is damaged")

    versions.add("1")
    broken = Versions(str(tmp_path), fail, say=lambda _: None)
    with pytest.raises(ValueError, match=r"version 1: .*is damaged"):
        broken.start()
