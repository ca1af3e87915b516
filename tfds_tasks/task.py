"""A task: where its rows come from, how they read as text, how answers are scored."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfds_tasks import sources, splits
from tfds_tasks.benchmarks import BENCHMARKS, File
from tfds_tasks.formats import Format, Row, Tensors
from tfds_tasks.own.template import Template
from tfds_tasks.registry import unknown
from tfds_tasks.scores.readers import Example, Labels, Reader
from tfds_tasks.splits import Part
from tfds_tasks.style import Style
from tfds_tasks.values import python_value, tensors

DEFAULT_STYLE = Style()
OWN_SPLITS = {"train": "train", "validation": "validation", "test": "test"}


DECODING = ("beam_size", "min_length", "max_length")


@dataclasses.dataclass(frozen=True)
class Task:
    """One declaration per task; `registry.get_task` hands it out in a style.

    Attributes:
        name: such as "glue/cola".
        source: TFDS builder with its version, or a tuple of them put end to end.
        format: function of a row and a `Style`; see `formats.py`.
        classes: label words in the order of their numbers, None if there are none.
        reader: turns text into what the metrics compare; by default the labels.
        metrics: functions of (targets, predictions, examples) to {name: percent}.
        splits: {split: TFDS split}.
        divide: how HyperFormer and Hyperdecoders divide it; see `splits.py`.
        rate: the number of examples that T5 mixes it by; None counts them.
        shares: the task whose id it carries, such as "glue/mnli" for "glue/ax".
        train_format: the format of training rows where it is another.
        chunks: function of (example, tokenizer, length) that cuts a long example into
            several of at most `length` tokens.
        prefix: whether the name comes first where the style leaves it open.
        mixture: the named mixture that it is part of, such as "super_glue".
        place: its place in that mixture, whose order numbers the tasks; None is after
            those that have one, in the order of declaration.
        benchmark: "glue" or "super_glue" if it counts there.
        columns: {metric: heading} in T5's table of results, from left to right. The
            metrics of a benchmark's columns make up its average.
        group: what its columns are averaged under, with those of other tasks of that
            group; None if it has one column and stands for itself.
        submission: the file that the benchmark's server takes.
        decoding: how papers have its answers written, where that is of its own:
            any of "beam_size", "min_length" and "max_length", in tokens.
        template: how columns of a user's file become its inputs, for tasks that were
            declared by one; see `own/`.
        style: how it is written; see `Style`.
    """

    name: str
    source: str | tuple[str, ...]
    format: Callable
    metrics: tuple[Callable, ...] = ()
    classes: tuple[str, ...] | None = None
    reader: Reader | None = None
    splits: Mapping[str, str] = dataclasses.field(default_factory=OWN_SPLITS.copy)
    divide: str | None = None
    rate: int | None = None
    shares: str | None = None
    train_format: Callable | None = None
    chunks: Callable | None = None
    prefix: bool = True
    mixture: str | None = None
    place: int | None = None
    benchmark: str | None = None
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    group: str | None = None
    submission: File | None = None
    decoding: Mapping[str, int] = dataclasses.field(default_factory=dict)
    template: Template | None = None
    style: Style = DEFAULT_STYLE

    def __post_init__(self):
        if self.classes is None and self.reader is None:
            raise ValueError(
                f"task {self.name!r}: classes and reader are both None; expected one "
                "of them, to read answers by"
            )
        for option, value in self.decoding.items():
            if option not in DECODING:
                raise ValueError(unknown("decoding option", option, list(DECODING)))
            if type(value) is not int or value < 1:
                raise ValueError(
                    f"task {self.name!r}: {option}={value!r}, expected an integer >= 1"
                )
        if self.benchmark not in (None, *BENCHMARKS):
            raise ValueError(unknown("benchmark", self.benchmark, list(BENCHMARKS)))
        if len(self.columns) > 1 and self.group is None:
            raise ValueError(
                f"task {self.name!r}: group=None; expected the name that its "
                f"{len(self.columns)} columns are averaged under"
            )

    def __repr__(self) -> str:
        return f"Task({self.name!r}, source={self.source!r}, {self.style})"

    def __hash__(self) -> int:
        return hash((self.name, self.style))

    @property
    def identity(self) -> str:
        """The name under which a mixture numbers it."""
        return self.shares or self.name

    @property
    def parts(self) -> dict[str, Part]:
        """The parts of the data that its splits are in this style: {split: Part}."""
        return splits.parts(self.splits, self.divide, self.style.splits)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The label texts in this style, None if the task has none."""
        if self.classes is None or self.style.labels == "words":
            return self.classes
        return tuple(str(i) for i in range(len(self.classes)))

    @property
    def answer_reader(self) -> Reader:
        """What reads the answers: its own reader, or one of labels in this style."""
        return self.reader or Labels(self.labels)

    @property
    def choices(self) -> tuple[str, ...] | None:
        """The label texts in this style if every answer is one of them, else None.

        WSC and ReCoRD have labels, but are answered by a name: None.
        """
        return self.labels if self.reader is None else None

    @property
    def is_scored(self) -> bool:
        """Whether it has a metric; `score` gives {} if not."""
        return bool(self.metrics)

    def to_text(self, row: Row, split: str = "train") -> list[dict[str, Any]]:
        """Writes one row as text: a list of examples {"inputs", "targets", ...}.

        The row has numpy or Python values; the list is empty if it is left out.

        >>> cola = get_task("glue/cola")
        >>> cola.to_text({"sentence": "It rains.", "label": 1, "idx": 7})
        [{'inputs': 'cola sentence: It rains.', 'targets': 'acceptable', 'idx': 7}]
        """
        format = self._format(split)
        example = format(tensors(row), self._text_style)
        if not getattr(format, "several", False):
            return [{key: python_value(value) for key, value in example.items()}]
        count = example["inputs"].shape[0]
        return [
            {key: python_value(value[i]) for key, value in example.items()}
            for i in range(count)
        ]

    def inputs_of(self, values: Mapping[str, str]) -> str:
        """Writes a row of a user's file, {column: text}, as the model's input.

        A task from a file reads the columns of its template, others those of their
        TFDS data; a column `inputs` is the whole text as it is.

        >>> get_task("glue/cola").inputs_of({"sentence": "It rains."})
        'cola sentence: It rains.'
        """
        columns = self.template.columns if self.template else ()
        if "inputs" in values and "inputs" not in columns:
            return values["inputs"]
        if self.template is None:
            return self._inputs_of_ours(values)
        problem = self.template.missing(values)
        if problem:
            raise ValueError(f"{self.name}: {problem}")
        return Template(self.template_text).write(values)

    @property
    def template_text(self) -> str | None:
        """The template in this style, None for tasks that were not declared by one."""
        if self.template is None or not self._text_style.prefix:
            return self.template and self.template.text
        return f"{self.name} {self.template.text}"

    def _inputs_of_ours(self, values: Mapping[str, str]) -> str:
        row = {**values, "label": -1, "idx": 0}  # as TFDS marks what is hidden
        try:
            return self.to_text(row, "test")[0]["inputs"]
        except (KeyError, IndexError, TypeError, ValueError, tf.errors.OpError):
            raise ValueError(
                f"{self.name}: cannot be written from columns {', '.join(values)}; "
                "expected those of its TFDS data, or 'inputs', the text as it is"
            ) from None

    def examples(self, split: str, data_dir: str | None = None) -> tf.data.Dataset:
        """Gives all examples in order as tf.data: text, row number `index`, extras."""
        return self.format_rows(self.rows(split, data_dir), split)

    def rows(self, split: str, data_dir: str | None = None) -> tf.data.Dataset:
        """Reads tf.data of (index, row); index counts the rows of the TFDS split."""
        part = self.part(split)
        data = None
        for source in self._sources:
            more = sources.rows(source, part.split, data_dir)
            data = more if data is None else data.concatenate(more)
        data = data.enumerate()
        mask = self._mask(split, data_dir)
        if mask is None:
            return data
        mask = tf.constant(mask)
        return data.filter(lambda index, row: mask[index])

    def format_rows(self, rows: tf.data.Dataset, split: str) -> tf.data.Dataset:
        """Writes (index, row) as examples; a row may become several, or none."""
        format = self._format(split)
        many = getattr(format, "several", False)

        def to_example(index: tf.Tensor, row: Row) -> Tensors:
            example = format(row, self._text_style)
            shape = tf.shape(example["inputs"])
            return {"index": tf.broadcast_to(index, shape), **example}

        if many:
            return rows.flat_map(
                lambda index, row: tf.data.Dataset.from_tensor_slices(
                    to_example(index, row)
                )
            )
        return rows.map(to_example, num_parallel_calls=tf.data.AUTOTUNE)

    def dataset(self, split: str, **options: object) -> tf.data.Dataset:
        """Makes batches of this task alone; options as `Mixture.dataset` has."""
        from tfds_tasks.mixtures import Mixture

        return Mixture(self.name, (self,)).dataset(split, **options)

    def part(self, split: str) -> Part:
        """Returns which rows of which TFDS split a split holds in this style."""
        if split not in self.parts:
            raise ValueError(
                f"{self.name}: split {split!r} is unknown with splits="
                f"{self.style.splits!r}; it has {', '.join(self.parts)}"
            )
        return self.parts[split]

    def num_rows(self, split: str, data_dir: str | None = None) -> int:
        """Counts the rows of the source that a split holds in this style."""
        part = self.part(split)
        rows = part.size(self._source_rows(part.split, data_dir))
        if self.style.rows is not None and split == "train":
            rows = min(rows, self.style.rows)
        if not rows:
            raise ValueError(f"{self.name}: split {split!r} is empty in this style")
        return rows

    def num_examples(self, split: str, data_dir: str | None = None) -> int:
        """Counts the examples that a split gives; reads it if its rows do not tell."""
        if self.one_example_a_row(split):
            return self.num_rows(split, data_dir)
        return _count(self, split, sources.folder(data_dir))

    def one_example_a_row(self, split: str) -> bool:
        """Tells whether every row of a split becomes exactly one example."""
        several = getattr(self._format(split), "several", False)
        return not several and self.chunks is None

    def score(
        self, examples: Sequence[Example], predictions: Sequence[str]
    ) -> dict[str, float]:
        """Scores decoded texts against examples as `to_text` gives them.

        Returns {metric: percent}, which is empty if the task has no metric.

        >>> rte = get_task("glue/rte")
        >>> rte.score([{"targets": "entailment"}], ["entailment"])
        {'accuracy': 100.0}
        """
        if len(examples) != len(predictions) or not len(examples):
            raise ValueError(
                f"{self.name}: {len(predictions)} predictions for {len(examples)} "
                "examples; expected as many, and at least one"
            )
        if not self.is_scored:
            return {}
        reader = self.answer_reader
        targets = [reader.target(e) for e in examples]
        read = [
            reader.prediction(p, e) for p, e in zip(predictions, examples, strict=True)
        ]
        scores = {}
        for metric in self.metrics:
            scores.update(metric(targets, read, examples))
        return scores

    @property
    def _text_style(self) -> Style:
        if self.style.prefix is not None:
            return self.style
        return dataclasses.replace(self.style, prefix=self.prefix)

    @property
    def _sources(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else self.source

    def _format(self, split: str) -> Format:
        if self.train_format is not None and split.startswith("train"):
            return self.train_format
        return self.format

    def _source_rows(self, split: str, data_dir: str | None) -> int:
        return sum(sources.num_rows(s, split, data_dir) for s in self._sources)

    def _mask(self, split: str, data_dir: str | None) -> np.ndarray | None:
        """Rows of the TFDS split that belong to `split`: bool [rows], None for all."""
        part = self.part(split)
        self.num_rows(split, data_dir)  # complains of an empty split
        rows = self._source_rows(part.split, data_dir)
        mask = part.mask(rows, self.name, self.style.seed)
        if self.style.rows is None or split != "train":
            return mask
        mask = np.ones(rows, bool) if mask is None else mask
        order = splits.permutation(rows, f"{self.name} kept", self.style.seed)
        kept = np.zeros(rows, bool)
        kept[order[mask[order]][: self.style.rows]] = True
        return kept


@functools.cache
def _count(task: Task, split: str, data_dir: str) -> int:
    return int(task.examples(split, data_dir).reduce(0, lambda n, _: n + 1))
