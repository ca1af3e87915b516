"""`experiments.predict`: files in and out, jobs that go on, the prompt."""

import contextlib
import copy
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import time
from unittest import mock

import pytest
import tensorflow as tf

from experiments import predict as program
from experiments.predict import predict
from hypertf.runs import open_run
from tests.conftest import ROOT
from tests.experiments.own_run import NEW, ROWS, make_own_run, read, write

FORMATS = ("csv", "tsv", "jsonl", "json", "parquet")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return make_own_run(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def model(model_dir):
    run = open_run(model_dir)
    run.load()
    return run


@pytest.fixture
def ask(model, model_dir, monkeypatch):
    """The program, on a model that is loaded once."""
    monkeypatch.setattr(program, "open_run", lambda *args, **kwargs: model)

    def ask_model(input, output, task="topic", batch_size=2, **options):
        options |= {"input": input, "output": output, "batch_size": batch_size}
        return predict(model_dir, task=task, **options)

    return ask_model


@pytest.fixture(scope="module")
def wanted(model):
    """The new columns, by asking the run itself."""
    texts = [f"{row['subject']}: {row['body']}" for row in ROWS]
    answers = model.predict(texts, "topic")
    shares = [found.probabilities for found in model.classify(texts, "topic")]
    return [
        {"answer": a.text, "score": a.score, "p(sports)": s["sports"]}
        for a, s in zip(answers, shares, strict=True)
    ]


def test_each_format_in_and_out(ask, wanted, tmp_path):
    outputs = []
    for number, form in enumerate(FORMATS):
        source = write(tmp_path / f"in.{form}", ROWS)
        for other in (FORMATS[number - 1], form):
            output = tmp_path / f"from_{form}.{other}"
            summary = ask(source, output)
            assert (summary.rows, summary.answered) == (len(ROWS), len(ROWS))
            outputs.append(read(output))
    for rows in outputs:
        assert rows == outputs[0]
    assert [list(row) for row in outputs[0]] == [[*ROWS[0], *NEW]] * len(ROWS)
    for row, source, new in zip(outputs[0], ROWS, wanted, strict=True):
        assert {name: row[name] for name in source} == source
        assert row["answer"] == new["answer"]
        assert row["score"] == pytest.approx(new["score"], rel=1e-4)
        assert row["p(sports)"] == pytest.approx(new["p(sports)"], rel=1e-4)
        assert row["p(sports)"] + row["p(world)"] == pytest.approx(1, abs=1e-5)
    assert not [name for name in os.listdir(tmp_path) if "partial" in name]


LINES = "".join(f"{row['subject']} | caf\u00e9 {row['id']}\n" for row in ROWS)


def test_text_of_other_forms_in(ask, model, tmp_path):
    texts = [f"{row['subject']}: caf\u00e9 {row['id']}" for row in ROWS]
    wanted = [answer.text for answer in model.predict(texts, "topic")]
    (tmp_path / "in.log").write_text(LINES, "latin-1")
    (tmp_path / "in.txt").write_text(LINES.replace(" | ", ";"))
    columns = ("subject", "body")
    objects = [
        json.dumps(dict(zip(columns, line.split(" | "), strict=True)))
        for line in LINES.splitlines()
    ]
    (tmp_path / "in.old").write_text("\n".join(objects))
    for number, (name, options) in enumerate(
        (
            ("in.log", {"line": "{subject} | {body}", "encoding": "latin-1"}),
            ("in.txt", {"delimiter": ";", "columns": columns}),
            ("in.old", {"format": "jsonl"}),
        )
    ):
        output = tmp_path / f"{number}.jsonl"
        ask(tmp_path / name, output, **options)
        assert [row["answer"] for row in read(output)] == wanted, name
    for options, message in (
        ({"delimiter": "::"}, "delimiter='::', expected one letter"),
        ({"format": "xls"}, "format='xls', expected one of csv, "),
        ({"line": "{a}", "columns": ["b"]}, r"columns=\['b'\], expected none beside"),
    ):
        with pytest.raises(ValueError, match=message):
            ask(tmp_path / "in.log", tmp_path / "out.csv", **options)


def test_an_input_like_the_task_s_own_files_is_read_as_they_were(
    ask, model, monkeypatch, tmp_path
):
    declared = copy.deepcopy(dict(model.config.declared))
    for tasks in declared.values():
        tasks["topic"] |= {"encoding": "latin-1", "line": "{subject} | {body}"}
        tasks["topic"]["files"] = {"train": ["/data/train.log"]}
    monkeypatch.setattr(model, "config", model.config.replace(declared=declared))
    for name in ("in.log", "no_ending"):
        (tmp_path / name).write_text(LINES, "latin-1")
        ask(tmp_path / name, tmp_path / f"{name}.csv")
        rows = read(tmp_path / f"{name}.csv")
        assert [row["body"] for row in rows] == [f"caf\u00e9 {r['id']}" for r in ROWS]
    summary = ask(write(tmp_path / "in.jsonl", ROWS), tmp_path / "other.csv")
    assert summary.rows == len(ROWS)  # by its own ending


def stopped_after(batches):
    """Stands for `predicted` in a process that ends after some batches."""
    left = iter(range(batches))

    def answer(*args):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return real(*args)

    real = program.predicted
    return mock.patch.object(program, "predicted", answer)


def test_a_job_that_was_stopped_goes_on(ask, tmp_path, capsys):
    source = write(tmp_path / "in.csv", ROWS)
    for form in ("csv", "json", "parquet"):
        whole, output = tmp_path / f"whole.{form}", tmp_path / f"out.{form}"
        partial = tmp_path / f"out.{form}.partial"
        ask(source, whole)
        for batches, cut in ((0, 0), (1, 0), (1, 9), (1, 40)):
            with stopped_after(batches), pytest.raises(KeyboardInterrupt):
                ask(source, output)
            assert not output.exists() and partial.exists() == bool(batches)
            if partial.exists():  # killed in the middle of a line
                data = partial.read_bytes()
                partial.write_bytes(data[: len(data) - cut])
        capsys.readouterr()
        summary = ask(source, output)
        assert (summary.answered, summary.rows) == (len(ROWS) - 2, len(ROWS))
        assert "going on after 2 rows" in capsys.readouterr().out
        assert output.read_bytes() == whole.read_bytes()
        assert not partial.exists()


def test_only_the_same_job_goes_on(ask, tmp_path):
    source, output = write(tmp_path / "in.csv", ROWS), tmp_path / "out.csv"
    with stopped_after(1), pytest.raises(KeyboardInterrupt):
        ask(source, output)
    before = (tmp_path / "out.csv.partial").read_bytes()
    other = write(tmp_path / "other.csv", ROWS[:3])
    with pytest.raises(
        ValueError, match=r"another job; .*\n  input: '.*in.csv' then, "
    ):
        ask(other, output)
    with pytest.raises(ValueError, match=r"another job; .*\n  task: 'topic' then, 'ec"):
        ask(source, output, task="echo")
    with (tmp_path / "out.csv.partial").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RuntimeError, match=r"out\.csv\.partial is in use"):
            ask(source, output)
    assert (tmp_path / "out.csv.partial").read_bytes() == before
    (tmp_path / "mine.csv.partial").write_text("my notes\n")
    with pytest.raises(ValueError, match=r"mine\.csv\.partial is in the way"):
        ask(source, tmp_path / "mine.csv")
    assert (tmp_path / "mine.csv.partial").read_text() == "my notes\n"


