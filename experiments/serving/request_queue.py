"""Requests that are being worked on: so many and no more, each until its deadline."""

import concurrent.futures
import threading
import time
from collections.abc import Callable

from experiments.serving.errors import RequestError


class RequestQueue:
    """Runs each request in a thread of its own, where it may wait for its batch.

    Args:
        most: requests at once; one more is refused.
        timeout: seconds that a request may take at most.
    """

    def __init__(self, most: int, timeout: float) -> None:
        self.most, self.timeout = most, timeout
        self.in_flight = 0
        self.closed = False
        self._changed = threading.Condition()
        self._threads = concurrent.futures.ThreadPoolExecutor(most, "request")

    def submit(
        self, work: Callable[[], object], seconds: float
    ) -> concurrent.futures.Future:
        """Starts work that is to be done within so many seconds.

        Args:
            work: is not begun if its time is over before a thread is free.
            seconds: from now.
        """
        with self._changed:
            if self.closed:
                raise RequestError("UNAVAILABLE", "the server is shutting down")
            if self.in_flight >= self.most:
                raise RequestError(
                    "RESOURCE_EXHAUSTED",
                    f"{self.in_flight} requests are in flight, the most there may be; "
                    "try again later",
                )
            self.in_flight += 1
        ends = time.monotonic() + seconds

        def run():
            if time.monotonic() > ends:
                raise too_late(seconds)
            return work()

        future = self._threads.submit(run)
        future.add_done_callback(self._done)
        return future

    def _done(self, _):
        with self._changed:
            self.in_flight -= 1
            self._changed.notify_all()

    def seconds(self, asked: float | None) -> float:
        """How long a request may take, if it asked for so many seconds."""
        return self.timeout if asked is None else min(asked, self.timeout)

    def close(self, seconds: float) -> bool:
        """Refuses what comes, and waits for what is there; returns whether it ended."""
        with self._changed:
            self.closed = True
            ended = self._changed.wait_for(lambda: not self.in_flight, seconds)
        self._threads.shutdown(wait=ended, cancel_futures=True)
        return ended


def too_late(seconds: float) -> RequestError:
    """Makes the error of a request whose time is over."""
    return RequestError(
        "DEADLINE_EXCEEDED", f"there was no answer within {seconds:g} seconds"
    )
