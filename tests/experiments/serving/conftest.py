"""A fake export and a server of it, made once for all tests of the folder."""

import pytest

from experiments.serving.server import Server, Settings
from tests.experiments.serving import fake_export
from tests.experiments.serving.asking import Asker


@pytest.fixture(scope="session")
def export(tmp_path_factory):
    """An export's folder with one version."""
    folder = tmp_path_factory.mktemp("exports") / "fake"
    warm_up = [
        fake_export.predict_request(name, text=["warm"], task=["nano/yes_no"])
        for name in ("serving_default", "classify", "encode")
    ]
    fake_export.write_export(folder, warm_up=warm_up)
    return folder


@pytest.fixture(scope="session")
def bare_export(tmp_path_factory):
    """An export that has nothing beside the model: no card, no warm-up."""
    folder = tmp_path_factory.mktemp("exports") / "fake"
    fake_export.write_export(folder, card=None)
    return folder


@pytest.fixture(scope="module")
def server(export):
    """A server of it, on free ports."""
    with Server(export, Settings(rest_port=0, grpc_port=0), say=lambda _: None) as made:
        yield made


@pytest.fixture(scope="module")
def asker(server):
    """Sends requests to the server as they are, and returns what came back."""
    with Asker(server) as made:
        yield made
