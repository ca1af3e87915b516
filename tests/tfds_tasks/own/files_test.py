"""Rows of users' files: every form gives the same, what is broken is named."""

import gzip
import json
import tracemalloc

import pyarrow
import pytest
from pyarrow import parquet

from tfds_tasks.own import files, text_file

ROWS = [
    {"text": 'He said "no",\nthen left', "label": "a"},
    {"text": "Zürich, 5\tmin", "label": "b"},
]


def write(path, content, encoding="utf-8"):
    content = content if isinstance(content, bytes) else content.encode(encoding)
    path.write_bytes(content)
    return str(path)


def _csv(delimiter):
    def cell(text):
        return '"' + text.replace('"', '""') + '"'

    lines = [["text", "label"], *[list(row.values()) for row in ROWS]]
    return "".join(delimiter.join(map(cell, line)) + "\r\n" for line in lines)


@pytest.fixture(
    params=["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.csv.gz", "bom.csv"]
)
def file(request, tmp_path):
    name, path = request.param, tmp_path / request.param
    if name.endswith(".parquet"):
        parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
        return str(path)
    texts = {
        "a.csv": _csv(","),
        "a.tsv": _csv("\t"),
        "a.jsonl": "".join(json.dumps(row) + "\n\n" for row in ROWS),
        "a.json": json.dumps(ROWS, indent=1),
        "a.csv.gz": gzip.compress(_csv(",").encode()),
        "bom.csv": _csv(",").encode("utf-8-sig"),
    }
    return write(path, texts[name])


def test_every_form_gives_the_same_rows(file):
    assert [row.values for row in files.read(file)] == ROWS


def test_lines_are_counted_as_an_editor_does(tmp_path):
    path = write(tmp_path / "a.csv", _csv(","))
    assert [row.line for row in files.read(path)] == [2, 4]


def test_values_of_json_are_text(tmp_path):
    row = {"n": 3, "x": 0.5, "yes": True, "none": None, "in": {"side": ["a", "b"]}}
    path = write(tmp_path / "a.jsonl", json.dumps(row))
    (read,) = files.read(path)
    assert read.values == {
        "n": "3",
        "x": "0.5",
        "yes": "true",
        "none": "",
        "in.side": "a b",
    }


def test_columns_encoding_and_quotes(tmp_path):
    path = write(tmp_path / "a.tsv", 'Zürich\t"x\nb"c\ty\n', "latin-1")
    rows = files.read(path, columns=["t", "l"], encoding="latin-1", quotes=False)
    assert [tuple(row.values.values()) for row in rows] == [
        ("Zürich", '"x'),
        ('b"c', "y"),
    ]


def test_utf_16(tmp_path):
    path = write(tmp_path / "a.csv", _csv(","), "utf-16")
    assert [r.values for r in files.read(path, encoding="utf-16")] == ROWS


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("a.csv", "t,l\na,b\nc\n", "line 3, column 'l': the line has 1 fields, expect"),
        ("a.csv", "t,l\na,b,c\n", "line 2, column 'l': the line has 3 fields"),
        ("a.csv", 't,l\n"a" b,c\n', "line 2: .*quotes = false"),
        ("a.csv", 't,l\n"a,c\n', "line 2: a quote opens a field and none closes"),
        ("a.csv", "t,t\na,b\n", "line 1, column 1: 't' stands twice"),
        ("a.csv", "t,\na,b\n", "line 1, column 2: has no name"),
        ("a.csv", b"t,l\nZ\xfcrich,b\n", "line 2, column 2: byte 0xfc is not utf-8"),
        ("a.jsonl", '{"t": 1}\n{"t": \n', "line 2, column 6: Expecting value"),
        ("a.jsonl", '{"t": 1}\n[1]\n', r"line 2: '\[1\]', expected a JSON object"),
        ("a.json", '[{"t": 1},\n 3]', "line 2: '3', expected a JSON object"),
        ("a.json", '[{"t": 1}, 3]', "line 1, row 2: '3', expected a JSON object"),
        ("a.json", '[{"t": 1},\n{"t" 1}]', "line 2, column 6: Expecting ':' delimiter"),
        ("a.json", '[{"t": 1}\n{"t": 1}]', "line 2, column 1: Expecting ',' or ']'"),
        ("a.json", '[{"t": 1},]', "line 1, column 11: Expecting value"),
        ("a.json", '[{"t": "a', "line 1, column 8: Unterminated string"),
        ("a.json", '[{"t": 1}] x', "line 1, column 12: Extra data after the array"),
        ("a.csv", "t,l\ra,b\r", "line 1: a line ends in .r alone"),
        ("a.csv", "t\n" + 2**24 * "x" + "x\n", "line 2: a field has more than 16,777"),
        ("a.tsv", 't\tl\n"a" b\tc\n', r"line 2: letters stand between .*'\\t'; expec"),
        ("a.csv.gz", gzip.compress(b"t\n" * 99, mtime=0)[:-9], "not a whole .gz file"),
        ("a.csv.gz", b"t\nb\n", "not a whole .gz file"),
        ("a.csv", "t\na".encode("utf-16"), 'column 1: .* encoding = "utf-16"'),
        ("a.parquet", "PAR0", "not a Parquet file"),
        ("a.xlsx", "", "ending '.xlsx', expected one of .csv, .tsv"),
    ],
)
def test_what_is_broken_is_named(tmp_path, name, content, error):
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=error) as raised:
        list(files.read(path))
    assert path in str(raised.value)


