"""Files for the GLUE and SuperGLUE servers: written, checked, zipped.

The servers hold the labels of the test sets. GLUE takes a TSV file for each task with
the header "index<tab>prediction". SuperGLUE takes lines {"idx": ..., "label": ...} of
JSON, for MultiRC a line for each passage with its questions and their answers inside.
Names and labels are those of jiant, the toolkit of the benchmarks' authors, and of T5.

    for name in tasks:
        submission.write(folder, name, examples[name], predictions[name])
    submission.pack(folder, "glue", sizes)
"""

import json
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from absl import logging

from tfds_tasks.scores.metrics import check_sizes
from tfds_tasks.scores.readers import Labels, Number, Referent, Text

HEADER = "index\tprediction"
LISTED = 10  # a message names so many indices, and counts the others


@dataclass(frozen=True)
class Choice:
    """The server's form of each class. Without one it is the first."""

    labels: tuple

    @property
    def fallback(self):
        return self.labels[0]

    def label(self, number):
        return self.labels[number] if 0 <= number < len(self.labels) else None

    def accepts(self, label):
        return (type(label), label) in [(type(known), known) for known in self.labels]


@dataclass(frozen=True)
class Scale:
    """A number between two others. Without one it is their middle."""

    low: float
    high: float

    @property
    def fallback(self):
        return self.label((self.low + self.high) / 2)

    def label(self, number):
        return f"{number:.3f}" if self.low <= number <= self.high else None

    def accepts(self, label):
        return self.label(Number().prediction(label, {})) is not None


@dataclass(frozen=True)
class Words:
    """Any text. Without one it is empty."""

    fallback = ""

    def label(self, text):
        return text.strip() or None

    def accepts(self, label):
        return isinstance(label, str)


@dataclass(frozen=True)
class File:
    """A task's file: its name, how the model's text is read, what the server takes.

    `index` is the key of an example that numbers the rows.
    """

    name: str
    reader: object
    form: Choice | Scale | Words
    index: str = "idx"


def _labels(name, classes, labels=None, index="idx"):
    return File(name, Labels(classes), Choice(tuple(labels or classes)), index)


INFERENCE = ("entailment", "neutral", "contradiction")
ENTAILMENT = ("entailment", "not_entailment")
BOOLEAN = ("False", "True")

GLUE = {
    "glue/cola": _labels("CoLA.tsv", ("unacceptable", "acceptable"), "01"),
    "glue/sst2": _labels("SST-2.tsv", ("negative", "positive"), "01"),
    "glue/mrpc": _labels("MRPC.tsv", ("not_equivalent", "equivalent"), "01"),
    "glue/stsb": File("STS-B.tsv", Number(), Scale(0, 5)),
    "glue/qqp": _labels("QQP.tsv", ("not_duplicate", "duplicate"), "01"),
    "glue/mnli_matched": _labels("MNLI-m.tsv", INFERENCE),
    "glue/mnli_mismatched": _labels("MNLI-mm.tsv", INFERENCE),
    "glue/qnli": _labels("QNLI.tsv", ENTAILMENT),
    "glue/rte": _labels("RTE.tsv", ENTAILMENT),
    "glue/wnli": _labels("WNLI.tsv", ENTAILMENT[::-1], "01"),
    "glue/ax": _labels("AX.tsv", INFERENCE),
}
SUPER_GLUE = {
    "super_glue/boolq": _labels("BoolQ.jsonl", BOOLEAN, ("false", "true")),
    "super_glue/cb": _labels("CB.jsonl", ("entailment", "contradiction", "neutral")),
    "super_glue/copa": _labels("COPA.jsonl", ("choice1", "choice2"), (0, 1)),
    "super_glue/multirc": _labels("MultiRC.jsonl", BOOLEAN, (0, 1), "idx/answer"),
    "super_glue/record": File("ReCoRD.jsonl", Text(), Words(), "idx/query"),
    "super_glue/rte": _labels("RTE.jsonl", ENTAILMENT),
    "super_glue/wic": _labels("WiC.jsonl", BOOLEAN, ("false", "true")),
    "super_glue/wsc": File("WSC.jsonl", Referent(), Choice(BOOLEAN)),
    "super_glue/axb": _labels("AX-b.jsonl", ENTAILMENT),
    "super_glue/axg": _labels("AX-g.jsonl", ENTAILMENT),
}
BENCHMARKS = {"glue": GLUE, "super_glue": SUPER_GLUE}


@dataclass(frozen=True)
class Written:
    """A file, its number of rows, and how many have a label only for want of one."""

    path: Path
    rows: int
    unparsable: int


