"""A user's files through every program: trained on, then known from the run alone."""

import json
import os
import shutil
import sys

import pytest

import hypertf
from experiments.configs import get_config
from experiments.evaluate import evaluate
from experiments.export import export
from experiments.report import report
from experiments.runs import components, config_file
from experiments.train import train

TOML = """[topic]
train = "topic.csv"
inputs = "{subject}: {text}"
targets = "{label}"
labels = ["bug", "praise"]
metrics = ["accuracy", "macro_f1"]
rate = 50

[number]
train = "number.jsonl"
inputs = "{question}"
targets = "{answer}"
"""


def write_files(folder):
    rows = [(f"s{i}", f"text {i}", ("bug", "praise")[i % 2]) for i in range(40)]
    lines = ["subject,text,label", *map(",".join, rows)]
    (folder / "topic.csv").write_text("\n".join(lines) + "\n")
    rows = [{"question": f"after {i}", "answer": i + 1} for i in range(30)]
    (folder / "number.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "mine.toml").write_text(TOML)
    return folder


def config_of(folder, **changes):
    return get_config("nano_hyperprompt_global").replace(
        mixture=f"nano/paraphrase,{folder / 'mine.toml'}",
        steps=2,
        batch_size=8,
        inputs_length=32,
        temperature=1.0,
        schedule="constant",
        decay_start=0,
        final_learning_rate=0.0,
        checkpoint_every=2,
        **changes,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory, data_dir):
    """A run whose files are gone."""
    folder = write_files(tmp_path_factory.mktemp("files"))
    model_dir = tmp_path_factory.mktemp("run")
    assert train(config_of(folder), model_dir, data_dir=data_dir) == 2
    shutil.rmtree(folder)
    return str(model_dir)


def test_evaluate_and_report_know_the_tasks(run, data_dir, tmp_path, capsys):
    scores = evaluate(run, tasks=["topic", "number"], data_dir=data_dir).scores[2]
    assert set(scores) == {"topic", "number"}
    assert set(scores["topic"]) == {"accuracy", "macro_f1"}
    report([run], output=tmp_path)
    assert "topic" in capsys.readouterr().out


def test_an_export_knows_them(run, data_dir, tmp_path):
    folder = export(run, tmp_path / "export", data_dir=data_dir)
    model = hypertf.export.load(folder)
    assert model.tasks == ["nano/paraphrase", "topic", "number"]
    (answer,) = model.classify(["s1: text 1"], "topic")
    assert set(answer.probabilities) == {"bug", "praise"}
    by_name = {task["name"]: task for task in model.card["tasks"]}
    assert by_name["topic"]["template"] == "{subject}: {text}"
    assert by_name["topic"]["examples"]


def test_rates_are_as_declared(run, data_dir):
    config = config_file.read(run)
    assert config.mixture.endswith("mine.toml")  # which is gone
    mixture = components.make_mixture(config)
    rates = mixture.task_rates("train", data_dir)
    assert rates["topic"] == 50
    assert rates["number"] == 27  # its rows, less those that validate


def test_it_goes_on_with_the_same_rows_only(tmp_path, data_dir):
    folder, model_dir = write_files(tmp_path), tmp_path / "run"
    plain = {"conditioner": "none", "conditioner_options": {}}
    config = config_of(folder, **plain)
    train(config, model_dir, data_dir=data_dir)
    assert train(config.replace(steps=3), model_dir, data_dir=data_dir) == 3
    with (folder / "topic.csv").open("a") as file:
        file.write("one,more,bug\n")
    with pytest.raises(ValueError, match="another configuration") as error:
        train(config.replace(steps=4), model_dir, data_dir=data_dir)
    assert "topic" in str(error.value)


def test_bad_rows_are_said_before_the_run_begins(tmp_path, data_dir):
    folder = write_files(tmp_path)
    with (folder / "topic.csv").open("a") as file:
        file.write("one,more,bag\n")
    with pytest.raises(ValueError, match=r"topic.csv, line 42, column 'label'"):
        train(config_of(folder), tmp_path / "run", data_dir=data_dir)
    assert not (tmp_path / "run").exists()


MODULE = """
import dataclasses

import tfds_tasks
from tfds_tasks.scores import metric


@metric
def lengths(targets, predictions, examples):
    return {"lengths": 7.0}


tfds_tasks.register_metric("lengths", lengths)
paraphrase = tfds_tasks.get_task("nano/paraphrase")
tfds_tasks.register(dataclasses.replace(paraphrase, name="mine/paraphrase"))
"""


@pytest.fixture
def module(tmp_path, monkeypatch, own_registries):
    (tmp_path / "users_own_tasks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return "users_own_tasks"


def test_tasks_and_metrics_of_a_module(tmp_path, data_dir, module, monkeypatch):
    folder = write_files(tmp_path)
    text = TOML.replace('"{answer}"', '"{answer}"\nmetrics = ["lengths"]')
    (folder / "mine.toml").write_text(text)
    plain = {"conditioner": "none", "conditioner_options": {}}
    config = config_of(folder, module_import=module, **plain)
    config = config.replace(mixture=f"mine/paraphrase,{folder / 'mine.toml'}")
    train(config, tmp_path / "run", data_dir=data_dir)
    scores = evaluate(tmp_path / "run", tasks=["number"], data_dir=data_dir).scores[2]
    assert scores == {"number": {"lengths": 7.0}}
    monkeypatch.delitem(sys.modules, module)
    os.unlink(tmp_path / f"{module}.py")
    with pytest.raises(ValueError, match=f"config.json: module_import='{module}' cann"):
        evaluate(tmp_path / "run", data_dir=data_dir)
