"""The versions in an export's folder: the newest is served, newer ones as they come.

EXPORT/1/saved_model.pb ...
EXPORT/2/...             a folder that is not a number is none of ours
"""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Iterator

from experiments.serving.errors import RequestError, invalid
from experiments.serving.loaded_model import LoadedModel

LARGEST = 2**63 - 1


@dataclasses.dataclass
class VersionStatus:
    """What is known of a version, in TF Serving's words."""

    state: str  # LOADING, AVAILABLE, UNLOADING or END
    error: str = ""


class Versions:
    """Loads the newest version of a folder, and switches when there is a newer one.

    Args:
        folder: holds the numbered versions.
        load: makes a model of a version's folder.
        say: is told what happens, in one line.
    """

    def __init__(
        self,
        folder: str,
        load: Callable[[str], LoadedModel],
        say: Callable[[str], None] = print,
    ) -> None:
        self.folder, self._load, self._say = folder, load, say
        self.statuses: dict[int, VersionStatus] = {}
        self.current: LoadedModel | None = None
        self._models: dict[int, LoadedModel] = {}  # in memory
        self._retired: list[LoadedModel] = []  # of these, with requests to end
        self._broken: dict[int, list] = {}  # as its files were
        self._lock = threading.Lock()
        self._ended, self._watcher = threading.Event(), None

    def on_disk(self) -> list[int]:
        """Lists the versions in the folder, newest first."""
        if not os.path.isdir(self.folder):
            return []
        names = [n for n in os.listdir(self.folder) if n.isascii() and n.isdigit()]
        names = [n for n in names if str(int(n)) == n and int(n) <= LARGEST]
        written = os.path.join(self.folder, "{}", "saved_model.pb")
        versions = [int(n) for n in names if os.path.exists(written.format(n))]
        return sorted(versions, reverse=True)

    def _files(self, version):
        """What a version's folder holds, to see whether that has changed."""
        paths = [
            os.path.join(folder, name)
            for folder, _, names in os.walk(os.path.join(self.folder, str(version)))
            for name in names
        ]
        stats = [(path, os.stat(path)) for path in sorted(paths)]
        return [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]

    def start(self) -> None:
        """Loads the newest version that can be loaded; an error if there is none."""
        self.look()
        if self.current is not None:
            return
        if self._broken:
            newest = max(self._broken)
            raise ValueError(
                f"{self.folder}: no version can be served; version {newest}: "
                f"{self.statuses[newest].error}"
            )
        raise ValueError(
            f"{self.folder} holds no version, expected folders such as "
            f"{os.path.join(self.folder, '1', 'saved_model.pb')}"
        )

    def look(self) -> None:
        """Serves the newest version on disk, unless it cannot be loaded."""
        for version in self.on_disk():
            if self.current is not None and version == self.current.version:
                return
            broken = self._broken.get(version)
            if broken is not None and broken == self._files(version):
                continue
            if self._try(version):
                return

    def _try(self, version):
        """Loads a version and switches to it; returns whether that went well."""
        files = self._files(version)  # before: they may be still in the writing
        self.statuses[version] = VersionStatus("LOADING")
        try:
            model = self._load(os.path.join(self.folder, str(version)))
        except Exception as error:  # whatever is wrong with it, the old one goes on
            said = " ".join(str(error).split())[:500] or type(error).__name__
            self.statuses[version] = VersionStatus("END", said)
            self._broken[version] = files
            served = "" if self.current is None else self.current.version
            goes_on = served and f"; version {served} goes on"
            self._say(f"version {version} cannot be served: {said}{goes_on}")
            return False
        self._broken.pop(version, None)
        self._switch(model)
        return True

    def _switch(self, model):
        with self._lock:
            old, self.current = self.current, model
            self._models[model.version] = model
            self.statuses[model.version] = VersionStatus("AVAILABLE")
            if old is not None:
                self.statuses[old.version] = VersionStatus("UNLOADING")
                self._retired.append(old)
        if old is not None:
            self._say(f"version {model.version} is served now")
            self._unload_if_unused(old)

    def _unload_if_unused(self, model):
        with self._lock:
            if model.requests or model not in self._retired:
                return
            self._retired.remove(model)
            if self._models.get(model.version) is model:
                del self._models[model.version]
                self.statuses[model.version] = VersionStatus("END")
        model.unload()
        self._say(f"version {model.version} is unloaded")

    @contextlib.contextmanager
    def use(self, version: int | None = None) -> Iterator[LoadedModel]:
        """Holds on to a version, by default the newest, while a request runs.

        Args:
            version: number; None for the newest.
        """
        with self._lock:
            model = self.current if version is None else self._models.get(version)
            if model is None:
                served = ", ".join(map(str, self._models)) or "none"
                raise RequestError(
                    "NOT_FOUND",
                    f"version {version} is not served, expected one of {served}",
                )
            model.requests += 1
        try:
            yield model
        finally:
            with self._lock:
                model.requests -= 1
            self._unload_if_unused(model)

    def status(self, version: int | None = None) -> dict[int, VersionStatus]:
        """Returns the status of one version, or of all that were ever loaded."""
        statuses = dict(self.statuses)
        if version is None:
            return statuses
        if version not in statuses:
            raise RequestError("NOT_FOUND", f"version {version} is unknown")
        return {version: statuses[version]}

    def watch(self, seconds: float) -> None:
        """Looks for versions every so many seconds, until `stop`."""

        def go_on_looking():
            while not self._ended.wait(seconds):
                try:
                    self.look()
                except OSError as error:  # the disk may come back
                    self._say(f"cannot read {self.folder}: {error}")

        self._watcher = threading.Thread(target=go_on_looking, name="versions")
        self._watcher.daemon = True
        self._watcher.start()

    def stop(self) -> None:
        """Ends `watch`, after the load that is under way."""
        self._ended.set()
        if self._watcher is not None:
            self._watcher.join()


def parse_version(text: str) -> int:
    """Reads the version of a request.

    >>> parse_version("12")
    12
    """
    if not (text.isascii() and text.isdigit() and int(text) <= LARGEST):
        raise invalid(f"version {text[:60]!r}, expected a number")
    return int(text)
