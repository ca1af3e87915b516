"""Classifiers on a run's frozen encoder: what they compute, train, keep and score."""

import re

import numpy as np
import pytest
import tensorflow as tf

from experiments.configs import get_config, get_row
from experiments.evaluate import evaluate
from experiments.reports.paper_comparison import average_cells
from experiments.reports.reported_run import read_run
from experiments.reproduce import commands, reproduce
from experiments.runs import components, config_file, linear_head, nano_scale
from experiments.runs.eval_results import Results
from experiments.train import train
from hypertf import T5Config, checkpoints, load_run
from hypertf.conditioning import create
from hypertf.t5 import named_weights
from hypertf.training import RunFolder, read_log
from tests.experiments.small_run import make_run
from tests.helpers import mixed_batch, relative_error, tiny_config, tiny_model

ITEM = "hyperdecoders/table7"
ENCODER_ONLY = "hyperdecoder_large_glue_encoder_only"
# With a task that has no labels between two that have.
TASKS = ("nano/sentiment", "nano/similarity", "nano/inference")
SIZES = {"encoder_size": 4, "decoder_size": 3}
SOURCE = get_config("nano").replace(
    conditioner="parallel-adapters",
    conditioner_options=SIZES,
    mixture=",".join(TASKS),
    schedule="constant",
    decay_start=0,
    final_learning_rate=0.0,
    steps=2,
    batch_size=8,
    steps_per_loop=2,
    checkpoint_every=2,
)
HEADS = SOURCE.replace(head="linear", optimizer="adamw", learning_rate=0.003)


@pytest.fixture(scope="module")
def source(shallow, tmp_path_factory):
    """A run of two checkpoints, of which the first is the best."""
    path = make_run(tmp_path_factory.mktemp("source") / "run", SOURCE, steps=(1, 2))
    for step, score in ((1, 60.0), (2, 40.0)):
        scores = {TASKS[0]: {"accuracy": score}}
        Results(path).add(step, scores, "greedy", 1.0)
    return path


@pytest.fixture(scope="module")
def run(source, data_dir, tmp_path_factory):
    """Classifiers that were stopped and went on, and what they are trained by."""
    path = str(tmp_path_factory.mktemp("heads") / "run")
    config = HEADS.replace(init=source)
    for steps in (2, 4):
        train(config.replace(steps=steps), path, data_dir=data_dir)
    return path, config.replace(steps=4)


def values(path, step):
    with checkpoints.open_checkpoint(RunFolder(path, writes=False).prefix(step)) as all:
        return {n: np.concatenate([b[2] for b in all.blocks(n)]) for n in all.tensors}