def test_an_input_that_changes_meanwhile(ask, tmp_path):
    source, output = write(tmp_path / "in.csv", ROWS), tmp_path / "out.csv"
    real = program.predicted

    def answer(*args):
        write(source, ROWS[::-1])
        return real(*args)

    with (
        mock.patch.object(program, "predicted", answer),
        pytest.raises(ValueError, match=r"in\.csv was changed meanwhile"),
    ):
        ask(source, output, batch_size=len(ROWS))
    assert not output.exists()


def test_the_summary(ask, model, tmp_path, capsys):
    rows = [*ROWS, {**ROWS[0], "queue": ""}, {**ROWS[0], "queue": "X"}]
    source = write(tmp_path / "in.jsonl", rows)
    answers = iter(["sports"] * 5 + ["world"] * 3 + ["?"])
    with mock.patch.object(
        program,
        "predicted",
        lambda model, task, texts: [
            {"answer": next(answers), "score": 0.0, "trimmed": i == 0}
            for i, _ in enumerate(texts)
        ],
    ):
        summary = ask(source, tmp_path / "out.csv", batch_size=5)
    assert summary.answers == {"sports": 5, "world": 3, "?": 1}
    assert summary.scored == len(ROWS)  # S W S S W S W: two W of five, one S of two
    assert summary.scores == {"accuracy": pytest.approx(100 * 4 / 7)}
    assert summary.trimmed == 2
    text = capsys.readouterr().out
    assert "9 rows; " in text and "'sports' 5, 'world' 3, '?' 1" in text
    assert "accuracy 57.14 on 7 rows with a target" in text
    assert "1 rows have a target that is no label" in text and "line 9: 'X'" in text