def write(folder, task_name, examples, predictions, reader=None):
    """Writes the file of a task into the folder, in the order of the index.

    Every row needs a label that the server knows, so text that cannot be read becomes
    the first label (STS-B: 2.5; ReCoRD: empty), which is warned of once.

    Args:
        folder: where to; made if absent.
        task_name: such as "glue/cola".
        examples: of the test set, as `task.to_text` gives them. If they repeat a query
            of ReCoRD, the first counts.
        predictions: the text that the model wrote for each.
        reader: reads the text if the task is not written as T5 does: `Labels("01")`
            for digits, `Referent()` for a WNLI that asks whom the pronoun means.

    Returns:
        `Written`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     examples = [{"idx": 1}, {"idx": 0}]
    ...     written = write(folder, "super_glue/boolq", examples, ["False", "True"])
    ...     print(written.path.name, written.path.read_text(), sep=chr(10), end="")
    BoolQ.jsonl
    {"idx": 0, "label": "true"}
    {"idx": 1, "label": "false"}
    """
    file = _file(task_name)
    check_sizes(predictions, examples=examples)
    rows = _rows(file, examples, predictions, reader or file.reader)
    unparsable = sum(label is None for _, label in rows)
    fallback = file.form.fallback
    if unparsable:
        logging.warning(
            "%s: %d of %d predictions cannot be read; written as %r",
            *(file.name, unparsable, len(rows), fallback),
        )
    rows = [(e, fallback if label is None else label) for e, label in rows]
    path = Path(folder, file.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{line}\n" for line in _lines(file, rows))
    path.write_text(lines, encoding="utf-8", newline="\n")
    return Written(path, len(rows), unparsable)


def check(folder, benchmark, sizes):
    """A list of what the server would refuse or count as wrong, empty if it is ready.

    Args:
        folder: with the files that `write` made.
        benchmark: "glue" or "super_glue"; the server wants all of its files.
        sizes: {task: number of rows of its test set}; for MultiRC of answers, for
            ReCoRD of queries, as TFDS counts them.
    """
    if benchmark not in BENCHMARKS:
        known = ", ".join(BENCHMARKS)
        raise ValueError(f"benchmark {benchmark!r} is unknown; expected one of {known}")
    files = BENCHMARKS[benchmark]
    if absent := [task for task in files if task not in sizes]:
        raise ValueError(f"sizes of {', '.join(absent)} are missing")
    problems = []
    for task, file in files.items():
        path = Path(folder, file.name)
        found = _problems(file, path, sizes[task]) if path.is_file() else ["is missing"]
        problems += [f"{file.name} {problem}" for problem in found]
    return problems


def pack(folder, benchmark, sizes, path=None):
    """Zips the files for upload, into the folder unless a path is given.

    Raises a ValueError with all that `check` finds, if it finds anything.
    """
    if problems := check(folder, benchmark, sizes):
        raise ValueError(
            f"{folder} is not ready for {benchmark}: {'; '.join(problems)}"
        )
    path = Path(path or Path(folder, f"{benchmark}.zip"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in BENCHMARKS[benchmark].values():
            archive.write(Path(folder, file.name), file.name)
    return path


def _file(task_name):
    files = GLUE | SUPER_GLUE
    if task_name not in files:
        known = ", ".join(files)
        raise ValueError(f"no server takes {task_name!r}; expected one of {known}")
    return files[task_name]


def _rows(file, examples, predictions, reader):
    """[(example, label)] by index; the label is None where the text cannot be read."""
    rows = [
        (example, file.form.label(reader.prediction(text, example)))
        for example, text in zip(examples, predictions, strict=True)
    ]
    rows.sort(key=lambda row: int(row[0][file.index]))
    if file.index != "idx/query":
        return rows
    first = {}
    for row in rows:
        first.setdefault(row[0][file.index], row)
    return list(first.values())


def _lines(file, rows):
    if file.name.endswith(".tsv"):
        return [HEADER, *(f"{int(e[file.index])}\t{label}" for e, label in rows)]
    if file.index == "idx/answer":
        return map(json.dumps, _passages(rows))
    return [json.dumps({"idx": int(e[file.index]), "label": v}) for e, v in rows]


def _passages(rows):
    """[(example, label)] as MultiRC is nested: passages, their questions, answers."""
    passages = {}
    for example, label in rows:
        questions = passages.setdefault(int(example["idx/paragraph"]), {})
        answers = questions.setdefault(int(example["idx/question"]), [])
        answers.append({"idx": int(example["idx/answer"]), "label": label})
    for passage, questions in passages.items():
        nested = [{"idx": i, "answers": answers} for i, answers in questions.items()]
        yield {"idx": passage, "passage": {"questions": nested}}


def _problems(file, path, size):
    try:
        rows = _read(file, path.read_text(encoding="utf-8").rstrip("\n").split("\n"))
    except (KeyError, TypeError, ValueError) as error:
        return [f"cannot be read: {type(error).__name__}: {error}"]
    count = Counter(index for index, _ in rows)
    faults = {
        "lacks rows": [i for i in range(size) if i not in count],
        "repeats rows": [i for i, times in count.items() if times > 1],
        f"has rows outside 0..{size - 1}": [i for i in count if not 0 <= i < size],
        "has unknown labels in rows": [i for i, v in rows if not file.form.accepts(v)],
    }
    return [f"{fault}: {_listed(found)}" for fault, found in faults.items() if found]


def _read(file, lines):
    """[(index, label)] of the lines of a file."""
    if file.name.endswith(".tsv"):
        if lines[:1] != [HEADER]:
            raise ValueError(f"its first line is not {HEADER!r}")
        rows = [line.split("\t") for line in lines[1:]]
        return [(int(index), label) for index, label in rows]
    entries = [json.loads(line) for line in lines]
    if file.index == "idx/answer":
        passages = [entry["passage"]["questions"] for entry in entries]
        entries = [a for questions in passages for q in questions for a in q["answers"]]
    return [(int(entry["idx"]), entry["label"]) for entry in entries]


def _listed(indices):
    more = len(indices) - LISTED
    text = ", ".join(map(str, sorted(indices)[:LISTED]))
    return f"{text} and {more} more" if more > 0 else text