def test_the_formula():
    config = tiny_config(dropout_rate=0.5)
    method = create("parallel-adapters", config, 3, **SIZES)
    t5 = tiny_model(conditioner=method, dropout_rate=0.5)
    model, batch = linear_head.LinearHeads(t5, [2, 3, 1]), mixed_batch((0, 1, 1, 2))
    output, mask = (np.array(x, "float64") for x in t5.encode(batch_of(batch)))
    w = {name: x.numpy() for name, x in named_weights(model).items()}
    mean = (output * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    hidden = np.maximum(mean @ w["mlp_0/kernel"] + w["mlp_0/bias"], 0)
    e = hidden @ w["mlp_1/kernel"] + w["mlp_1/bias"]
    logits = model(batch_of(batch), training=True).numpy()  # without dropout
    assert logits.shape == (4, 1, 1 + 3)
    for row, task in enumerate(batch["task_ids"]):
        count = model.labels[task]
        expected = (e[row] @ w["kernel"][task] + w["bias"][task])[:count]
        assert relative_error(logits[row, 0, 1 : 1 + count], expected) < 1e-5
        others = np.delete(logits[row, 0], np.arange(1, 1 + count))
        assert (others == linear_head.NEVER).all()  # padding, and labels of others
        chance = np.exp(expected) / np.exp(expected).sum()
        choices = np.arange(1, 1 + count)[None, :, None]
        one = {name: x[row : row + 1] for name, x in batch_of(batch).items()}
        got = model.score({**one, "targets": choices.astype("int32")})
        assert relative_error(got[0], np.log(chance)) < 1e-4


def batch_of(batch):
    return {name: tf.constant(batch[name]) for name in ("encoder_tokens", "task_ids")}


def test_targets_are_the_numbers_of_labels(data_dir):
    config = HEADS
    mixture, words = components.make_mixture(config), components.make_vocabulary(config)
    made = config, mixture, words, data_dir
    (of_labels,) = linear_head.make_dataset(*made)().take(1)
    (of_tokens,) = components.make_dataset(*made)().take(1)
    assert set(of_labels["task_ids"].numpy()) == {0, 2}
    texts = words.texts(of_tokens["targets"].numpy())
    for text, (number,), i in zip(
        texts, of_labels["targets"].numpy(), of_labels["task_ids"], strict=True
    ):
        assert mixture.tasks[int(i)].choices[number - 1] == text


def test_labels_that_are_trimmed_alike_are_refused(data_dir):
    config = HEADS.replace(targets_length=1)
    made = components.make_mixture(config), components.make_vocabulary(config)
    with pytest.raises(ValueError, match=r"targets_length=1: labels of nano/senti"):
        linear_head.make_dataset(config, *made, data_dir)


@pytest.mark.slow
def test_a_stopped_run_ends_as_one_never_stopped(run, data_dir, tmp_path):
    path, config = run
    train(config, tmp_path, data_dir=data_dir)
    stopped, never = values(path, 4), values(tmp_path, 4)
    assert stopped.keys() == never.keys()
    for name, value in stopped.items():
        np.testing.assert_array_equal(value, never[name], err_msg=name)


@pytest.mark.slow
def test_only_classifiers_are_kept_and_all_of_them_train(run, source):
    path, _ = run
    first, last = values(path, 2), values(path, 4)
    names = {f"mlp_{i}/{part}" for i in (0, 1) for part in ("kernel", "bias")}
    assert set(last) == names | {"kernel", "bias"}
    assert all((first[name] != last[name]).any() for name in names)
    moved = (first["kernel"] != last["kernel"]).any(axis=(1, 2))
    assert moved.tolist() == [True, False, True]  # nano/similarity has none
    # The encoder is that of the checkpoint that is best on validation.
    assert config_file.read(path).init == RunFolder(source, writes=False).prefix(1)


@pytest.mark.slow
def test_scores_are_of_the_tasks_with_labels(run, source, data_dir):
    path, _ = run
    scored = evaluate(path, checkpoints="all", data_dir=data_dir)
    assert scored.records[4]["how"] == "linear head"
    for scores in scored.scores.values():
        assert set(scores) == {TASKS[0], TASKS[2]}
    scorer = linear_head.HeadsScorer(config_file.read(path), data_dir=data_dir)
    scorer.load(path, 4)
    texts = scorer.score()[1][TASKS[2]]
    model, task = scorer.model, scorer.mixture.tasks[1]
    for number in range(5):
        tokens = scorer.vocabulary.pieces.encode(
            scorer.examples[task.name][number]["inputs"]
        )
        ids = {"encoder_tokens": tf.constant([[*tokens, 1]])}
        logits = model({**ids, "task_ids": tf.constant([2])})
        likeliest = int(np.argmax(logits[0, 0])) - 1
        assert texts[number] == task.choices[likeliest]
    # The encoder is the source's, adapters and all.
    names = [n for n in named_weights(model.t5) if not n.startswith("decoder/")]
    kept = values(source, 1)
    assert any("conditioner/encoder" in name for name in names)
    for name in names:
        np.testing.assert_array_equal(named_weights(model.t5)[name], kept[name])
    with pytest.raises(ValueError, match="nano/similarity: without a classifier"):
        evaluate(path, tasks=["nano/similarity"], data_dir=data_dir)


@pytest.mark.slow
def test_a_report_counts_what_is_trained(run):
    counted = read_run(run[0], "validation", "run").parameters()
    d, tasks, labels = T5Config.from_name("t5-nano").d_model, 3, 3
    assert counted.trained == 2 * d * (d + 1) + tasks * labels * (d + 1)
    plain = components.make_model(SOURCE, components.make_mixture(SOURCE))
    assert counted.plain == plain.count_params() - plain.conditioner.count_params()


@pytest.mark.slow
def test_it_learns_what_it_is_shown(source, data_dir, tmp_path):
    config = HEADS.replace(init=source, train_rows=4, steps=12, learning_rate=0.01)
    config = config.replace(steps_per_loop=4, checkpoint_every=12)
    train(config, tmp_path, data_dir=data_dir)
    first, *_, last = (record["task_loss"] for record in read_log(tmp_path))
    assert set(first) == {TASKS[0], TASKS[2]}
    assert all(last[task] < 0.5 * first[task] for task in first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"init": None}, "init=None, expected the run whose encoder"),
        ({"mixture": TASKS[0]}, f"mixture='{TASKS[0]}', expected '{','.join(TASKS)}'"),
        (
            {"conditioner": "none", "conditioner_options": {}},
            "conditioner='none', expected 'parallel-adapters', as of init=",
        ),
        ({"mixture": TASKS[1]}, "no task of nano/similarity is answered by one of"),
        ({"packing": "task"}, "packing='task', expected 'off' with head='linear'"),
        ({"label_smoothing": 0.1}, "label_smoothing=0.1, expected 0 with head="),
        ({"head": "mlp"}, "head='mlp', expected one of decoder, linear"),
    ],
)
def test_bad_input_is_said_before_any_work(source, change, message, data_dir, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        config = HEADS.replace(**{"init": source, **change})
        train(config, tmp_path / "run", data_dir=data_dir)
    assert not (tmp_path / "run").exists()


def test_what_knows_no_classifiers_says_so(source, tmp_path):
    folder, config = RunFolder(tmp_path), HEADS.replace(init=source)
    with pytest.raises(ValueError, match="head='linear': expected no mesh"):
        train(config, tmp_path, mesh_shape="model:1")
    folder.write_text(folder.config_file, config.to_json())
    with pytest.raises(ValueError, match="head='linear': expected no mesh"):
        evaluate(tmp_path, mesh_shape="model:1")
    mixture = components.make_mixture(config)
    with pytest.raises(ValueError, match="write no text; expected experiments"):
        components.make_model(config, mixture)


def test_the_rows_are_appendix_cs():
    row = get_row(ENCODER_ONLY)
    assert row.starts_from == "hyperdecoder_large_glue"
    assert row.average == {"glue_without_stsb": 74.94}
    config = row.config
    assert (config.epochs, config.learning_rate, config.warmup_steps) == (3, 2e-5, 500)
    assert (config.optimizer, config.schedule) == ("adamw", "linear")
    of_source = get_row(row.starts_from).config
    same = ("model", "mixture", "splits", "conditioner", "conditioner_options")
    assert all(getattr(config, n) == getattr(of_source, n) for n in same)
    trained = components.training_mixture(config, components.make_mixture(config))
    assert {t.name for t in components.make_mixture(config).tasks} - {
        t.name for t in trained.tasks
    } == {"glue/stsb"}


def test_the_printed_average_is_of_seven_tasks():
    tasks = ("cola", "sst2", "qqp", "qnli", "rte", "stsb")
    scores = {f"glue/{task}": {"accuracy": 70.0} for task in tasks}
    scores["glue/stsb"] = {"pearson_corrcoef": 0.0}
    scores["glue/mrpc"] = {"f1": 60.0, "accuracy": 80.0}
    halves = ("glue/mnli_matched", "glue/mnli_mismatched")
    scores |= {name: {"accuracy": 77.0} for name in halves}
    row = get_row(ENCODER_ONLY)
    assert average_cells(scores, row)["GLUE without STS-B", ""] == (71.0, 74.94)
    del scores["glue/rte"]
    assert average_cells(scores, row)["GLUE without STS-B", ""] == (None, 74.94)


@pytest.mark.parametrize("scale", ["full", "nano"])
def test_an_encoder_is_that_of_the_same_seed(scale):
    text = commands(ITEM, scale=scale, rows=[ENCODER_ONLY], seeds=2, init="/t5")
    trained = re.findall(r"experiments.train (.*) --model_dir=(\S+)", text)
    sources, heads = trained[:2], trained[2:]
    assert len(heads) == 2  # after those of the row whose encoder it takes
    pairs = zip(sources, heads, strict=True)
    for seed, ((given, at), (of_head, _)) in enumerate(pairs):
        assert at.endswith(f"hyperdecoder_large_glue/seed{seed}")
        assert "--init=/t5" in given and f"--init={at}" in of_head
        assert ("--head=linear" in of_head) == (scale == "nano")  # else by its name


@pytest.mark.slow
def test_reproduces_the_table(shallow, tmp_path, data_dir, capsys):
    config = get_config("nano").replace(mixture=",".join(TASKS[:2]))
    options = {"scale": "nano", "seeds": 1, "rows": [ENCODER_ONLY], "steps": 2}
    options |= {"output": tmp_path, "data_dir": data_dir}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nano_scale, "get_config", lambda name: config)
        table = reproduce(ITEM, **options)
        capsys.readouterr()
        again = reproduce(ITEM, **options)
    assert again.text == table.text
    assert "training" not in capsys.readouterr().out
    rows = {cell["row"] for cell in table.cells}
    assert rows == {ENCODER_ONLY, "hyperdecoder_large_glue_encoder_decoder"}
    ours = {cell["task"] for cell in table.cells if cell["ours"] is not None}
    assert ours == {TASKS[0], "mean over tasks"}  # of both rows
    heads = tmp_path / "runs/nano_2_steps" / ENCODER_ONLY / "seed0"
    with pytest.raises(ValueError, match="write no text"):
        load_run(heads)
