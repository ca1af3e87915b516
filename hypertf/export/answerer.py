"""What answers texts: a SavedModel, or the model of a run in this process."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hypertf.names import unknown

BATCH = 64  # texts at a time
Tasks = str | Sequence[str] | None


@dataclasses.dataclass(frozen=True)
class Answer:
    """What was written for a text.

    Attributes:
        text: the answer.
        score: its log probability.
        trimmed: whether the text was too long, and lost its end.
    """

    text: str
    score: float
    trimmed: bool


@dataclasses.dataclass(frozen=True)
class Classified:
    """What `classify` found of one text: its label, and the share of each."""

    label: str
    probabilities: dict[str, float]


class Answerer:
    """Answers texts of its tasks; `hypertf.load_run` and `export.load` make one.

    Weights are read by `load`, or at the first question.

    Args:
        folder: that it is read from.
        card: what is known of the model; see `model_card.describe`.
        index: the file that lists its weights with their checksums.
    """

    def __init__(self, folder: str, card: Mapping[str, Any], index: str) -> None:
        self.folder, self.card, self._index = folder, card, index

    def __repr__(self) -> str:
        about = f"source={self.card.get('source')!r}, tasks={self.tasks}"
        return f"{type(self).__name__}({self.folder!r}, {about})"

    @property
    def signatures(self) -> Mapping[str, Callable]:
        """The functions by name, with the weights that they read."""
        raise NotImplementedError

    def load(self) -> None:
        """Reads the weights now."""
        _ = self.signatures

    @property
    def tasks(self) -> list[str]:
        """The names of its tasks."""
        return list(self._labels)

    @functools.cached_property
    def _labels(self) -> dict[str, list[str] | None]:
        return {task["name"]: task["labels"] for task in self.card.get("tasks", ())}

    def labels(self, task: str | None = None) -> list[str] | None:
        """Lists the labels of a task; None if it is answered by free text."""
        return self._labels.get(self.known_task(task))

    @property
    def fingerprint(self) -> str:
        """Letters that are others if any weight is another."""
        with tf.io.gfile.GFile(self._index, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def run(self, signature: str, **inputs: Any) -> dict[str, np.ndarray]:
        """Runs a signature on arrays; those that it does not take are left out."""
        if signature not in self.signatures:
            known = ", ".join(self.signatures)
            raise ValueError(f"signature {signature!r}, expected one of {known}")
        function = self.signatures[signature]
        args, specs = function.structured_input_signature
        specs = {spec.name: spec for spec in args if spec is not None} | specs
        given = {
            key: tf.constant(value, specs[key].dtype)
            for key, value in inputs.items()
            if key in specs
        }
        return {name: value.numpy() for name, value in function(**given).items()}

    def answer(
        self, texts: Sequence[str], task: Tasks = None, *, batch_size: int = BATCH
    ) -> list[str]:
        """Answers texts, of one task or of a task each.

        Args:
            texts: as the model is to read them.
            task: name of the task, or a list of names, one for each text. May be left
                out where there is one task.
            batch_size: texts at a time.
        """
        return [a.text for a in self.predict(texts, task, batch_size=batch_size)]

    def predict(
        self, texts: Sequence[str], task: Tasks = None, *, batch_size: int = BATCH
    ) -> list[Answer]:
        """Answers texts as `answer` does, and says how likely each answer is."""
        keys = ("output_text", "score", "trimmed")
        return [
            Answer(text.decode("utf-8", "replace"), float(score), bool(trimmed))
            for text, score, trimmed in self._rows(
                "serving_default", keys, texts, task, batch_size
            )
        ]

    def classify(
        self, texts: Sequence[str], task: Tasks = None, *, batch_size: int = BATCH
    ) -> list[Classified]:
        """Finds the label of texts, and the probability of each; as `answer` else."""
        keys = ("label", "labels", "probabilities")
        return [
            Classified(
                label.decode(),
                {n.decode(): float(p) for n, p in zip(names, shares, strict=True) if n},
            )
            for label, names, shares in self._rows(
                "classify", keys, texts, task, batch_size
            )
        ]

    def encode(
        self, texts: Sequence[str], task: Tasks = None, *, batch_size: int = BATCH
    ) -> np.ndarray:
        """Means of the encoder's output over each text, [texts, d_model]; as `answer`.

        The task has a part in them if the method changes the encoder.
        """
        rows = self._rows("encode", ("vector",), texts, task, batch_size)
        return np.array([vector for (vector,) in rows])

    def _rows(
        self,
        signature: str,
        keys: Sequence[str],
        texts: Sequence[str],
        task: Tasks,
        batch_size: int,
    ) -> list[tuple]:
        """What a signature gives for each text, by its keys.

        Batches are of texts of about one length: a batch is padded to its longest.
        """
        texts = _checked(texts)
        if not isinstance(batch_size, int | np.integer) or batch_size < 1:
            raise ValueError(f"batch_size={batch_size!r}, expected an integer >= 1")
        tasks = self._each(task, len(texts))
        if signature == "classify":
            self._require_labels(tasks)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        rows = [()] * len(texts)
        for start in range(0, len(texts), batch_size):
            mine = order[start : start + batch_size]
            given = {"text": [texts[i] for i in mine], "task": [tasks[i] for i in mine]}
            outputs = self.run(signature, **given)
            columns = (outputs[key] for key in keys)
            for i, row in zip(mine, zip(*columns, strict=True), strict=True):
                rows[i] = row
        return rows

    def known_task(self, name: str | None = None) -> str:
        """Returns the name of a task if it is one; of the only task if it is None."""
        if name:
            if self.tasks and name not in self.tasks:
                raise ValueError(unknown("task", name, self.tasks))
            return name
        if len(self.tasks) > 1:
            raise ValueError(f"task={name!r}, expected one of {', '.join(self.tasks)}")
        return self.tasks[0] if self.tasks else ""

    def _each(self, task: Tasks, count: int) -> list[str]:
        if task is None or isinstance(task, str):
            return [self.known_task(task)] * count if count else []
        tasks = [self.known_task(name) for name in task]
        if len(tasks) != count:
            raise ValueError(f"{len(tasks)} tasks for {count} texts, expected as many")
        return tasks

    def _require_labels(self, tasks: list[str]) -> None:
        for name in dict.fromkeys(tasks):
            if name in self._labels and not self._labels[name]:
                have = [n for n, labels in self._labels.items() if labels]
                expected = f"one of {', '.join(have)}" if have else "`answer` for it"
                raise ValueError(f"task {name!r} has no labels; expected {expected}")


def _checked(texts: Sequence[str]) -> list[bytes]:
    """Texts as TensorFlow takes them."""
    if isinstance(texts, str | bytes):
        raise ValueError(f"texts={texts!r}, expected a list of texts: [{texts!r}]")
    texts = list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"texts[{number}]={text!r}, expected a str")
        try:
            texts[number] = text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"texts[{number}]={text!r}: letter {error.start} is half of a pair, "
                "expected Unicode"
            ) from None
    return texts
