"""Starts TensorFlow without the log of its C++ parts, which says nothing of a run."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

LEVEL, SILENT = "TF_CPP_MIN_LOG_LEVEL", "3"


def start_tensorflow() -> None:
    """Imports TensorFlow silently, unless TF_CPP_MIN_LOG_LEVEL asks for its log."""
    silent = os.environ.setdefault(LEVEL, SILENT) == SILENT
    if "tensorflow" in sys.modules:
        return
    # Some lines come before TensorFlow has looked at its level.
    with kept_back() if silent else contextlib.nullcontext():
        import tensorflow  # noqa: F401


@contextlib.contextmanager
def kept_back() -> Iterator[None]:
    """Keeps back what is written to stderr, from C++ too; shows it after an error."""
    try:
        stderr = os.dup(2)
    except OSError:  # there is none
        yield
        return
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(stderr, 2)
            file.seek(0)
            os.write(2, file.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
