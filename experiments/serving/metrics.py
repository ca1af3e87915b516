"""What Prometheus can read of a server."""

import dataclasses
import time
from collections.abc import Callable

import prometheus_client as prometheus

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclasses.dataclass
class Call:
    """A request while it is served: what it asks is filled in once it is known."""

    api: str  # rest or grpc
    signature: str = "unknown"
    version: int | None = None
    began: float = dataclasses.field(default_factory=time.perf_counter)


class Metrics:
    """Counts requests, and measures how long they take and how they are batched.

    Args:
        in_flight: tells how many requests are being worked on.
        version: tells which version is served.
    """

    def __init__(
        self, in_flight: Callable[[], int], version: Callable[[], int]
    ) -> None:
        self.registry = prometheus.CollectorRegistry()
        options = {"registry": self.registry}
        self._requests = prometheus.Counter(
            "hypertf_requests",
            "Requests that were answered, refused ones too.",
            ["api", "signature", "status"],
            **options,
        )
        self._seconds = prometheus.Histogram(
            "hypertf_request_seconds",
            "From a request's arrival to its answer.",
            ["api", "signature"],
            buckets=SECONDS,
            **options,
        )
        self._rows = prometheus.Histogram(
            "hypertf_batch_rows",
            "Rows, with padding, of the batch that a request ran in.",
            ["signature"],
            buckets=ROWS,
            **options,
        )
        gauge = prometheus.Gauge(
            "hypertf_requests_in_flight", "Requests that run or wait.", **options
        )
        gauge.set_function(in_flight)
        gauge = prometheus.Gauge("hypertf_version", "Version served.", **options)
        gauge.set_function(version)

    def ended(self, call: Call, status: str) -> None:
        """Counts a request, whose status is "OK" or an error's code."""
        self._requests.labels(call.api, call.signature, status).inc()
        seconds = time.perf_counter() - call.began
        self._seconds.labels(call.api, call.signature).observe(seconds)

    def ran(self, call: Call, batch_rows: int | None) -> None:
        """Notes the size of the batch that a request ran in."""
        if batch_rows is not None:
            self._rows.labels(call.signature).observe(batch_rows)

    def text(self) -> bytes:
        """Writes all of it as Prometheus reads it."""
        return prometheus.generate_latest(self.registry)
