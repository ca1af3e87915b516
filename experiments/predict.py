"""Answers the rows of a file, or what you type, with a run or an export of one.

    python -m experiments.predict --model_dir=RUN --task=topic --input=A --output=B
    python -m experiments.predict --model_dir=EXPORT --task=topic    # a prompt

Input and output are CSV, TSV, JSON lines, a JSON array or Parquet, by their endings; an
input that ends as the task's own files do is read as they were. The task's own template
tells which columns make up a text; a column `inputs` is the text as it is. New columns
are `answer`, `score` (its log probability) and, for a task with labels, `p(LABEL)` for
each. Answers are kept in OUTPUT.partial until all are there: started again with the
same flags, a job that was stopped goes on.
"""

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from absl import app, flags
from tqdm import tqdm

from experiments.runs import components, program, prompt, row_files
from experiments.runs.partial_file import PartialFile
from experiments.runs.predicted import (
    Joined,
    Summary,
    labels_asked,
    new_columns,
    predicted,
)
from experiments.runs.row_text import RowText
from experiments.runs.user_file import UserFile
from hypertf.export.answerer import Answerer
from hypertf.runs import open_run


def predict(
    model_dir: str | os.PathLike,
    *,
    task: str | None = None,
    input: str | os.PathLike | None = None,
    output: str | os.PathLike | None = None,
    checkpoint: str | int = "best",
    beam_size: int | None = None,
    batch_size: int = 64,
    columns: Sequence[str] | None = None,
    encoding: str | None = None,
    quotes: bool | None = None,
    delimiter: str | None = None,
    line: str | None = None,
    format: str | None = None,
) -> Summary | None:
    """Answers a file's rows into another file; returns what came out, and prints it.

    Without `input` and `output` it reads texts from a prompt, and returns None.

    ```python
    from experiments.predict import predict

    summary = predict("RUN", task="topic", input="tickets.csv", output="answers.csv")
    print(summary.rows, summary.answers)
    ```

    Args:
        model_dir: folder of the run, or of its export.
        task: name of the task; may be left out where there is one.
        input: file of rows.
        output: file to be written, of any of the formats.
        checkpoint: of a run: "best" on the validation sets (the newest where none is
            scored), "latest", or a step.
        beam_size: beams; by default as the run was configured, 1 is greedy.
        batch_size: rows at a time.
        columns: names of the columns of a CSV or TSV file without a header.
        encoding: of the input, if it is text; utf-8 by default.
        quotes: whether quotes in a CSV or TSV input hold a field together.
        delimiter: what stands between the columns of the input, as in a TOML file that
            declares tasks; so are the next two.
        line: how the lines of the input are written, such as "{label}:{text}".
        format: which form the input has whatever its ending, such as "jsonl".
    """
    if (input is None) != (output is None):
        raise ValueError(
            f"input={input!r}, output={output!r}; expected both, or none for a prompt"
        )
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}, expected an integer >= 1")
    model = open_run(model_dir, checkpoint=checkpoint, beam_size=beam_size)
    if input is None:
        prompt.ask(model, model.known_task(task or next(iter(model.tasks), None)))
        return None
    output = components.expand(output)
    row_files.check_new(output)
    reader = RowText(model, model.known_task(task))
    given = {"columns": columns, "encoding": encoding, "quotes": quotes}
    given |= {"delimiter": delimiter, "line": line, "format": format}
    path = components.expand(input)
    rows = UserFile(path, **how_to_read(reader.reading(path), given))
    summary = _answer(model, reader, rows, output, batch_size)
    print(f"{summary}\nwritten to {output}", flush=True)
    return summary


def how_to_read(of_task: Mapping[str, Any], given: Mapping[str, Any]) -> dict:
    """Says how an input is read: as the task's own files are, but for what is given.

    >>> how_to_read({"line": "{a} {b}", "encoding": "latin-1"}, {"format": "csv"})
    {'encoding': 'latin-1', 'format': 'csv'}
    """
    given = {key: value for key, value in given.items() if value is not None}
    other = set(given) - {"encoding", "quotes"}  # it is of another form
    return {
        key: value
        for key, value in {**of_task, **given}.items()
        if key in given or key in ("encoding", "quotes") or not other
    }


