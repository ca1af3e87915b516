"""A run of tasks that a TOML file declares, and files of their rows."""

import csv
import io
import json

import pyarrow
from pyarrow import parquet

from experiments.runs import components
from tests.experiments.small_run import CONFIG, make_run

TOPIC = """
[topic]
train = "train.csv"
inputs = "{subject}: {body}"
targets = "{queue}"
labels = {S = "sports", W = "world"}

[echo]
train = "train.csv"
inputs = "{body}"
targets = "{subject}"
metrics = ["accuracy"]
"""
ROWS = [
    {"id": str(i), "subject": f"dog {i}", "body": 'a "cat", \n or\ttwo', "queue": q}
    for i, q in enumerate("SWSSWSW")
]
NEW = ["answer", "score", "p(sports)", "p(world)"]  # columns


def make_own_run(path):
    """The folder of the run; nobody trained it."""
    write(path / "train.csv", ROWS)
    (path / "mine.toml").write_text(TOPIC)
    config = CONFIG.replace(mixture=str(path / "mine.toml"), conditioner="none")
    return make_run(path / "run", components.with_declarations(config, None))


def write(path, rows):
    """A file as people make it."""
    form, columns = path.suffix[1:], list(rows[0])
    if form == "parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif form in ("csv", "tsv"):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, delimiter=",\t"[form == "tsv"])
            writer.writeheader()
            writer.writerows(rows)
    elif form == "json":
        path.write_text(json.dumps(rows, indent=2))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path):
    """Rows with numbers as numbers."""
    form = path.suffix[1:]
    if form == "parquet":
        return parquet.read_table(path).to_pylist()
    text = path.read_text()
    if form == "json":
        return json.loads(text)
    if form == "jsonl":
        return [json.loads(line) for line in text.splitlines()]
    rows = list(csv.DictReader(io.StringIO(text), delimiter=",\t"[form == "tsv"]))
    return [
        {k: float(v) if k in NEW[1:] else v for k, v in row.items()} for row in rows
    ]
