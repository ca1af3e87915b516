"""The server as an object: started, asked on its ports, stopped."""

import asyncio
import dataclasses
import logging
import os
import threading
from collections.abc import Callable

from aiohttp import web

from experiments.serving.engine import Engine
from experiments.serving.grpc_services import GrpcServer
from experiments.serving.loaded_model import LoadedModel
from experiments.serving.metrics import Metrics
from experiments.serving.request_queue import RequestQueue
from experiments.serving.rest import RestApi
from experiments.serving.versions import Versions

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to serve.

    Args:
        name: of the model; by default the folder's.
        host: address to listen on.
        rest_port: of the REST API and the page; 0 takes a free one.
        grpc_port: of the gRPC API; 0 takes a free one.
        poll: seconds between two looks for a new version.
        timeout: seconds that a request may take.
        max_requests: that run or wait at once; more are refused.
        max_body: megabytes of a request.
        batching: whether requests at the same time run together.
        max_batch_size: rows that run at once; this and what follows, by default as the
            version's batching_params.pbtxt says.
        batch_timeout_micros: how long a batch waits for more rows.
        max_enqueued_batches: batches of a signature that may wait.
        num_batch_threads: batches that run at once.
    """

    name: str | None = None
    host: str = "127.0.0.1"
    rest_port: int = 8501
    grpc_port: int = 8500
    poll: float = 2
    timeout: float = 60
    max_requests: int = 256
    max_body: float = 16
    batching: bool = True
    max_batch_size: int | None = None
    batch_timeout_micros: int | None = None
    max_enqueued_batches: int | None = None
    num_batch_threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("poll", "timeout", "max_requests", "max_body"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)}, expected above 0")

    def load(self, path: str) -> LoadedModel:
        """Loads a version's folder as these settings ask."""
        names = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches")
        changes = {n: getattr(self, n) for n in (*names, "num_batch_threads")}
        return LoadedModel(path, batch=self.batching, **changes)


class Server:
    """Serves the versions of an export, in threads of this process.

    ```python
    with Server("/tmp/export", Settings(rest_port=0, grpc_port=0)) as server:
        print(server.url, server.grpc_address)
    ```

    Args:
        export_dir: folder with the versions.
        settings: how to serve.
        say: is told what happens, in one line.
    """

    def __init__(
        self,
        export_dir: str | os.PathLike,
        settings: Settings | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.settings = settings or Settings()
        self._say = say
        folder = os.path.abspath(os.fspath(export_dir))
        name = self.settings.name or os.path.basename(folder)
        if not name or set(name) & set("/:?#%"):
            raise ValueError(f"name={name!r}, expected one without / : ? # and %")
        versions = Versions(folder, self.settings.load, say)
        queue = RequestQueue(self.settings.max_requests, self.settings.timeout)
        metrics = Metrics(lambda: queue.in_flight, lambda: versions.current.version)
        self.engine = Engine(name, versions, queue, metrics)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rest")
        self._thread.daemon = True
        self._grpc = self._rest = None
        self._stopped = False

    @property
    def host(self) -> str:
        host = self.settings.host
        return f"[{host}]" if ":" in host else host

    @property
    def url(self) -> str:
        """Of the page; the REST API is below it."""
        return f"http://{self.host}:{self.rest_port}"

    @property
    def grpc_address(self) -> str:
        return f"{self.host}:{self.grpc_port}"

    def start(self) -> "Server":
        """Loads the newest version and answers; returns itself."""
        self.engine.versions.start()
        largest = int(self.settings.max_body * 2**20)
        self._thread.start()
        try:
            self._grpc = GrpcServer(
                self.engine, f"{self.host}:{self.settings.grpc_port}", largest
            )
            self._rest = self._in_loop(self._listen(largest))
        except OSError:
            self.stop()
            raise
        self.grpc_port = self._grpc.port
        self.rest_port = self._rest.addresses[0][1]
        self._grpc.start()
        self.engine.versions.watch(self.settings.poll)
        return self

    async def _listen(self, largest_body):
        application = RestApi(self.engine, largest_body).application
        quiet = logging.getLogger("experiments.serving.http")
        quiet.setLevel(logging.CRITICAL + 1)  # what clients send broken is no news
        runner = web.AppRunner(
            application, access_log=None, logger=quiet, shutdown_timeout=5
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, self.settings.host, self.settings.rest_port)
            await site.start()
        except OSError:
            await runner.cleanup()
            raise
        return runner

    def _in_loop(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def stop(self, grace: float = 30) -> bool:
        """Refuses new requests, ends those in flight and then the server.

        Args:
            grace: seconds that requests have to end.

        Returns:
            Whether all requests have ended.
        """
        if self._stopped:
            return True
        self._stopped = True
        if self._grpc is not None:
            self._grpc.refuse()
        ended = self.engine.queue.close(grace)
        if self._rest is not None:
            self._in_loop(self._rest.cleanup())
        if self._grpc is not None:
            self._grpc.stop(5)
        self.engine.versions.stop()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        return ended

    def __enter__(self) -> "Server":
        return self if self._thread.is_alive() else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