def test_errors_come_before_the_model_is_loaded(ask, model, tmp_path, monkeypatch):
    monkeypatch.setattr(model, "load", mock.Mock(side_effect=AssertionError))
    good, out = write(tmp_path / "in.csv", ROWS), tmp_path / "out.csv"
    (tmp_path / "there.csv").touch()
    clash = write(tmp_path / "clash.csv", [{**ROWS[0], "p(world)": "1"}])
    lacking = write(tmp_path / "lacking.jsonl", [ROWS[0], {"subject": "b"}])
    letters = write(tmp_path / "letters.jsonl", [{**ROWS[0], "id": "\ud800"}])
    (tmp_path / "empty.csv").write_text("subject,body\n")
    for input, output, options, message in (
        (good, tmp_path / "no" / "x.csv", {}, r"x\.csv: no folder .*no; expected one"),
        (good, tmp_path / "x.txt", {}, r"ending '\.txt', expected one of \.csv"),
        (good, tmp_path / "x.csv.gz", {}, r"expected one that is not packed"),
        (good, "gs://bucket/x.csv", {}, r"expected a local file"),
        (good, tmp_path / "there.csv", {}, r"there\.csv exists and is not overwritt"),
        (tmp_path / "x.csv", out, {}, r"x\.csv: no such file"),
        (clash, out, {}, r"clash\.csv: column 'p\(world\)' has the name of a new"),
        (lacking, out, {}, r"lacking\.jsonl, line 2: topic: unknown column 'body'"),
        (letters, out, {}, r"letters\.jsonl, line 1: '\\ud800' is not Unicode"),
        (tmp_path / "empty.csv", out, {}, r"empty\.csv has no rows"),
        (good, out, {"encoding": "utf-9"}, r"encoding='utf-9', expected one that"),
        (good, out, {"task": "topics"}, r"unknown task 'topics'; did you mean 'topic'"),
        (good, out, {"task": None}, r"task=None, expected one of topic, echo"),
        (good, out, {"batch_size": 0}, r"batch_size=0, expected an integer >= 1"),
        (good, None, {}, r"output=None; expected both, or none for a prompt"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            ask(input, output, **options)
    files = ("in.csv", "there.csv", "clash.csv", "lacking.jsonl", "letters.jsonl")
    assert set(os.listdir(tmp_path)) == {*files, "empty.csv"}


def test_the_prompt(ask, model, monkeypatch, capsys):
    lines = (
        "dog: runs",
        "",
        ":tasks",
        ":task echo",
        "dog",
        ":task no",
        ":x",
        "dog " * 40,
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    assert ask(None, None) is None
    out = capsys.readouterr().out
    (first,) = model.predict(["dog: runs"], "topic")
    (second,) = model.predict(["dog"], "echo")
    (found,) = model.classify(["dog: runs"], "topic")
    assert f"topic> {first.text}  (score {first.score:.3f})\n" in out
    for label, share in found.probabilities.items():
        (bar,) = [line for line in out.splitlines() if line.startswith(f"  {label} ")]
        assert bar.count("#") == round(20 * share) and bar.endswith(f"{share:.1%}")
    assert "topic> topic> topic\necho\ntopic> echo> " in out  # :tasks, :task echo
    assert f"echo> {second.text}  (score" in out
    assert "unknown task 'no'; Known: topic, echo\necho> unknown command ':x'" in out
    assert "more than 28 tokens: its end was dropped" in out
    assert out.endswith("echo> \n")


@contextlib.contextmanager
def graphs_as_in_programs():
    """Tests run graphs as they are traced; optimised ones round otherwise."""
    optimizer = tf.config.optimizer
    before = optimizer.get_experimental_options()
    optimizer.set_experimental_options({"disable_meta_optimizer": False})
    yield
    optimizer.set_experimental_options(before)


def test_a_process_that_is_killed(ask, model_dir, tmp_path):
    rows = [{**row, "id": str(i)} for i, row in enumerate(ROWS * 12)]
    source, output = write(tmp_path / "in.csv", rows), tmp_path / "out.jsonl"
    partial = tmp_path / "out.jsonl.partial"
    command = [sys.executable, "-m", "experiments.predict", f"--model_dir={model_dir}"]
    command += ["--task=echo", f"--input={source}", f"--output={output}"]
    process = subprocess.Popen(
        [*command, "--batch_size=1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None:
        if partial.exists() and partial.read_bytes().count(b"\n") > 2:
            process.kill()
            break
        time.sleep(0.01)
    said, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors
    assert said.startswith(f"answering {source}, 84 rows, as echo with {model_dir}")
    assert errors == "" and partial.exists() and not output.exists()
    options = {"task": "echo", "batch_size": 1}
    with graphs_as_in_programs():
        assert 0 < ask(source, output, **options).answered < len(rows)
        ask(source, tmp_path / "whole.jsonl", **options)
    assert output.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
