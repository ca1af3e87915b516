"""From a run to a SavedModel: which checkpoint, what its card says, what it costs."""

import os

import numpy as np
import pytest

import hypertf
from experiments.configs import get_config
from experiments.export import chosen_step, export
from experiments.runs.eval_results import Results
from experiments.runs.export_comparison import size_on_disk
from experiments.runs.prediction import Scorer
from experiments.train import train

TASKS = ("nano/paraphrase", "nano/coreference")
CONFIG = get_config("nano_hyperprompt_global").replace(
    mixture=",".join(TASKS),
    steps=2,
    batch_size=8,
    schedule="constant",
    decay_start=0,
    final_learning_rate=0.0,
    steps_per_loop=1,
    checkpoint_every=1,
)
SCORES = {task: {"accuracy": 12.5} for task in TASKS}


@pytest.fixture(scope="module")
def model_dir(shallow, data_dir, tmp_path_factory):
    """Checkpoints of steps 1 and 2, of which the first is the better."""
    path = str(tmp_path_factory.mktemp("run"))
    assert train(CONFIG, path, data_dir=data_dir) == 2
    for step, factor in ((1, 1.0), (2, 0.5)):
        scores = {t: {m: v * factor for m, v in s.items()} for t, s in SCORES.items()}
        Results(path).add(step, scores, "greedy", 1.0)
    return path


@pytest.fixture(scope="module")
def exported(model_dir, data_dir, tmp_path_factory):
    return export(model_dir, tmp_path_factory.mktemp("x") / "two", data_dir=data_dir)


@pytest.mark.slow
def test_it_answers_as_the_run_does(model_dir, data_dir, exported):
    scorer = Scorer(CONFIG, batch_size=4, data_dir=data_dir)
    scorer.load(model_dir, 1)
    texts = [example["inputs"] for example in scorer.examples[TASKS[0]][:4]]
    model = hypertf.export.load(os.path.dirname(exported))
    assert model.tasks == list(TASKS)
    for task, wanted in scorer.answer(texts, TASKS).items():
        assert model.answer(texts, task) == wanted


@pytest.mark.slow
def test_probabilities_are_of_the_tasks_labels(exported):
    model = hypertf.export.load(exported)
    (found,) = model.classify(["sentence1: a sentence2: b"], TASKS[0])
    assert set(found.probabilities) == {"no", "yes"}
    assert sum(found.probabilities.values()) == pytest.approx(1, abs=1e-5)
    assert found.label == max(found.probabilities, key=found.probabilities.get)


@pytest.mark.slow
def test_the_card_says_where_it_comes_from(model_dir, exported):
    card = hypertf.export.load(exported).card
    assert card["source"] == f"{model_dir}, step 1"
    tasks = {task["name"]: task for task in card["tasks"]}
    assert {name: task["scores"] for name, task in tasks.items()} == SCORES
    assert len(tasks[TASKS[0]]["examples"]) == 3
    with open(os.path.join(exported, "model_card.md")) as file:
        text = file.read()
    assert "accuracy 12.5" in text and "curl" in text and "docker run" in text


def test_which_checkpoint(model_dir):
    assert chosen_step(model_dir, "best")[0] == 1
    assert chosen_step(model_dir, "latest")[0] == 2
    assert chosen_step(model_dir, "2")[0] == 2
    with pytest.raises(ValueError, match="checkpoint='7', expected best, latest or"):
        chosen_step(model_dir, "7")


@pytest.mark.slow
def test_what_fewer_bits_do_is_shown(model_dir, data_dir, tmp_path, capsys):
    folder = export(
        model_dir,
        tmp_path / "one",
        task=TASKS[0],
        quantize="int8",
        compare=8,
        signatures=["serving_default"],
        data_dir=data_dir,
    )
    lines = capsys.readouterr().out.splitlines()
    table = {line.split()[0]: line.split() for line in lines if line[:5] in _ROWS}
    assert set(table) == {"float32", "int8"}
    megabytes = {name: float(row[2]) for name, row in table.items()}
    assert megabytes["int8"] == pytest.approx(size_on_disk(folder) / 1e6, abs=0.06)
    assert megabytes["int8"] < megabytes["float32"] / 2
    times = np.array([row[3:] for row in table.values()], float)
    assert times.shape == (2, 2) and (times > 0).all()
    (signature,) = hypertf.export.load(folder).signatures.values()
    assert set(signature.structured_input_signature[1]) == {"text"}  # no task to name


_ROWS = ("float", "int8 ")


def test_bad_input_leaves_nothing(model_dir, tmp_path):
    for options, message in (
        ({"task": "nano/paraphrased"}, "paraphrase"),
        ({"checkpoint": 9}, "checkpoint=9"),
        ({"quantize": "int4"}, "quantize='int4', expected"),
        ({"signatures": ["clasify"]}, "did you mean 'classify'"),
    ):
        with pytest.raises(ValueError, match=message):
            export(model_dir, tmp_path / "out", data_dir=tmp_path, **options)
    with pytest.raises(FileNotFoundError, match="expected a model_dir"):
        export(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
