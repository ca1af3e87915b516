"""What a TOML file says of a task, checked, with the files that it names found."""

import codecs
import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tfds_tasks.own.template import Template
from tfds_tasks.registry import unknown
from tfds_tasks.scores.named import named_metrics

SPLITS = ("train", "validation", "test")
FROM_TRAIN = "from train"
EMPTY = ("refuse", "skip", "keep")
NAME = re.compile(r"[A-Za-z0-9][\w./-]*")
# What decides the rows: a change of any makes other data of it.
OF_THE_ROWS = ("name", "inputs", "targets", "labels", "contents", "columns", "encoding")
OF_THE_ROWS += ("quotes", "empty", "validation_share", "seed")


@dataclasses.dataclass(frozen=True)
class Declaration:
    """A task as declared; fields are the keys of its table in the TOML file.

    Attributes:
        name: of the task.
        files: {split: sources}: paths, or "tfds:name:version[split]".
        inputs, targets: templates, such as "{subject} {body}".
        labels: the answers there are, {as in the file: as the model writes it}; None
            for free text.
        metrics: names, see `scores.named`.
        rate: number of examples that it is mixed by, None counts them.
        columns: names of the columns of files without a header.
        encoding, quotes: of text files, see `files.read`.
        empty: what is done with a row in which a column of `inputs` is empty:
            "refuse", "skip" or "keep".
        validation_share: share of train that is taken out where validation is absent;
            by default a tenth, and at most 1,000 rows.
        seed: decides which rows.
        contents: {split: what identifies the content of its sources}.
    """

    name: str
    files: Mapping[str, tuple[str, ...]]
    inputs: str
    targets: str
    labels: Mapping[str, str] | None = None
    metrics: tuple[str, ...] = ()
    rate: int | None = None
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    quotes: bool = True
    empty: str = "refuse"
    validation_share: float | None = None
    seed: int = 42
    contents: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        named_metrics(self.metrics, self.label_words)

    @property
    def label_words(self) -> tuple[str, ...] | None:
        """The labels as the model writes them, each once."""
        return (
            None if self.labels is None else tuple(dict.fromkeys(self.labels.values()))
        )

    @property
    def fingerprint(self) -> str:
        """Sixteen letters that change with anything that decides the rows."""
        decides = {name: getattr(self, name) for name in OF_THE_ROWS}
        text = json.dumps(decides, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def source(self) -> str:
        """What TFDS calls the prepared rows, below the folder of the data."""
        slug = re.sub(r"\W+", "_", self.name.lower())
        return f"own_{slug}/{self.fingerprint}:1.0.0"

    @property
    def identity(self) -> tuple:
        """What may not change within a run: the rows, and how often they are drawn."""
        return self.fingerprint, self.rate

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON can hold it."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Declaration":
        """Makes what `to_dict` gave."""
        values = dict(values)
        values["files"] = {k: tuple(v) for k, v in values["files"].items()}
        values["metrics"] = tuple(values["metrics"])
        if values["columns"] is not None:
            values["columns"] = tuple(values["columns"])
        return cls(**values)


def check_table(name: str, table: Any) -> dict[str, Any]:
    """Checks a task's table of a TOML file; returns {key: value as declared}.

    Raises a `BadKey`, which names the key.
    """
    if not NAME.fullmatch(name):
        raise BadKey(None, f"task name {name!r}, expected letters, digits and _ . / -")
    if not isinstance(table, dict):
        raise BadKey(None, f"{name} = {table!r}, expected a table [{name}]")
    for key in table:
        if key not in KEYS:
            raise BadKey(key, unknown("key", key, KEYS))
    for key in ("train", "inputs", "targets"):
        if key not in table:
            raise BadKey(None, f"{key} is absent; expected {KEYS[key][1]}")
    for key, value in table.items():
        right, expected = KEYS[key]
        if not right(value):
            raise BadKey(key, f"{value!r}, expected {expected}")
    for key in ("inputs", "targets"):
        try:
            Template(table[key])
        except ValueError as error:
            raise BadKey(key, str(error)) from None
    return table


class BadKey(ValueError):
    """What is wrong with the value of a key."""

    def __init__(self, key: str | None, problem: str) -> None:
        super().__init__(problem)
        self.key = key


def _is_texts(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(v, str) and v.strip() for v in value)
        and len(set(value)) == len(value)
    )


def _is_files(value: Any) -> bool:
    return (isinstance(value, str) and bool(value)) or _is_texts(value)


def _are_labels(value: Any) -> bool:
    if isinstance(value, dict):
        return len(value) >= 2 and all(isinstance(v, str) and v for v in value.values())
    return value == FROM_TRAIN or (_is_texts(value) and len(value) >= 2)


def _is_encoding(value: Any) -> bool:
    try:
        codecs.lookup(value)
    except (LookupError, TypeError):
        return False
    return True


def _is_integer(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


_FILES = 'a file, a list of files or "tfds:name:version"'
# {key: (whether a value is right, what is expected)}
KEYS = {
    **{split: (_is_files, _FILES) for split in SPLITS},
    "inputs": (lambda v: isinstance(v, str), 'a template such as "{text}"'),
    "targets": (lambda v: isinstance(v, str), 'a template such as "{label}"'),
    "labels": (
        _are_labels,
        f'a list of two or more distinct texts, a table of them, or "{FROM_TRAIN}"',
    ),
    "metrics": (_is_texts, "a list of names of metrics"),
    "rate": (lambda v: _is_integer(v, 1), "an integer >= 1"),
    "columns": (_is_texts, "a list of distinct names"),
    "encoding": (_is_encoding, 'the name of an encoding, such as "latin-1"'),
    "quotes": (lambda v: isinstance(v, bool), "true or false"),
    "empty": (lambda v: v in EMPTY, f"one of {', '.join(EMPTY)}"),
    "validation_share": (
        lambda v: isinstance(v, float) and 0 < v < 1,
        "a number between 0 and 1",
    ),
    "seed": (lambda v: _is_integer(v, 0), "an integer >= 0"),
}


def labels_of(value: Any, from_train: Sequence[str]) -> dict[str, str] | None:
    """Returns {as in the file: as written} of the value of the key `labels`."""
    if value is None:
        return None
    if isinstance(value, dict):
        return dict(value)
    words = from_train if value == FROM_TRAIN else value
    return {word.strip(): word.strip() for word in words}
