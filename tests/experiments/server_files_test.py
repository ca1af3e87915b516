"""From a checkpoint to files for the servers, on small test sets with hidden labels."""

import dataclasses
import json
import zipfile

import numpy as np
import pytest
import tensorflow_datasets as tfds

from experiments.configs import Config
from experiments.evaluate import evaluate
from experiments.runs import components, config_file
from experiments.runs.prediction import Scorer
from hypertf.training import RunFolder
from tfds_tasks import get_mixture, submission

ROWS = 3  # of each test set
SMALL = Config(
    model="t5-nano",
    vocabulary="nano",
    inputs_length=8,
    targets_length=3,
    steps=1,
    batch_size=4,
)
GLUE, SUPER_GLUE = (",".join(submission.files(b)) for b in ("glue", "super_glue"))


def made_up(feature, number):
    """A value that the feature takes; a label is hidden, as on the servers' sets."""
    if isinstance(feature, tfds.features.Text):
        return f"the dog {number} runs"
    if isinstance(feature, tfds.features.ClassLabel):
        return -1
    if isinstance(feature, tfds.features.Sequence):
        return [made_up(feature.feature, number)]
    if isinstance(feature, tfds.features.FeaturesDict):
        row = {key: made_up(inner, number) for key, inner in feature.items()}
        return {**row, "answers": []} if "answers" in row else row
    return -1.0 if feature.np_dtype == np.float32 else number


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A TFDS folder with test sets of a few rows for every task of both servers."""
    folder = str(tmp_path_factory.mktemp("tfds"))
    for task in get_mixture(f"{GLUE},{SUPER_GLUE}").tasks:
        builder = tfds.builder(task.source, data_dir=folder)
        split = task.parts["test"].split
        rows = [(i, made_up(builder.info.features, i)) for i in range(ROWS)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                type(builder), "_split_generators", lambda *_, s=split, r=rows: {s: r}
            )
            builder.download_and_prepare()
    return folder


@pytest.fixture(scope="module")
def small_servers():
    """Servers that want as many rows as were prepared."""
    files = submission.files

    def smaller(benchmark):
        return {
            task: dataclasses.replace(file, rows=ROWS)
            for task, file in files(benchmark).items()
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submission, "files", smaller)
        yield


def run_of(mixture, folder):
    """A model_dir with a checkpoint that was never trained."""
    config = SMALL.replace(mixture=mixture)
    run = RunFolder(folder)
    config_file.claim(run, config)
    model = components.make_model(config, components.make_mixture(config))
    optimizer = components.make_optimizer(config)
    optimizer.build(model.trainable_variables)
    run.save(model, optimizer, 1)
    return folder


@pytest.mark.parametrize(
    ("mixture", "benchmark", "unscored"),
    [
        (GLUE, "glue", ["glue/ax"]),
        (SUPER_GLUE, "super_glue", ["super_glue/axb", "super_glue/axg"]),
    ],
)
def test_a_whole_benchmark_is_packed(
    mixture, benchmark, unscored, prepared, small_servers, tmp_path, capsys
):
    run, out = run_of(mixture, tmp_path / "run"), tmp_path / "out"
    results = evaluate(run, split="test", submission=out, data_dir=prepared)
    assert results.scores == {}  # all labels are hidden
    printed = capsys.readouterr().out
    assert f"{benchmark}: complete, ready for upload: {out}/{benchmark}.zip" in printed
    assert f"no score, for want of a metric: {', '.join(unscored)}\n" in printed
    assert "no task has a score on test" in printed
    with zipfile.ZipFile(out / f"{benchmark}.zip") as archive:
        names = {file.name for file in submission.files(benchmark).values()}
        assert set(archive.namelist()) == names
    # What was kept can be read, and added to.
    steps = json.loads((run / "eval/test.json").read_text())["steps"]
    assert steps["1"]["scores"] == {}


def test_some_tasks_are_scored_and_some_files_missing(
    prepared, small_servers, tmp_path, capsys
):
    known = "nano/paraphrase"  # whose test set has its labels
    run, out = run_of(f"glue/ax,glue/rte,{known}", tmp_path / "run"), tmp_path / "out"
    results = evaluate(run, split="test", submission=out, data_dir=prepared)
    assert set(results.scores[1]) == {known} and results.best_step() == 1
    printed = capsys.readouterr().out
    assert f"glue: 2 of 11 files in {out} (RTE.tsv, AX.tsv)" in printed
    assert "not ready for upload: CoLA.tsv is missing; SST-2.tsv is missing" in printed
    assert "no score, as the labels of test are hidden: glue/rte\n" in printed
    assert f"{known}  " in printed and "best single checkpoint: step 1" in printed
    assert not list(out.glob("*.zip"))


def test_only_answers_that_are_labels_are_ranked(prepared, monkeypatch):
    config = SMALL.replace(mixture=SUPER_GLUE, decoding="rank")
    scorer = Scorer(config, split="test", data_dir=prepared)
    ranked, written = [], []
    monkeypatch.setattr(scorer, "_rank", lambda task: ranked.append(task.name))
    monkeypatch.setattr(
        scorer, "_write", lambda m, _: written.extend(t.name for t in m.tasks) or {}
    )
    scorer.predict()
    assert sorted(written) == ["super_glue/record", "super_glue/wsc"]
    assert len(ranked) == 8 and "super_glue/boolq" in ranked


@pytest.mark.parametrize(
    ("mixture", "changes", "split", "words"),
    [
        ("nano/paraphrase", {}, "test", "none of nano/paraphrase has a file"),
        ("nano/paraphrase", {}, "validation", "split='validation' of splits='t5'"),
        ("glue/cola", {"splits": "hyperformer"}, "test", "of splits='hyperformer'"),
    ],
)
def test_what_no_server_takes_is_refused_before_decoding(
    mixture, changes, split, words, tmp_path
):
    config_file.claim(RunFolder(tmp_path), SMALL.replace(mixture=mixture, **changes))
    with pytest.raises(ValueError, match=words):
        evaluate(tmp_path, split=split, submission=tmp_path / "out")
    assert not (tmp_path / "out").exists()
