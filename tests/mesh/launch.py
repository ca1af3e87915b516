"""Programs of this folder in processes of their own, one alone or two as one mesh."""

import json
import os
import socket
import subprocess
import sys
import tempfile

import hypertf
from tests.conftest import ROOT

# `make test-mesh` sets it: otherwise a few methods stand for all.
EVERY_METHOD = "EVERY_METHOD" in os.environ
SECONDS = 3600 if EVERY_METHOD else 900


def some(*methods):
    """The names of these methods, or of all that are registered."""
    if not EVERY_METHOD:
        return methods
    return (*methods, *(n for n in hypertf.conditioning.names() if n not in methods))


def alone(program, *arguments):
    """What a program of `tests.mesh` printed, and its last line read as JSON."""
    (result,) = _together([_start(program, arguments)])
    return result


def in_two_processes(program, *arguments):
    """What each of two processes printed that make one mesh, as `alone` gives it."""
    ports = sorted(_free_port() for _ in range(2))
    common = {
        "DTENSOR_JOBS": ",".join(f"localhost:{port}" for port in ports),
        "DTENSOR_NUM_CLIENTS": "2",
        "DTENSOR_JOB_NAME": "worker",
    }
    return _together(
        [
            _start(program, arguments, **common, DTENSOR_CLIENT_ID=str(i))
            for i in range(2)
        ]
    )


def _start(program, arguments, **environment):
    # Files: a pipe that nobody empties yet would stop a process that others wait for.
    printed, errors = map(tempfile.TemporaryFile, ("w+", "w+"))
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.mesh.{program}", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=printed,
        stderr=errors,
    )
    return process, printed, errors


def _together(started):
    try:
        return [_result(*each) for each in started]
    finally:
        for process, printed, errors in started:
            process.kill()
            process.wait()
            printed.close()
            errors.close()


def _result(process, printed, errors):
    process.wait(timeout=SECONDS)
    for file in (printed, errors):
        file.seek(0)
    text = printed.read()
    assert process.returncode == 0, errors.read()[-5000:]
    return text, json.loads(text.splitlines()[-1])


def _free_port():
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        return taken.getsockname()[1]
