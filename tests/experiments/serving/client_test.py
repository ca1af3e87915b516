"""The client asks over either API, and says what it cannot ask."""

import io
import json
import shutil

import pytest
from absl import flags

from experiments import client as client_program
from experiments.client import Client, client
from experiments.serve import serve
from experiments.serving.server import Server, Settings
from experiments.serving.transports import ServerError
from tests.experiments.serving.fake_export import CARD, LONGEST, expected, write_export

TEXTS = ["one", "", "drei Füße", "x" * 1500]


@pytest.fixture(params=["url", "grpc"])
def address(request, server):
    return {"url": {"url": server.url}, "grpc": {"grpc": server.grpc_address}}[
        request.param
    ]


@pytest.mark.parametrize("signature", ["serving_default", "classify", "encode"])
def test_both_ways_give_the_same_rows(server, signature):
    tasks = ["nano/yes_no", "nano/three"] * 2
    with (
        Client(url=server.url, model="fake") as rest,
        Client(grpc=server.grpc_address, model="fake") as over_grpc,
    ):
        rows = rest.predict(TEXTS, tasks, signature=signature)
        assert rows == over_grpc.predict(TEXTS, tasks, signature=signature)
    wanted = [
        expected(signature, t.encode(), k) for t, k in zip(TEXTS, tasks, strict=True)
    ]
    assert [row["trimmed"] for row in rows] == [want["trimmed"] for want in wanted]
    if signature == "serving_default":
        texts = [want["output_text"].decode() for want in wanted]
        assert [row["output_text"] for row in rows] == texts


def test_a_single_output_has_its_name(address):
    with Client(model="fake", **address) as model:
        assert model.predict(["a"], signature="shout") == [{"shout": "A"}]


def test_what_cannot_be_asked_is_said_before_asking(address):
    with Client(model="fake", **address) as model:
        with pytest.raises(ValueError, match="takes task, text; given are text"):
            model.predict(["a"])
        with pytest.raises(ValueError, match="2 tasks for 1 texts"):
            model.predict(["a"], ["nano/free"] * 2)
        with pytest.raises(ValueError, match="signature='no', expected one of as_by"):
            model.predict(["a"], signature="no")
        assert model.predict([], []) == []


def test_what_the_server_says_is_passed_on(address, server):
    with Client(model="fake", **address) as model:
        with pytest.raises(ServerError, match='task "no" is unknown') as caught:
            model.predict(["a"], "no")
        assert caught.value.code in (400, "INVALID_ARGUMENT")
    with (
        Client(model="other", **address) as model,
        pytest.raises(ServerError, match='model "other" is not served'),
    ):
        model.predict(["a"], "nano/free")
    with (
        Client(model="fake", timeout=0.2, **address) as model,
        pytest.raises((ServerError, TimeoutError)),
    ):
        model.predict(["1"], "nano/slow")


def test_nobody_there():
    for address in ({"url": "http://127.0.0.1:1"}, {"grpc": "127.0.0.1:1"}):
        with (
            Client(model="fake", timeout=5, **address) as model,
            pytest.raises((ConnectionError, ServerError), match=r"127\.0\.0\.1:1"),
        ):
            model.predict(["a"], "nano/free")


def test_answers_are_printed_in_order(address, capsys):
    texts = [f"text {i}" for i in range(7)] + ["x" * (LONGEST + 1)]
    rows = client(texts, model="fake", task="nano/free", batch_size=3, **address)
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        f"v1|nano/free:{text[:LONGEST]}" for text in texts
    ]
    assert printed.err == "text 8 was too long: its end was dropped\n"
    assert [row["output_text"] for row in rows] == printed.out.splitlines()
    client(["ab"], model="fake", task="nano/yes_no", signature="classify", **address)
    row = json.loads(capsys.readouterr().out)
    assert (row["label"], row["probabilities"][1]) == ("no", 0.75)


def test_the_command_line(address, capsys, monkeypatch):
    values = flags.FlagValues()
    client_program._define(values)
    ((name, where),) = address.items()
    values(["client", f"--{name}={where}", "--model=fake", "--task=nano/free"])
    monkeypatch.setattr("sys.stdin", io.StringIO("first line\n\nlast"))
    client_program._call(values)
    lines = ["v1|nano/free:first line", "v1|nano/free:", "v1|nano/free:last"]
    assert capsys.readouterr().out.splitlines() == lines
    values(["client", "--text=a", "--text=b", "--json", "--version=1"])
    client_program._call(values)
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    assert [row["output_text"][-1] for row in rows] == ["a", "b"]


def test_a_model_of_one_task_is_not_told_it(tmp_path, capsys):
    write_export(
        tmp_path / "one", task=False, card={**CARD, "tasks": CARD["tasks"][:1]}
    )
    ports = {"rest_port": 0, "grpc_port": 0}
    with serve(tmp_path / "one", wait=False, **ports) as server:
        said = f"serving one version 1: {server.url}  grpc {server.grpc_address}\n"
        assert capsys.readouterr().out == said
        for address in ({"url": server.url}, {"grpc": server.grpc_address}):
            with Client(model="one", **address) as model:
                (row,) = model.predict(["a"])
                assert row["output_text"] == "v1|nano/yes_no:a"
                with pytest.raises(ValueError, match="takes text; given are text, ta"):
                    model.predict(["a"], "nano/yes_no")


@pytest.mark.parametrize("card", [None, "{", "[]", '{"tasks": [{"labels": null}, 3]}'])
def test_a_card_may_be_absent_or_wrong(bare_export, tmp_path, card):
    folder = shutil.copytree(bare_export, tmp_path / "fake")
    if card is not None:
        (folder / "1/assets.extra/model_card.json").write_text(card)
    settings = Settings(rest_port=0, grpc_port=0)
    with (
        Server(folder, settings, say=lambda _: None) as server,
        Client(url=server.url, model="fake") as model,
    ):
        row = model.predict(["a"], "nano/free")[0]
        assert row["output_text"] == "v1|nano/free:a"
        with pytest.raises(ServerError, match="unknown task"):
            model.predict(["a"], "no/such")
