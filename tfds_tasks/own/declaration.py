"""What a TOML file says of a task, checked, with the files that it names found."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tfds_tasks.own import files, tables
from tfds_tasks.own.template import Template
from tfds_tasks.registry import unknown
from tfds_tasks.scores.named import named_metrics

SPLITS = ("train", "validation", "test")
PARTED = ("delimiter", "line", "format")
VERSION = "1.0.0"  # of all prepared rows: others have another fingerprint
FROM_TRAIN = "from train"
EMPTY = ("refuse", "skip", "keep")
NAME = re.compile(r"[A-Za-z0-9][\w./-]*")
# What decides the rows: a change of any makes other data of it.
OF_THE_ROWS = ("name", "inputs", "targets", "labels", "contents", "columns", "encoding")
OF_THE_ROWS += ("quotes", "empty", "validation_share", "seed")
IF_GIVEN = PARTED  # the others' fingerprints do without them


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
        columns, encoding, quotes, delimiter, line, format: see `files.read`.
        empty: what is done with a row in which a column of `inputs` is empty:
            "refuse", "skip" or "keep"; one without an answer may be skipped too.
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
    delimiter: str | None = None
    line: str | None = None
    format: str | None = None
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
    def parted(self) -> dict[str, str | None]:
        """The options that say which form a file has, beside its ending."""
        return {key: getattr(self, key) for key in PARTED}

    def reads_alike(self, path: str) -> bool:
        """Tells whether another file is read as the files of the task are.

        It is if it ends as one of them does; or in nothing that tells its form, where
        an option does.
        """
        named = (path for paths in self.files.values() for path in paths)
        endings = {files.ending_of(path) for path in named}
        ending = files.ending_of(path)
        told = any(self.parted.values())
        return ending in endings or (told and ending not in files.FORMATS)

    def reading(self, path: str) -> dict[str, Any]:
        """Returns the options of `files.read` for one of the files."""
        table = files.form(path, **self.parted) in files.TABLES
        columns = self.columns if table and self.line is None else None
        return {
            **self.parted,
            "columns": columns,
            "encoding": self.encoding,
            "quotes": self.quotes,
        }

    @property
    def fingerprint(self) -> str:
        """Sixteen letters that change with anything that decides the rows."""
        decides = {name: getattr(self, name) for name in OF_THE_ROWS}
        for name in IF_GIVEN:
            if getattr(self, name) is not None:
                decides[name] = getattr(self, name)
        text = json.dumps(decides, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def source(self) -> str:
        """What TFDS calls the prepared rows, below the folder of the data."""
        slug = re.sub(r"\W+", "_", self.name.lower())
        return f"own_{slug}/{self.fingerprint}:{VERSION}"

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
            hint = f'; a name with dots stands in quotes: ["{name}.{key}"]'
            dotted = isinstance(table[key], dict)
            raise BadKey(key, unknown("key", key, KEYS) + (hint if dotted else ""))
    for key in ("train", "inputs", "targets"):
        if key not in table:
            raise BadKey(None, f"{key} is absent; expected {KEYS[key][1]}")
    for key, value in table.items():
        right, expected = KEYS[key]
        if not right(value):
            raise BadKey(key, f"{value!r}, expected {expected}")
    for key, check in CHECKS.items():
        try:
            check(table[key]) if key in table else None
        except ValueError as error:
            raise BadKey(key, str(error)) from None
    for other in ("delimiter", "columns", "format"):
        if "line" in table and other in table:
            raise BadKey(other, f"{table[other]!r}, expected none beside line")
    return table


# {key: what raises a ValueError if its value is wrong in itself}
CHECKS = {"inputs": Template, "targets": Template, "line": tables.pattern}


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
    if value == FROM_TRAIN or not isinstance(value, dict | list):
        return value == FROM_TRAIN
    words = list(value.values()) if isinstance(value, dict) else value
    right = all(type(word) is int or (isinstance(word, str) and word) for word in words)
    words = [str(word).strip() for word in words]
    doubled = isinstance(value, list) and len(set(words)) < len(words)
    return right and all(words) and len(set(words)) >= 2 and not doubled


def _is_encoding(value: Any) -> bool:
    try:
        "a".encode(value)
    except (LookupError, TypeError):
        return False
    return True


def _is_delimiter(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 1 and value not in '"\r\n'


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
        "a list of two or more distinct texts or numbers, a table of them, or "
        f'"{FROM_TRAIN}"',
    ),
    "metrics": (_is_texts, "a list of names of metrics"),
    "rate": (lambda v: _is_integer(v, 1), "an integer >= 1"),
    "columns": (_is_texts, "a list of distinct names"),
    "encoding": (_is_encoding, 'the name of an encoding, such as "latin-1"'),
    "quotes": (lambda v: isinstance(v, bool), "true or false"),
    "delimiter": (_is_delimiter, 'one letter, such as ";" or "\\t"'),
    "line": (lambda v: isinstance(v, str), 'columns in braces: "{label}:{text}"'),
    "format": (
        lambda v: isinstance(v, str) and f".{v}" in files.FORMATS,
        f"one of {', '.join(form[1:] for form in files.FORMATS)}",
    ),
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
        return {key.strip(): str(word).strip() for key, word in value.items()}
    words = from_train if value == FROM_TRAIN else value
    return {str(word).strip(): str(word).strip() for word in words}