def _answer(
    model: Answerer, reader: RowText, rows: UserFile, output: str, batch_size: int
) -> Summary:
    task = reader.name
    labels = labels_asked(model, task)
    total, columns = rows.check(reader.text)
    added = new_columns(labels)
    for name in columns:
        if name in added:
            raise ValueError(
                f"{rows.path}: column {name!r} has the name of a new one; expected "
                f"another name than {', '.join(added)}"
            )
    source = model.card.get("source", model.folder)
    job, about = _job(model, task, rows), {"input": rows.path, "model": source}
    partial = PartialFile(output, job, about)
    done = partial.open(total, batch_size)
    try:
        why = model.card.get("selection")
        print(
            f"answering {rows.path}, {total:,} rows, as {task} with {source}"
            + (f" ({why})" if why else "")
            + (f"; going on after {done:,} rows" if done else ""),
            flush=True,
        )
        model.load()
        began = time.time()
        _go_on(model, reader, rows, partial, (done, total), batch_size)
        seconds = time.time() - began
        if _job(model, task, rows) != job:
            raise ValueError(f"{rows.path} was changed meanwhile; expected it to stay")
        joined = Joined(rows, partial.rows(), reader)
        row_files.write(output, {**dict.fromkeys(columns, str), **added}, joined)
        partial.remove()
    finally:
        partial.close()
    summary = joined.finish(labelled=bool(model.labels(task)))
    summary.answered, summary.seconds = total - done, seconds
    return summary


def _job(model: Answerer, task: str, rows: UserFile) -> dict:
    """What decides the answers."""
    return {
        "sha256 of input": rows.sha256,
        "task": task,
        "sha256 of weights": model.fingerprint,
        "beam_size": model.card.get("beam_size"),
        **rows.options,
    }


def _go_on(model, reader, rows, partial, interval, batch_size):
    """Answers the rows from the first that has no answer."""
    done, total = interval
    rest = itertools.islice(rows, done, None)
    with tqdm(
        total=total, initial=done, desc=reader.name, unit=" rows", disable=None
    ) as bar:
        for batch in row_files.batches(rest, batch_size):
            texts = [reader.text(row.values) for row in batch]
            partial.append(predicted(model, reader.name, texts))
            bar.update(len(batch))


def _define(values):
    options = {"flag_values": values}
    flags.DEFINE_string("model_dir", None, "Folder of the run or export.", **options)
    flags.DEFINE_string("task", None, "Name of the task.", **options)
    flags.DEFINE_string("input", None, "File of rows; without it, a prompt.", **options)
    flags.DEFINE_string("output", None, "File to be written.", **options)
    flags.DEFINE_string("checkpoint", "best", "best, latest or a step.", **options)
    flags.DEFINE_integer(
        "beam_size", None, "Beams; as the run was configured.", lower_bound=1, **options
    )
    flags.DEFINE_integer("batch_size", 64, "Rows at a time.", lower_bound=1, **options)
    flags.DEFINE_list(
        "columns", None, "Of a CSV or TSV file without a header.", **options
    )
    flags.DEFINE_string("encoding", None, "Of the input; utf-8.", **options)
    flags.DEFINE_boolean(
        "quotes", None, "Whether quotes hold a field of the input together.", **options
    )
    flags.DEFINE_string("delimiter", None, "Between columns of the input.", **options)
    flags.DEFINE_string(
        "line", None, "How lines of the input are written: {label} {text}.", **options
    )
    flags.DEFINE_string(
        "format", None, "Of the input, whatever its ending: csv, jsonl, ...", **options
    )


def _call(values):
    if values.model_dir is None:
        raise app.UsageError("--model_dir is not set; expected a run or an export")
    names = ("task", "input", "output", "checkpoint", "beam_size", "batch_size")
    more = ("columns", "encoding", "quotes", "delimiter", "line", "format")
    try:
        predict(values.model_dir, **program.given(values, *names, *more))
    except KeyboardInterrupt:
        stopped = "experiments.predict: stopped; started again it goes on"
        raise SystemExit(stopped) from None


if __name__ == "__main__":
    program.run("experiments.predict", _define, _call)
