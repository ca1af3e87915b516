"""Files for the servers have the servers' form, and what is missing is named."""

import doctest
import json
import logging
import zipfile

import pytest

from tests.conftest import shared_path
from tfds_tasks import benchmarks, get_task, submission

CLASSES = json.loads(shared_path("goldens/t5_text/label_classes.json").read_text())
FILES = submission.files("glue") | submission.files("super_glue")


def numbered(task, count):
    """Examples of a test set, with all the indices that a task may have."""
    keys = ("idx", "idx/paragraph", "idx/question", "idx/answer", "idx/query")
    if task == "super_glue/multirc":
        # Two answers to a question, two questions to a passage, as numbered there.
        return [
            {"idx/paragraph": i // 4, "idx/question": i // 2, "idx/answer": i}
            for i in range(count)
        ]
    return [{**dict.fromkeys(keys, i), "targets": "the old man"} for i in range(count)]


def some_text(task, i):
    if get_task(task).choices is not None:
        return CLASSES[task][i % len(CLASSES[task])]
    return ("3.8", "0.0")[i % 2] if task == "glue/stsb" else ("man", "Ann")[i % 2]


def write_all(folder, benchmark, size=9):
    files = submission.files(benchmark)
    for task in files:
        texts = [some_text(task, i) for i in range(size)]
        submission.write(folder, task, numbered(task, size), texts)
    return dict.fromkeys(files, size)


@pytest.fixture(params=benchmarks.BENCHMARKS)
def benchmark(request):
    return request.param


@pytest.mark.parametrize(
    ("task", "texts", "name", "lines"),
    [
        ("glue/cola", ["acceptable", "unacceptable"], "CoLA.tsv", "1 0"),
        ("glue/sst2", ["negative", "positive"], "SST-2.tsv", "0 1"),
        ("glue/mrpc", ["equivalent", "not_equivalent"], "MRPC.tsv", "1 0"),
        ("glue/stsb", ["3.8", " 0 "], "STS-B.tsv", "3.800 0.000"),
        ("glue/qqp", ["duplicate", "not_duplicate"], "QQP.tsv", "1 0"),
        ("glue/mnli_matched", ["neutral"], "MNLI-m.tsv", "neutral"),
        ("glue/mnli_mismatched", ["contradiction"], "MNLI-mm.tsv", "contradiction"),
        ("glue/qnli", ["not_entailment"], "QNLI.tsv", "not_entailment"),
        ("glue/rte", ["entailment"], "RTE.tsv", "entailment"),
        ("glue/wnli", ["entailment", "not_entailment"], "WNLI.tsv", "1 0"),
        ("glue/ax", ["contradiction"], "AX.tsv", "contradiction"),
    ],
)
def test_glue_files(tmp_path, task, texts, name, lines):
    written = submission.write(tmp_path, task, numbered(task, len(texts)), texts)
    assert written == submission.Written(tmp_path / name, len(texts), 0)
    rows = [f"{i}\t{label}\n" for i, label in enumerate(lines.split())]
    assert written.path.read_bytes().decode() == "index\tprediction\n" + "".join(rows)


@pytest.mark.parametrize(
    ("task", "texts", "name", "labels"),
    [
        ("boolq", ["True", "False"], "BoolQ.jsonl", ["true", "false"]),
        ("cb", ["neutral", "entailment"], "CB.jsonl", ["neutral", "entailment"]),
        ("copa", ["choice2", "choice1"], "COPA.jsonl", [1, 0]),
        ("record", [" São Paulo"], "ReCoRD.jsonl", ["São Paulo"]),
        ("rte", ["not_entailment"], "RTE.jsonl", ["not_entailment"]),
        ("wic", ["True", "False"], "WiC.jsonl", ["true", "false"]),
        ("wsc", ["Man", "Ann"], "WSC.jsonl", ["True", "False"]),
        ("axb", ["entailment"], "AX-b.jsonl", ["entailment"]),
        ("axg", ["not_entailment"], "AX-g.jsonl", ["not_entailment"]),
    ],
)
def test_super_glue_files(tmp_path, task, texts, name, labels):
    task = f"super_glue/{task}"
    written = submission.write(tmp_path, task, numbered(task, len(texts)), texts)
    assert written == submission.Written(tmp_path / name, len(texts), 0)
    rows = [json.loads(line) for line in written.path.read_text().splitlines()]
    assert rows == [{"idx": i, "label": label} for i, label in enumerate(labels)]


def test_multirc_is_nested(tmp_path):
    examples = numbered("super_glue/multirc", 5)
    texts = ["True", "False", "False", "True", "True"]
    written = submission.write(tmp_path, "super_glue/multirc", examples, texts)
    assert [json.loads(line) for line in written.path.read_text().splitlines()] == [
        {
            "idx": 0,
            "passage": {
                "questions": [
                    {
                        "idx": 0,
                        "answers": [{"idx": 0, "label": 1}, {"idx": 1, "label": 0}],
                    },
                    {
                        "idx": 1,
                        "answers": [{"idx": 2, "label": 0}, {"idx": 3, "label": 1}],
                    },
                ]
            },
        },
        {
            "idx": 1,
            "passage": {"questions": [{"idx": 2, "answers": [{"idx": 4, "label": 1}]}]},
        },
    ]


def test_rows_come_in_the_order_of_their_index(tmp_path, benchmark):
    for task in submission.files(benchmark):
        examples = numbered(task, 6)
        texts = [some_text(task, i) for i in range(6)]
        sorted_ = submission.write(tmp_path / "a", task, examples, texts).path
        turned = submission.write(
            tmp_path / "b", task, examples[::-1], texts[::-1]
        ).path
        assert sorted_.read_text() == turned.read_text()


def test_a_query_of_record_is_written_once(tmp_path):
    examples = [{"idx/query": i} for i in (1, 0, 1)]
    written = submission.write(
        tmp_path, "super_glue/record", examples, ["Oslo", "Rome", "Lima"]
    )
    rows = [json.loads(line) for line in written.path.read_text().splitlines()]
    assert rows == [{"idx": 0, "label": "Rome"}, {"idx": 1, "label": "Oslo"}]


@pytest.mark.parametrize("task", FILES)
def test_unreadable_text_is_a_valid_row_and_reported_once(tmp_path, task, caplog):
    texts = [some_text(task, 0), "", "", some_text(task, 1)]
    with caplog.at_level(logging.WARNING, logger="absl"):
        written = submission.write(tmp_path, task, numbered(task, 4), texts)
    assert (written.rows, written.unparsable) == (4, 2)
    (record,) = caplog.records
    assert "2 of 4 predictions" in record.getMessage()
    benchmark = task.split("/")[0]
    sizes = dict.fromkeys(submission.files(benchmark), 4)
    problems = submission.check(tmp_path, benchmark, sizes)
    assert not [p for p in problems if p.startswith(FILES[task].name)]


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "5.01", "3,8"])
def test_similarity_is_within_its_scale(tmp_path, text):
    written = submission.write(tmp_path, "glue/stsb", [{"idx": 0}], [text])
    assert written.unparsable == 1
    assert written.path.read_text() == "index\tprediction\n0\t2.500\n"


