"""Which goldens there are: whatever lies in the shared folder."""

import pytest

from tests.conftest import shared_path


def golden_folders(pattern: str) -> list:
    """One pytest parameter for each folder of goldens with a file like `pattern`.

    `"hyperdecoder*/**/config.json"` gives every set of every variant.
    """
    return _parameters({path.parent for path in _files(pattern)})


def golden_files(pattern: str) -> list:
    """One pytest parameter for each file of the goldens like `pattern`."""
    return _parameters(_files(pattern))


def _files(pattern):
    goldens = shared_path("goldens")
    files = list(goldens.glob(pattern))
    assert files, f"{goldens} holds no {pattern}"
    return files


def _parameters(paths):
    goldens = shared_path("goldens")
    return [pytest.param(p, id=str(p.relative_to(goldens))) for p in sorted(paths)]
