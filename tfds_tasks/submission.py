"""Files for the GLUE and SuperGLUE servers: written, checked, zipped.

The servers hold the labels of the test sets. GLUE takes a TSV file for each task with
the header "index<tab>prediction". SuperGLUE takes lines {"idx": ..., "label": ...} of
JSON, for MultiRC a line for each passage with its questions and their answers inside.
What the file of a task is called and holds is part of its declaration
(`Task.submission`): names and labels are those of jiant, the toolkit of the benchmarks'
authors, and of T5.

    for task in mixture.tasks:
        if task.submission is not None:
            submission.write(folder, task, examples[task.name], predictions[task.name])
    problems = submission.check(folder, "glue")  # what is missing or wrong, if anything
    path = submission.pack(folder, "glue")  # only if nothing is
"""

import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from absl import logging

from tfds_tasks.benchmarks import BENCHMARKS, File
from tfds_tasks.registry import all_tasks, get_task, unknown
from tfds_tasks.scores.metrics import check_sizes
from tfds_tasks.scores.readers import Example
from tfds_tasks.task import Task

HEADER = "index\tprediction"
LISTED = 10  # a message names so many indices, and counts the others


@dataclass(frozen=True)
class Written:
    """A file, its number of rows, and how many have a label only for want of one."""

    path: Path
    rows: int
    unparsable: int


def files(benchmark: str) -> dict[str, File]:
    """Lists the files that the server of a benchmark wants: {task: its file}."""
    if benchmark not in BENCHMARKS:
        raise ValueError(unknown("benchmark", benchmark, BENCHMARKS))
    return {
        task.name: task.submission
        for task in all_tasks()
        if task.benchmark == benchmark and task.submission is not None
    }


def write(
    folder: str | Path,
    task: Task | str,
    examples: Sequence[Example],
    predictions: Sequence[str],
) -> Written:
    """Writes the file of a task into the folder, in the order of the index.

    Every row needs a label that the server knows, so text that cannot be read becomes
    the first label (STS-B: 2.5; ReCoRD: empty), which is warned of once.

    Args:
        folder: where the file goes; made if absent.
        task: in the style in which the model was asked, or the name of a task, which
            stands for T5's style.
        examples: of the test set, as `task.to_text` gives them. If they repeat a query
            of ReCoRD, the first counts.
        predictions: the text that the model wrote for each.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     examples = [{"idx": 1}, {"idx": 0}]
    ...     written = write(folder, "super_glue/boolq", examples, ["False", "True"])
    ...     print(written.path.name, written.path.read_text(), sep=chr(10), end="")
    BoolQ.jsonl
    {"idx": 0, "label": "true"}
    {"idx": 1, "label": "false"}
    """
    task = get_task(task) if isinstance(task, str) else task
    file = task.submission
    if file is None:
        known = [t.name for t in all_tasks() if t.submission is not None]
        raise ValueError(
            f"no server takes {task.name!r}; expected one of {', '.join(known)}"
        )
    check_sizes(predictions, examples=examples)
    rows = _rows(task, examples, predictions)
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


def check(
    folder: str | Path, benchmark: str, sizes: Mapping[str, int] | None = None
) -> list[str]:
    """Lists what the server would refuse or count as wrong; empty if nothing is.

    Each entry begins with the name of the file, such as "WNLI.tsv is missing".

    Args:
        folder: with the files that `write` made.
        benchmark: "glue" or "super_glue"; the server wants all of its files.
        sizes: {task: number of rows of its test set} where it is not the whole that
            the task's declaration states; for MultiRC of answers, for ReCoRD of
            queries.
    """
    problems = []
    for task, file in files(benchmark).items():
        path, size = Path(folder, file.name), (sizes or {}).get(task, file.rows)
        wrong = _problems(file, path, size) if path.is_file() else ["is missing"]
        problems += [f"{file.name} {problem}" for problem in wrong]
    return problems


def pack(
    folder: str | Path,
    benchmark: str,
    sizes: Mapping[str, int] | None = None,
    path: str | Path | None = None,
) -> Path:
    """Zips the files for upload, into the folder unless a path is given.

    Raises a ValueError that names every problem if `check` has any; no zip is written
    then.
    """
    if problems := check(folder, benchmark, sizes):
        raise ValueError(
            f"{folder} is not ready for {BENCHMARKS[benchmark]}: {'; '.join(problems)}"
        )
    path = Path(path or Path(folder, f"{benchmark}.zip"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files(benchmark).values():
            archive.write(Path(folder, file.name), file.name)
    return path


def _rows(
    task: Task, examples: Sequence[Example], predictions: Sequence[str]
) -> list[tuple[Example, Any]]:
    """[(example, label)] by index; the label is None where the text cannot be read."""
    file, reader = task.submission, task.answer_reader
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


def _lines(file: File, rows: list[tuple[Example, Any]]) -> Iterable[str]:
    if file.name.endswith(".tsv"):
        return [HEADER, *(f"{int(e[file.index])}\t{label}" for e, label in rows)]
    if file.index == "idx/answer":
        return map(json.dumps, _passages(rows))
    return [json.dumps({"idx": int(e[file.index]), "label": v}) for e, v in rows]


def _passages(rows: list[tuple[Example, Any]]) -> Iterator[dict]:
    """[(example, label)] as MultiRC is nested: passages, their questions, answers."""
    passages = {}
    for example, label in rows:
        questions = passages.setdefault(int(example["idx/paragraph"]), {})
        answers = questions.setdefault(int(example["idx/question"]), [])
        answers.append({"idx": int(example["idx/answer"]), "label": label})
    for passage, questions in passages.items():
        nested = [{"idx": i, "answers": answers} for i, answers in questions.items()]
        yield {"idx": passage, "passage": {"questions": nested}}


def _problems(file: File, path: Path, size: int) -> list[str]:
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
    return [f"{fault}: {_listed(wrong)}" for fault, wrong in faults.items() if wrong]


def _read(file: File, lines: list[str]) -> list[tuple[int, Any]]:
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


def _listed(indices: list[int]) -> str:
    more = len(indices) - LISTED
    text = ", ".join(map(str, sorted(indices)[:LISTED]))
    return f"{text} and {more} more" if more > 0 else text