def test_other_ways_to_write_a_task(tmp_path):
    digits = get_task("glue/qnli", labels="digits")
    written = submission.write(tmp_path, digits, numbered("", 2), ["1", "0"])
    labels = ["0", "not_entailment", "1", "entailment"]
    assert written.path.read_text().split()[2:] == labels
    # WNLI that asks whom the pronoun means fills the same file.
    texts = ["old man", "Ann"]
    wnli = submission.write(tmp_path, "glue/wnli_simple", numbered("", 2), texts)
    assert wnli.path.name == FILES["glue/wnli"].name
    assert wnli.path.read_text().split()[2:] == ["0", "1", "1", "0"]


def test_complete_files_are_packed(tmp_path, benchmark):
    sizes = write_all(tmp_path, benchmark)
    assert submission.check(tmp_path, benchmark, sizes) == []
    (tmp_path / "notes.txt").touch()
    path = submission.pack(tmp_path, benchmark, sizes)
    with zipfile.ZipFile(path) as archive:
        names = {file.name for file in submission.files(benchmark).values()}
        assert set(archive.namelist()) == names
        for name in names:
            assert archive.read(name) == (tmp_path / name).read_bytes()
    elsewhere = tmp_path / "upload.zip"
    assert submission.pack(tmp_path, benchmark, sizes, elsewhere) == elsewhere


def test_each_missing_file_is_named(tmp_path, benchmark):
    sizes = write_all(tmp_path, benchmark)
    for file in submission.files(benchmark).values():
        text = (tmp_path / file.name).read_text()
        (tmp_path / file.name).unlink()
        problems = [f"{file.name} is missing"]
        assert submission.check(tmp_path, benchmark, sizes) == problems
        with pytest.raises(ValueError, match=file.name):
            submission.pack(tmp_path, benchmark, sizes)
        (tmp_path / file.name).write_text(text)
    assert not list(tmp_path.glob("*.zip"))


