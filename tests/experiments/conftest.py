"""What tests of the programs share."""

import pytest

from tests.helpers import shallow_nano


@pytest.fixture(scope="module")
def shallow():
    """`t5-nano` has one layer in each stack while the tests of a file run."""
    with shallow_nano():
        yield
