"""Declared tasks as data: rows go through TFDS once, and again when a file changed."""

import os

import numpy as np
import pytest
import tensorflow_datasets as tfds

from tfds_tasks import get_mixture, get_vocabulary
from tfds_tasks.named_mixtures import declarations

TABLE = """[topic]
train = "topic.csv"
inputs = "{subject}: {text}"
targets = "{label}"
labels = ["bug", "praise"]
metrics = ["accuracy", "macro_f1"]
"""
HEADER = "subject,text,label\n"


def lines(count, start=0):
    rows = ((f"s{i}", f"t{i}", ("bug", "praise")[i % 2]) for i in range(start, count))
    return "".join(",".join(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "topic.csv").write_text(HEADER + lines(40))
    (tmp_path / "mine.toml").write_text(TABLE)
    return tmp_path


def task_of(folder, text=None, **style):
    if text is not None:
        (folder / "mine.toml").write_text(text)
    (task,) = get_mixture(str(folder / "mine.toml"), **style).tasks
    return task


def examples(task, split, folder):
    rows = task.examples(split, str(folder / "data")).as_numpy_iterator()
    return {int(row["idx"]): (row["inputs"], row["targets"]) for row in rows}


def test_rows_are_text_and_validation_is_taken_out_and_said(folder, capsys):
    task = task_of(folder)
    train, validation = (examples(task, s, folder) for s in ("train", "validation"))
    assert "train 36, validation 4 (validation is absent" in capsys.readouterr().out
    assert sorted({**train, **validation}) == list(range(40))
    assert len(train) == 36
    for number, (inputs, targets) in {**train, **validation}.items():
        assert inputs.decode() == f"s{number}: t{number}"
        assert targets.decode() == ("bug", "praise")[number % 2]


@pytest.mark.parametrize(("share", "expected"), [("0.5", 20), ("0.001", 1)])
def test_the_share_and_the_seed_decide_what_is_taken(folder, share, expected):
    text = TABLE + f"validation_share = {share}\n"
    first = examples(task_of(folder, text), "validation", folder)
    other = examples(task_of(folder, text + "seed = 7\n"), "validation", folder)
    assert len(first) == len(other) == expected
    assert set(first) != set(other)


def test_files_for_each_split_and_a_test_without_answers(folder):
    (folder / "dev.csv").write_text(HEADER + lines(5))
    (folder / "test.csv").write_text("subject,text\na,b\n")
    task = task_of(
        folder, TABLE + 'validation = "dev.csv"\ntest = "test.csv"\n', prefix=True
    )
    assert len(examples(task, "train", folder)) == 40
    assert len(examples(task, "validation", folder)) == 5
    assert examples(task, "test", folder) == {0: (b"topic a: b", b"")}


def test_styles(folder):
    digits = task_of(folder, labels="digits")
    rows = examples(digits, "train", folder)
    assert digits.labels == ("0", "1")
    assert {number % 2: targets for number, (_, targets) in rows.items()} == {
        0: b"0",
        1: b"1",
    }
    few = task_of(folder, rows=7)
    assert len(examples(few, "train", folder)) == few.num_rows("train") == 7


def test_written_once_and_again_when_the_file_changed(folder, capsys):
    examples(task_of(folder), "train", folder)
    assert "prepared topic" in capsys.readouterr().out
    examples(task_of(folder), "train", folder)
    assert capsys.readouterr().out == ""
    (folder / "topic.csv").write_text(HEADER + lines(10))
    assert len(examples(task_of(folder), "train", folder)) == 9
    assert "prepared topic" in capsys.readouterr().out


def test_what_a_run_keeps_is_enough_without_the_files(folder):
    name, data_dir = str(folder / "mine.toml"), str(folder / "data")
    declared = declarations(name)
    examples(task_of(folder), "train", folder)
    (folder / "topic.csv").unlink()
    (folder / "mine.toml").unlink()
    (task,) = get_mixture(name, declared=declared).tasks
    assert task.num_rows("train", data_dir) == 36
    with pytest.raises(FileNotFoundError, match="no such file"):
        task.num_rows("train", str(folder / "elsewhere"))
    (folder / "topic.csv").write_text(HEADER + lines(10))
    with pytest.raises(ValueError, match="not the content that was there"):
        task.num_rows("train", str(folder / "elsewhere"))


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ("a,b,blug\n", r"line 42, column 'label': unknown label 'blug'; nearest: bug"),
        ("a,,bug\n", "line 42, column 'text': empty text; expected some, or empty ="),
        ("a,b,\n", "line 42, column 'label': empty; expected an answer"),
        ("a,b\n", "line 42, column 'label': the line has 2 fields"),
    ],
)
def test_a_bad_row_is_named_and_leaves_nothing(folder, rows, error):
    with (folder / "topic.csv").open("a") as file:
        file.write(rows)
    with pytest.raises(ValueError, match=r"\[topic\] .*topic.csv, " + error):
        task_of(folder).num_rows("train", str(folder / "data"))
    assert [n for n in os.listdir(folder / "data") if not n.endswith(".lock")] == []


