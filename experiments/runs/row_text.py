"""How a row of a user's file reads: the text that a model sees, the answer it wants."""

import json
from collections.abc import Mapping
from typing import Any

from experiments.runs.asking import Run
from hypertf.export.answerer import Answerer
from tfds_tasks import Task
from tfds_tasks.own.declaration import Declaration
from tfds_tasks.own.template import Template


class RowText:
    """Reads rows, {column: text}, as a task does.

    Args:
        model: a run, which knows the task; an export knows its template at most.
        name: of the task.
    """

    def __init__(self, model: Answerer, name: str) -> None:
        self.name = name
        self.task: Task | None = None
        self.template, self._declaration, self._targets = None, None, None
        if isinstance(model, Run):
            self.task = model.task(name)
            self.template = self.task.template
            self._read_declaration(model)
        else:
            about = {task["name"]: task for task in model.card.get("tasks", ())}
            template = about.get(name, {}).get("template")
            self.template = Template(template) if template else None

    def _read_declaration(self, run: Run) -> None:
        for tasks in run.config.declared.values():
            if self.name in tasks:
                self._declaration = Declaration.from_dict(tasks[self.name])
                self._targets = Template(self._declaration.targets)

    def reading(self, path: str) -> dict[str, Any]:
        """Returns how a file is read, if it is written as the task's own files are."""
        if self._declaration is None or not self._declaration.reads_alike(path):
            return {}
        return self._declaration.reading(path)

    def text(self, values: Mapping[str, str]) -> str:
        """Writes a row as the model's input."""
        if self.task is not None:
            return self.task.inputs_of(values)
        columns = self.template.columns if self.template else ()
        if "inputs" in values and "inputs" not in columns:
            return values["inputs"]
        if self.template is None:
            if "text" in values:
                return values["text"]
            raise ValueError(
                f"{self.name}: columns {', '.join(values)}, expected 'inputs' or "
                "'text', the text as the model reads it: an export knows no others"
            )
        problem = self.template.missing(values)
        if problem:
            raise ValueError(f"{self.name}: {problem}")
        return self.template.write(values)

    def typed(self, line: str) -> str:
        """Writes what somebody typed as the model's input.

        That is a JSON object of columns, the one column that the task has, or else the
        text as it is.
        """
        if line.startswith("{"):
            try:
                values = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{error}; expected JSON after {{") from None
            return self.text({name: str(value) for name, value in values.items()})
        if self.template is not None and len(self.template.columns) == 1:
            return self.text({self.template.columns[0]: line})
        return line

    def target(self, values: Mapping[str, str]) -> str | None:
        """Returns the answer that a row wants, if it has one: as the model writes it.

        It stands in the columns that the task was declared with, or in `targets`.
        """
        if self._targets is not None and not self._targets.missing(values):
            text = self._targets.write(values)
            text = (self._declaration.labels or {}).get(text, text)
            if self.task.classes and text in self.task.classes:
                text = self.task.labels[self.task.classes.index(text)]  # in its style
        else:
            text = values.get("targets", "")
        return text or None
