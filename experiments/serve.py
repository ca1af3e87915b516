"""Serves an export on this machine, over TF Serving's own API, with a page to look at.

    python -m experiments.serve --export_dir=EXPORT
    python -m experiments.serve --export_dir=EXPORT --rest_port=0 --grpc_port=0

EXPORT holds the versions, EXPORT/1, EXPORT/2, ...: the newest is served, and a newer
one as soon as it is there. REST is TF Serving's, `/v1/models/NAME:predict` and so on,
gRPC its PredictionService; the page is at `/`, health at `/healthz`, metrics at
`/monitoring/prometheus/metrics`. Requests at the same time run in one batch. SIGTERM
ends what is in flight. It is for development: there is no password, and only this
machine is answered unless --host says otherwise.
"""

import os
import signal
import threading
import typing

from absl import app, flags

from experiments.runs import components, program

if typing.TYPE_CHECKING:
    from experiments.serving.server import Server


def serve(
    export_dir: str | os.PathLike,
    *,
    name: str | None = None,
    host: str = "127.0.0.1",
    rest_port: int = 8501,
    grpc_port: int = 8500,
    poll: float = 2,
    timeout: float = 60,
    max_requests: int = 256,
    max_body: float = 16,
    batching: bool = True,
    max_batch_size: int | None = None,
    batch_timeout_micros: int | None = None,
    max_enqueued_batches: int | None = None,
    num_batch_threads: int | None = None,
    wait: bool = True,
) -> "Server":
    """Serves an export until SIGTERM or Ctrl+C, or in the background.

    ```python
    from experiments.client import Client
    from experiments.serve import serve

    with serve("/tmp/export", rest_port=0, grpc_port=0, wait=False) as server:
        client = Client(url=server.url, model="export")
        print(client.predict(["It rains."], ["glue/cola"]))
    ```

    Args:
        export_dir: folder with the versions.
        name: of the model; by default the folder's.
        host: address to listen on; "0.0.0.0" lets other machines in.
        rest_port: of the REST API and the page; 0 takes a free one.
        grpc_port: of the gRPC API; 0 takes a free one.
        poll: seconds between two looks for a new version.
        timeout: seconds that a request may take; it may ask for fewer, by gRPC's
            deadline or the header X-Timeout-Seconds.
        max_requests: that run or wait at once; more are refused (429).
        max_body: megabytes of a request.
        batching: whether requests at the same time run together.
        max_batch_size: rows that run at once; this and what follows, by default as the
            version's batching_params.pbtxt says.
        batch_timeout_micros: how long a batch waits for more rows.
        max_enqueued_batches: batches of a signature that may wait.
        num_batch_threads: batches that run at once.
        wait: whether to return only when the server has ended.

    Returns:
        The server; with `wait=False` it runs until its `stop()`.
    """
    try:
        from experiments.serving.server import LOOPBACK, Server, Settings
    except ModuleNotFoundError as error:
        raise RuntimeError(
            f'serving needs {error.name}: pip install -e ".[serve]"'
        ) from error
    settings = Settings(
        name=name,
        host=host,
        rest_port=rest_port,
        grpc_port=grpc_port,
        poll=poll,
        timeout=timeout,
        max_requests=max_requests,
        max_body=max_body,
        batching=batching,
        max_batch_size=max_batch_size,
        batch_timeout_micros=batch_timeout_micros,
        max_enqueued_batches=max_enqueued_batches,
        num_batch_threads=num_batch_threads,
    )
    ended = threading.Event()
    if wait:
        _stop_on_signals(ended)
    server = Server(components.expand(export_dir), settings, say=_say)
    server.start()
    version = server.engine.versions.current.version
    _say(
        f"serving {server.engine.name} version {version}: {server.url}  "
        f"grpc {server.grpc_address}"
    )
    if host not in LOOPBACK:
        _say("other machines can ask it too, without a password")
    if wait:
        ended.wait()
        _say(f"stopping, {server.engine.queue.in_flight} requests in flight")
        if not server.stop():
            raise RuntimeError("some requests had not ended when the time was over")
    return server


def _say(line):
    print(line, flush=True)


def _stop_on_signals(ended):
    if threading.current_thread() is not threading.main_thread():
        return  # where Python takes no signals

    def stop(number, _):
        ended.set()
        signal.signal(number, signal.SIG_DFL)  # once more ends it at once

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _define(values):
    options = {"flag_values": values}
    flags.DEFINE_string("export_dir", None, "Folder with the versions.", **options)
    flags.DEFINE_string("name", None, "Of the model; the folder's.", **options)
    flags.DEFINE_string(
        "host", "127.0.0.1", "Address; 0.0.0.0 lets other machines in.", **options
    )
    flags.DEFINE_integer("rest_port", 8501, "Of REST and the page.", 0, **options)
    flags.DEFINE_integer("grpc_port", 8500, "Of gRPC; 0: a free one.", 0, **options)
    flags.DEFINE_float("poll", 2, "Seconds between looks for versions.", **options)
    flags.DEFINE_float("timeout", 60, "Seconds that a request may take.", **options)
    flags.DEFINE_integer("max_requests", 256, "Requests at once.", 1, **options)
    flags.DEFINE_float("max_body", 16, "Megabytes of a request.", **options)
    flags.DEFINE_boolean("batching", True, "Run requests together.", **options)
    flags.DEFINE_integer(
        "max_batch_size", None, "Rows that run at once; as the file says.", 1, **options
    )
    flags.DEFINE_integer(
        "batch_timeout_micros", None, "A batch's wait for more rows.", 0, **options
    )
    flags.DEFINE_integer(
        "max_enqueued_batches", None, "Batches that may wait.", 1, **options
    )
    flags.DEFINE_integer(
        "num_batch_threads", None, "Batches that run at once.", 1, **options
    )


def _call(values):
    if values.export_dir is None:
        raise app.UsageError("--export_dir is not set; expected an export's folder")
    names = ("name", "host", "rest_port", "grpc_port", "poll", "timeout")
    names += ("max_requests", "max_body", "batching", "max_batch_size")
    names += ("batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
    serve(values.export_dir, **program.given(values, *names))


if __name__ == "__main__":
    program.run("experiments.serve", _define, _call)
