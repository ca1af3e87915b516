"""The server as a user starts it, until SIGTERM comes while there is work to do."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from tests.conftest import ROOT


@pytest.fixture
def process(export):
    """A server in a process of its own, and its address."""
    flags = [f"--export_dir={export}", "--rest_port=0", "--grpc_port=0"]
    made = subprocess.Popen(
        [sys.executable, "-m", "experiments.serve", *flags],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = made.stdout.readline()
        match = re.fullmatch(r"serving fake version 1: (\S+)  grpc \S+\n", line)
        assert match, line + made.stderr.read()
        yield made, match[1]
    finally:
        made.kill()
        made.communicate()


def ask(url, text, task):
    content = {"inputs": {"text": [text], "task": [task]}}
    data = json.dumps(content).encode()
    try:
        with urllib.request.urlopen(f"{url}/v1/models/fake:predict", data) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.slow
def test_sigterm_ends_what_is_in_flight(process):
    server, url = process
    slow = []
    thread = threading.Thread(target=lambda: slow.append(ask(url, "2", "nano/slow")))
    thread.start()
    ends = time.monotonic() + 10
    in_flight = f"{url}/monitoring/prometheus/metrics"
    while b"in_flight 1.0" not in urllib.request.urlopen(in_flight).read():
        assert time.monotonic() < ends
    server.send_signal(signal.SIGTERM)
    assert server.stdout.readline() == "stopping, 1 requests in flight\n"
    status, answer = ask(url, "a", "nano/free")
    assert (status, answer) == (503, {"error": "the server is shutting down"})
    assert not slow  # still in flight
    thread.join()
    assert slow[0][1]["outputs"]["output_text"] == ["v1|nano/slow:2"]
    assert server.wait(30) == 0
    assert server.stderr.read() == ""
    with pytest.raises(urllib.error.URLError):
        ask(url, "a", "nano/free")
