"""A prompt to type at: a line is a text, the model answers."""

import contextlib

from experiments.runs.row_text import RowText
from hypertf.export.answerer import Answerer

WIDTH = 20  # letters of a whole bar
MOST = 10  # labels shown
HELP = ":tasks lists the tasks, :task NAME changes it, Ctrl-D ends"


def ask(model: Answerer, task: str) -> None:
    """Answers the lines of stdin until it ends, or Ctrl-C.

    A line is the text as the model reads it; for a task of one column that column,
    and in JSON, {"column": "text"}, any columns.

    Args:
        model: to be asked.
        task: name of the first task.
    """
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 (gives `input` a history)
    print(f"{model.card.get('source', model.folder)}; {HELP}", flush=True)
    model.load()
    reader = RowText(model, task)
    try:
        while True:
            line = input(f"{reader.name}> ").strip()
            try:
                reader = _obey(model, reader, line)
            except ValueError as error:
                print(error)
    except (EOFError, KeyboardInterrupt):
        print()


def _obey(model: Answerer, reader: RowText, line: str) -> RowText:
    """Does what a line asks for; returns the reader of the next."""
    command, _, name = line.partition(" ")
    if command == ":task":
        return RowText(model, model.known_task(name.strip()))
    if command == ":tasks":
        print("\n".join(model.tasks))
    elif command.startswith(":"):
        raise ValueError(f"unknown command {command!r}; {HELP}")
    elif line:
        print(answered(model, reader.name, reader.typed(line)))
    return reader


def answered(model: Answerer, task: str, text: str) -> str:
    """Writes the answer to a text, with a bar for the probability of each label."""
    (answer,) = model.predict([text], task)
    lines = [f"{answer.text}  (score {answer.score:.3f})"]
    if answer.trimmed:
        lines.append(
            f"the text has more than {model.card['inputs_length']} tokens: its end was "
            "dropped"
        )
    if model.labels(task) and "classify" in model.signatures:
        (found,) = model.classify([text], task)
        lines += bars(found.probabilities)
    return "\n".join(lines)


def bars(probabilities: dict[str, float]) -> list[str]:
    """Draws the likeliest labels, a line each.

    >>> bars({"no": 0.25, "maybe": 0.75})
    ['  maybe  ###############       75.0%', '  no     #####                 25.0%']
    """
    ordered = sorted(probabilities.items(), key=lambda pair: -pair[1])[:MOST]
    width = max(len(label) for label, _ in ordered)
    return [
        f"  {label:{width}}  {'#' * round(share * WIDTH):{WIDTH}}  {share:5.1%}"
        for label, share in ordered
    ]
