"""What tests of the programs share."""

import pytest


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory):
    """Where the embedded tasks are written on first use, once for all tests."""
    return str(tmp_path_factory.mktemp("tfds"))