def test_no_file_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.csv: no such file"):
        files.read(tmp_path / "none.csv")
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(ValueError, match="is a folder, expected a file"):
        files.read(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_large_file_is_streamed(tmp_path, name):
    row = 200 * "x"
    line = f"{row}\n" if name == "a.csv" else f'{{"t": "{row}"}}\n'
    path = write(tmp_path / name, "t\n" * (name == "a.csv") + line * 50_000)
    tracemalloc.start()
    count = sum(1 for _ in files.read(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 50_000
    assert peak < 2**20  # of 10 MB


@pytest.mark.parametrize("block", [1, 7, 2**16])
@pytest.mark.parametrize("indent", [None, 1])
def test_an_array_is_read_in_blocks(tmp_path, monkeypatch, block, indent):
    monkeypatch.setattr(text_file, "BLOCK", block)
    rows = [{**row, "n": {"é": -1.5e3}} for row in ROWS * 3]
    path = write(tmp_path / "a.json", json.dumps(rows, indent=indent))
    read = list(files.read(path))
    assert [row.values for row in read] == [
        {"text": row["text"], "label": row["label"], "n.é": "-1500.0"} for row in rows
    ]
    places = [row.place.split(", ", 1)[1] for row in read]
    lines = [f"line {2 + 7 * i}" for i in range(6)]
    in_one = ["line 1", *[f"line 1, row {i}" for i in range(2, 7)]]
    assert places == (lines if indent else in_one)


def test_objects_over_several_lines(tmp_path):
    text = "\n".join(json.dumps(row, indent=2) for row in ROWS)
    path = write(tmp_path / "a.json", text)
    assert [row.values for row in files.read(path)] == ROWS
    assert [row.line for row in files.read(path)] == [1, 5]


def test_a_large_array_is_streamed_and_an_error_in_it_comes_at_once(tmp_path):
    rows = ",".join(['{"t": "' + 200 * "x" + '"}'] * 50_000)
    path = write(tmp_path / "a.json", f"[{rows}]")
    tracemalloc.start()
    count = sum(1 for _ in files.read(path))
    _, peak = tracemalloc.get_traced_memory()
    broken = write(tmp_path / "b.json", '[{"t" 1},' + rows)
    with pytest.raises(ValueError, match="line 1, column 7"):
        list(files.read(broken))
    tracemalloc.stop()
    assert count == 50_000
    assert peak < 2**20  # of 10 MB


def test_a_line_of_names_is_no_row(tmp_path):
    columns = ["text", "label"]
    for header in ("", "text,label\n"):
        path = write(tmp_path / "a.csv", header + "x,a\n")
        (row,) = files.read(path, columns=columns)
        assert row.values == {"text": "x", "label": "a"}
    path = write(tmp_path / "a.csv", "label,text\na,x\n")  # in another order
    (row,) = files.read(path, columns=columns)
    assert row.values == {"text": "x", "label": "a"}


def test_other_text_files(tmp_path):
    path = write(
        tmp_path / "a.label", "LOC:city Où est-ce ?\n\nNUM:a:b 1 2\r\n", "latin-1"
    )
    rows = files.read(path, line="{label}:{kind} {text}", encoding="latin-1")
    assert [(row.line, *row.values.values()) for row in rows] == [
        (1, "LOC", "city", "Où est-ce ?"),
        (3, "NUM", "a:b", "1 2"),
    ]
    with pytest.raises(
        ValueError, match=r"line 1: 'LOC:city Où est-ce .' is not as line"
    ):
        list(files.read(path, line="{label}={text}", encoding="latin-1"))
    path = write(tmp_path / "a.txt", "a;b\n1;2\n")
    (row,) = files.read(path, delimiter=";")
    assert row.values == {"a": "1", "b": "2"}
    with pytest.raises(ValueError, match=r"ending '\.txt', .* delimiter = .* line = "):
        files.read(path)
    path = write(tmp_path / "a.txt", '{"a": 1}\n{"a": 2}\n')
    rows = list(files.read(path, format="jsonl"))
    assert [row.values for row in rows] == [{"a": "1"}, {"a": "2"}]
    assert rows[1].line == 2


def test_what_is_null_and_what_is_no_text(tmp_path):
    (row,) = files.read(write(tmp_path / "a.jsonl", '{"t": NaN, "u": null}'))
    assert row.values == {"t": "", "u": ""}
    table = pyarrow.Table.from_pylist([{"t": "x", "png": b"\xff"}])
    parquet.write_table(table, tmp_path / "a.parquet")
    (row,) = files.read(tmp_path / "a.parquet")
    assert (row.values, row.unreadable) == ({"t": "x"}, ("png",))
