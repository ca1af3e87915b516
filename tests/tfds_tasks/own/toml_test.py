"""TOML files that declare tasks: what they give, and what is wrong with them."""

from dataclasses import replace

import pytest

from tfds_tasks import get_mixture
from tfds_tasks.named_mixtures import declarations, identities
from tfds_tasks.own import rows, toml_file
from tfds_tasks.own.declaration import Declaration

TABLE = """[topic]
train = "topic.csv"
inputs = "{text}"
targets = "{label}"
labels = ["bug", "praise"]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "topic.csv").write_text("text,label\nit broke,bug\nlovely,praise\n")
    (tmp_path / "mine.toml").write_text(TABLE)
    return tmp_path


def test_a_declaration_goes_through_json(folder):
    (declared,) = toml_file.read(folder / "mine.toml").values()
    again = Declaration.from_dict(declared.to_dict())
    assert again == declared
    assert again.fingerprint == declared.fingerprint
    assert declared.files == {"train": (str(folder / "topic.csv"),)}
    assert declared.metrics == ("accuracy",)


def test_labels_from_train_and_by_table(folder):
    text = TABLE.replace('["bug", "praise"]', '"from train"')
    (folder / "a.toml").write_text(text)
    assert toml_file.read(folder / "a.toml")["topic"].label_words == ("bug", "praise")
    text = TABLE.replace('["bug", "praise"]', '{bug = "wrong", praise = "right"}')
    (folder / "b.toml").write_text(text)
    (task,) = get_mixture(str(folder / "b.toml")).tasks
    assert task.labels == ("wrong", "right")


def test_rows_prepared_without_a_newer_key_keep_their_name():
    keys = {"name": "a", "files": {}, "contents": {}, "inputs": "{a}", "targets": "{b}"}
    declared = Declaration(**keys, labels=None)
    assert declared.source == "own_a/8e6243a05be629fa:1.0.0"
    for key in ("delimiter", "line", "format"):
        assert replace(declared, **{key: ";"}).source != declared.source


def test_a_file_whose_ending_does_not_tell_its_form(folder):
    (folder / "topic.txt").write_text('{"text": "it broke", "label": "bug"}\n')
    text = TABLE.replace("topic.csv", "topic.txt")
    (folder / "a.toml").write_text(text + 'format = "jsonl"\n')
    declared = toml_file.read(folder / "a.toml")["topic"]
    (row,) = rows.text_rows(declared, "train")
    assert (row.inputs, row.targets) == ("it broke", "bug")
    assert declared.reads_alike("other.label")
    assert not declared.reads_alike("other.csv")
    (folder / "b.toml").write_text(text + 'format = "xls"\n')
    with pytest.raises(ValueError, match=r"format: 'xls', expected one of csv, tsv"):
        toml_file.read(folder / "b.toml")
    (folder / "b.toml").write_text(text + 'format = "csv"\nline = "{text}:{label}"\n')
    with pytest.raises(ValueError, match="format: 'csv', expected none beside line"):
        toml_file.read(folder / "b.toml")


def test_what_changes_the_rows_changes_the_fingerprint(folder):
    def fingerprint(text=TABLE):
        (folder / "mine.toml").write_text(text)
        return toml_file.read(folder / "mine.toml")["topic"].fingerprint

    first = fingerprint()
    assert fingerprint() == first
    assert fingerprint(TABLE + 'metrics = ["macro_f1"]\n') == first
    assert fingerprint(TABLE.replace("{text}", "ticket: {text}")) != first
    assert fingerprint(TABLE + "seed = 1\n") != first
    (folder / "topic.csv").write_text("text,label\nit breaks,bug\nlovely,praise\n")
    assert fingerprint() != first


def test_a_run_is_another_if_rows_or_rate_are(folder):
    def identity(text):
        (folder / "mine.toml").write_text(text)
        return identities(declarations(str(folder / "mine.toml")))

    assert identity(TABLE) == identity(TABLE + 'metrics = ["macro_f1"]\n')
    assert identity(TABLE) != identity(TABLE + "rate = 5\n")


def test_moved_files_are_the_same_task(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for name in ("topic.csv", "mine.toml"):
        (other / name).write_bytes((folder / name).read_bytes())
    here, there = (toml_file.read(f / "mine.toml")["topic"] for f in (folder, other))
    assert here.files != there.files
    assert here.identity == there.identity


def test_beside_ours(folder):
    mixture = get_mixture(f"nano,glue/rte,{folder / 'mine.toml'}", temperature=2.0)
    names = [task.name for task in mixture.tasks]
    assert names[-2:] == ["glue/rte", "topic"]
    assert names[:-2] == [task.name for task in get_mixture("nano").tasks]
    assert mixture.task_id("topic") == len(names) - 1
    assert mixture.rates.temperature == 2.0


def test_several_files_and_globs(folder):
    for name in ("part-2.csv", "part-1.csv"):
        (folder / name).write_text("text,label\nx,bug\n")
    text = TABLE.replace('"topic.csv"', '["topic.csv", "part-*.csv"]')
    (folder / "mine.toml").write_text(text)
    files = toml_file.read(folder / "mine.toml")["topic"].files["train"]
    assert [name.rsplit("/", 1)[1] for name in files] == [
        "topic.csv",
        "part-1.csv",
        "part-2.csv",
    ]


def changed(old, new):
    assert old in TABLE
    return TABLE.replace(old, new)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (TABLE + "a = = 1", r"mine.toml: .*line 6, column 5"),
        ("", "declares no task"),
        ("x = 1", r"\[x\]: x = 1, expected a table \[x\]"),
        (TABLE + "metric = 1", r"line 6, \[topic\] metric: unknown key .*: metrics"),
        (TABLE + 'metrics = "x"', r"line 6, \[topic\] metrics: 'x', expected a list"),
        (TABLE + 'metrics = ["acuracy"]', r"line 6.*'acuracy'; nearest: accuracy"),
        (TABLE + 'metrics = ["rouge"]', r"line 6.*rouge reads text, .* has labels"),
        (changed("[topic]", '["glue/cola"]'), "'glue/cola' is taken"),
        (changed("[topic]", '["a b"]'), "task name 'a b', expected letters"),
        (changed('"topic.csv"', '"tipic.csv"'), r"line 2, \[topic\] train: .*no such"),
        (
            changed('"topic.csv"', '"*.tsv"'),
            r"line 2, \[topic\] train: .*no file",
        ),
        (changed('"{text}"', '"text"'), r"line 3, \[topic\] inputs: .*has no column"),
        (changed('"{text}"', '"{text"'), r"line 3, \[topic\] inputs: .*written twice"),
        (changed('"{text}"', '"{ }"'), "{ }, expected the name of a column"),
        (changed('targets = "{label}"\n', ""), r"line 1, \[topic\]: targets is absent"),
        (changed('["bug", "praise"]', '["bug"]'), "line 5.*expected a list of two"),
        (TABLE + "rate = 0", r"line 6, \[topic\] rate: 0, expected an integer >= 1"),
        (TABLE + 'encoding = "utf-9"', "line 6.*'utf-9', expected the name of an enc"),
        (TABLE + "validation_share = 1.5", "line 6.*1.5, expected a number between"),
        (TABLE + 'empty = "drop"', "line 6.*'drop', expected one of refuse, skip"),
        (TABLE + TABLE.replace("topic]", "other]"), None),
        (TABLE + TABLE, "Cannot declare"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(folder, text, error):
    (folder / "mine.toml").write_text(text)
    if error is None:
        assert len(toml_file.read(folder / "mine.toml")) == 2
        return
    with pytest.raises(ValueError, match=error) as raised:
        toml_file.read(folder / "mine.toml")
    assert "mine.toml" in str(raised.value)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ("text\na\n", "unknown column 'label'"),
        ("text,label\na,b\n", "unknown label 'b'"),
    ],
)
def test_the_first_row_of_every_task_is_seen_before_any_is_prepared(
    folder, rows, error
):
    (folder / "other.csv").write_text(rows)
    (folder / "mine.toml").write_text(TABLE + TABLE.replace("topic", "other"))
    with pytest.raises(ValueError, match=rf"\[other\] .*other.csv, .*{error}"):
        toml_file.read(folder / "mine.toml")


def test_a_name_in_two_files(folder):
    (folder / "other.toml").write_text(TABLE)
    with pytest.raises(ValueError, match="lists topic more than once"):
        get_mixture(f"{folder / 'mine.toml'},{folder / 'other.toml'}")


def test_no_such_file():
    with pytest.raises(FileNotFoundError, match=r"no\.toml: no such file"):
        get_mixture("no.toml")