def test_a_missing_column_and_an_empty_split(folder):
    (folder / "topic.csv").write_text("subject,body,label\na,b,bug\n")
    with pytest.raises(ValueError, match=r"line 2: unknown column 'text'.*body, lab"):
        task_of(folder).num_rows("train", str(folder / "data"))
    (folder / "topic.csv").write_text(HEADER)
    with pytest.raises(ValueError, match=r"\[topic\] train: no rows in .*topic.csv"):
        task_of(folder).num_rows("train", str(folder / "data"))
    (folder / "topic.csv").write_text(HEADER + lines(1))
    with pytest.raises(ValueError, match="train has 1 row; expected 2 or more"):
        task_of(folder).num_rows("train", str(folder / "data"))


def test_empty_texts_may_be_skipped_or_kept(folder):
    (folder / "topic.csv").write_text(HEADER + "a,,bug\n" + lines(9))
    skipped = task_of(folder, TABLE + 'empty = "skip"\n')
    kept = task_of(folder, TABLE + 'empty = "keep"\n')
    data_dir = str(folder / "data")
    for task, count in ((skipped, 9), (kept, 10)):
        total = sum(task.num_rows(s, data_dir) for s in ("train", "validation"))
        assert total == count


def tiny_tfds(data_dir):
    """A data set with a label as TFDS has it, and no code that knows it."""
    label = tfds.features.ClassLabel(names=["no", "yes"])
    features = {"deep": {"text": tfds.features.Text()}, "label": label}
    rows = [(i, {"deep": {"text": f"t{i}"}, "label": i % 2}) for i in range(20)]
    return tfds.dataset_builders.store_as_tfds_dataset(
        name="tiny",
        version="1.0.0",
        features=tfds.features.FeaturesDict(features),
        split_datasets={"train": rows, "validation": rows[:3]},
        data_dir=data_dir,
    ).data_dir


def test_prepared_tfds_data_by_name_and_by_folder(folder):
    data_dir = str(folder / "data")
    prepared = tiny_tfds(data_dir)
    text = TABLE.replace("{subject}: {text}", "{deep.text}")
    text = text.replace('["bug", "praise"]', '"from train"')
    rows = {}
    for source in ("tfds:tiny:1.0.0", prepared, f"{prepared}[train]"):
        (folder / "mine.toml").write_text(text.replace("topic.csv", source))
        (task,) = get_mixture(str(folder / "mine.toml"), data_dir=data_dir).tasks
        rows[source] = sorted(examples(task, "train", folder).values())
        assert task.labels == ("no", "yes")
    by_name, by_folder, part = rows.values()
    assert by_name == by_folder
    expected = [(f"t{i}".encode(), (b"no", b"yes")[i % 2]) for i in range(20)]
    assert by_name == sorted(expected)
    assert len(part) == 18  # it names one split, so that validation is taken out of it
    with pytest.raises(ValueError, match=r"split 'test' is unknown; it has train, val"):
        task_of(folder, text.replace("topic.csv", f"{prepared}[test]"))


def test_batches_go_on_where_they_stopped_on_any_number_of_hosts(folder):
    (folder / "mine.toml").write_text(TABLE + TABLE.replace("[topic]", "[other]"))
    mixture = get_mixture(str(folder / "mine.toml"))
    options = {
        "vocabulary": get_vocabulary("nano"),
        "batch_size": 4,
        "inputs_length": 16,
        "targets_length": 8,
        "data_dir": str(folder / "data"),
        "check_lengths": False,
    }

    def batches(count, **more):
        data = mixture.dataset("train", **options, **more).take(count)
        return [batch["encoder_tokens"].numpy() for batch in data]

    whole = batches(30)
    np.testing.assert_array_equal(whole[20:], batches(10, start=20))
    hosts = [batches(30, host=h, num_hosts=2) for h in range(2)]
    for batch, *parts in zip(whole, *hosts, strict=True):
        np.testing.assert_array_equal(batch, np.concatenate(parts))


def test_scores(folder):
    task = task_of(folder)
    rows = [{"targets": t} for t in ("bug", "bug", "praise")]
    scores = task.score(rows, ["bug", "praise", "praise"])
    assert scores["accuracy"] == pytest.approx(200 / 3)
    assert scores["macro_f1"] == pytest.approx(200 / 3)
    unread = task.score(rows, ["bug", "no label", "praise"])
    assert unread["macro_f1"] == pytest.approx(100 * (2 / 3 + 1) / 2)


def test_inputs_of_a_row_of_another_file(folder):
    task = task_of(folder)
    assert task.inputs_of({"subject": "a", "text": "b", "more": "c"}) == "a: b"
    assert task.inputs_of({"inputs": "as it is"}) == "as it is"
    with pytest.raises(ValueError, match="topic: unknown column 'text'"):
        task.inputs_of({"subject": "a"})
    ours = get_mixture("glue/rte").tasks[0]
    row = {"sentence1": "a", "sentence2": "b"}
    assert ours.inputs_of(row) == "rte sentence1: a sentence2: b"
    with pytest.raises(ValueError, match="glue/rte: cannot be written from columns x"):
        ours.inputs_of({"x": "a"})