@pytest.mark.parametrize("task", FILES)
def test_wrong_rows_are_named(tmp_path, task):
    benchmark = task.split("/")[0]
    sizes = write_all(tmp_path, benchmark, size=4)
    name = FILES[task].name

    def problems(indices):
        key = FILES[task].index
        examples = [{**numbered(task, 30)[i], key: i} for i in indices]
        if task == "super_glue/record":  # writing drops what is doubled
            path = tmp_path / name
            lines = [json.dumps({"idx": i, "label": "x"}) for i in indices]
            path.write_text("\n".join(lines))
        else:
            texts = [some_text(task, 0)] * len(indices)
            submission.write(tmp_path, task, examples, texts)
        return submission.check(tmp_path, benchmark, sizes)

    assert problems([0, 1, 2, 3]) == []
    assert problems([0, 3]) == [f"{name} lacks rows: 1, 2"]
    assert problems([0, 1, 1, 2, 3, 3]) == [f"{name} repeats rows: 1, 3"]
    assert problems([0, 1, 2, 3, 7]) == [f"{name} has rows outside 0..3: 7"]
    many = ", ".join(map(str, range(4, 14)))
    assert problems(range(20)) == [f"{name} has rows outside 0..3: {many} and 6 more"]


@pytest.mark.parametrize(
    ("task", "text", "problem"),
    [
        (
            "glue/cola",
            "index\tprediction\n0\tacceptable\n",
            "has unknown labels in rows: 0",
        ),
        ("glue/stsb", "index\tprediction\n0\t5.5\n", "has unknown labels in rows: 0"),
        ("glue/rte", "0\tentailment\n", "cannot be read: .*first line"),
        ("glue/rte", "", "cannot be read: .*first line"),
        ("glue/rte", "index\tprediction\n0 entailment\n", "cannot be read"),
        (
            "super_glue/copa",
            '{"idx": 0, "label": "0"}',
            "has unknown labels in rows: 0",
        ),
        (
            "super_glue/copa",
            '{"idx": 0, "label": false}',
            "has unknown labels in rows: 0",
        ),
        (
            "super_glue/boolq",
            '{"idx": 0, "label": true}',
            "has unknown labels in rows: 0",
        ),
        (
            "super_glue/wsc",
            '{"idx": 0, "label": "true"}',
            "has unknown labels in rows: 0",
        ),
        (
            "super_glue/wic",
            '{"idx": 0, "label": "True"}',
            "has unknown labels in rows: 0",
        ),
        ("super_glue/cb", '{"idx": 0}', "cannot be read: KeyError: 'label'"),
        ("super_glue/cb", "entailment", "cannot be read: JSONDecodeError"),
        ("super_glue/multirc", '{"idx": 0, "label": 1}', "cannot be read: KeyError"),
    ],
)
def test_what_the_server_cannot_read_is_named(tmp_path, task, text, problem):
    benchmark = task.split("/")[0]
    sizes = write_all(tmp_path, benchmark, size=1)
    (tmp_path / FILES[task].name).write_text(text)
    with pytest.raises(ValueError, match=rf"{FILES[task].name} {problem}"):
        submission.pack(tmp_path, benchmark, sizes)


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(ValueError, match="1 predictions for 2 examples"):
        submission.write(tmp_path, "glue/rte", numbered("", 2), ["entailment"])
    with pytest.raises(ValueError, match="0 predictions"):
        submission.write(tmp_path, "glue/rte", [], [])
    with pytest.raises(ValueError, match=r"'squad'.*glue/cola"):
        submission.write(tmp_path, "squad", numbered("", 1), ["x"])
    for use in (submission.files, lambda name: submission.check(tmp_path, name)):
        with pytest.raises(ValueError, match="unknown benchmark 'xglue'; nearest: gl"):
            use("xglue")


def test_without_sizes_the_whole_test_set_is_expected(tmp_path, benchmark):
    sizes = write_all(tmp_path, benchmark, size=2)
    problems = submission.check(tmp_path, benchmark)
    assert [problem.split()[0] for problem in problems] == [
        file.name for file in submission.files(benchmark).values()
    ]
    assert all("lacks rows: 2, 3" in problem for problem in problems)
    with pytest.raises(ValueError, match="lacks rows"):
        submission.pack(tmp_path, benchmark)
    assert not list(tmp_path.glob("*.zip"))
    assert submission.check(tmp_path, benchmark, sizes) == []


def test_examples_in_docstrings_run():
    result = doctest.testmod(submission)
    assert result.attempted and not result.failed
