"""Mixtures: several tasks in one stream of batches."""

import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfds_tasks import batches, packed_batches, stream
from tfds_tasks.lengths import warn_if_trimmed
from tfds_tasks.packing import Packing
from tfds_tasks.rates import Rates
from tfds_tasks.registry import unknown
from tfds_tasks.task import Task
from tfds_tasks.values import python_values
from tfds_tasks.vocabulary import Vocabulary

PROPORTIONAL = Rates()


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Tasks, and how often each is drawn in training."""

    name: str
    tasks: tuple[Task, ...]
    rates: Rates = PROPORTIONAL
    numbered_by: "Mixture | None" = None  # the mixture whose ids it keeps

    @property
    def identities(self) -> tuple[str, ...]:
        """The names that task ids stand for, in order; tasks may share one."""
        if self.numbered_by is not None:
            return self.numbered_by.identities
        return tuple(dict.fromkeys(task.identity for task in self.tasks))

    def only(self, names: Collection[str]) -> "Mixture":
        """Returns a mixture of some of these tasks, which keep their ids.

        >>> from tfds_tasks import get_mixture
        >>> get_mixture("glue/rte,glue/mrpc").only(["glue/mrpc"]).task_id("glue/mrpc")
        1
        """
        for name in names:
            self.task_id(name)
        tasks = tuple(task for task in self.tasks if task.name in names)
        return dataclasses.replace(self, tasks=tasks, numbered_by=self)

    @property
    def num_tasks(self) -> int:
        """How many task ids there are; tasks that share one count once."""
        return len(self.identities)

    def task_id(self, task: Task | str) -> int:
        """Returns the id of a task, or of the task of that name, in this mixture."""
        name = task if isinstance(task, str) else task.name
        for member in self.tasks:
            if name in (member.name, member.identity):
                return self.identities.index(member.identity)
        names = [member.name for member in self.tasks]
        raise ValueError(unknown(f"task of mixture {self.name}", name, names))

    def task_rates(
        self, split: str = "train", data_dir: str | None = None
    ) -> dict[str, float]:
        """Returns how often tasks are drawn: {task name: rate}, 0 without the split."""
        return {
            task.name: self.rates.of(_examples(task, split, data_dir))
            for task in self.tasks
        }

    def probabilities(
        self, split: str = "train", data_dir: str | None = None
    ) -> dict[str, float]:
        """Returns the share that each task has of the examples: {task name: share}."""
        rates = self.task_rates(split, data_dir)
        total = sum(rates.values())
        if not total:
            raise ValueError(f"mixture {self.name}: no task has split {split!r}")
        return {name: rate / total for name, rate in rates.items()}

    def dataset(
        self,
        split: str = "train",
        *,
        vocabulary: Vocabulary,
        batch_size: int = 128,
        inputs_length: int = 512,
        targets_length: int = 64,
        seed: int = 0,
        start: int | Sequence[int] = 0,
        per_batch: bool = False,
        packing: Packing | None = None,
        host: int = 0,
        num_hosts: int = 1,
        data_dir: str | None = None,
        endless: bool | None = None,
        check_lengths: bool = True,
    ) -> tf.data.Dataset:
        """Makes a tf.data of batches; see `batches.to_batches` for what a batch holds.

        Args:
            split: "train" is drawn from without end; any other is read once, task
                after task, in order.
            seed: decides the order of tasks and of examples.
            start: the number of batches already used: the dataset goes on from there.
                With packing, the pool and row that the last of them says are next.
            per_batch: one task per batch, as HyperFormer draws; else one per example.
            packing: how several examples share a row, of an endless dataset; see
                `packed_batches.to_batches`. One example is a row by default.
            host, num_hosts: which rows of each batch to make. The batches are the
                same whatever the number of hosts.
            endless: overrides whether it is drawn from without end.
            check_lengths: warn of tasks of which more than a few percent is trimmed.
        """
        shape = batches.Shape(
            vocabulary, batch_size, inputs_length, targets_length, host, num_hosts
        )
        if endless is None:
            endless = split == "train"
        if packing is not None:
            start = packed_batches.check_start(start)
            if per_batch or not endless:
                name = "per_batch=True" if per_batch else f"split={split!r}, which ends"
                raise ValueError(f"{name}: expected no packing, not {packing.mode!r}")
        elif type(start) is not int or start < 0:
            raise ValueError(f"start={start!r}, expected a number of batches >= 0")
        if check_lengths:
            warn_if_trimmed(self.tasks, split, shape, data_dir)
        if packing is not None:
            position = start[0] * packing.pool
            examples = self._drawn(split, shape, seed, position, 1, data_dir)
            return packed_batches.to_batches(examples, shape, packing, seed, start)
        if endless:
            repeats, position = shape.batch_size if per_batch else 1, start * batch_size
            examples = self._drawn(split, shape, seed, position, repeats, data_dir)
            return batches.to_batches(examples, shape, endless=True)
        examples = self._in_order(split, shape, data_dir)
        return batches.to_batches(examples, shape, endless=False).skip(start)

    def fill(
        self,
        packing: Packing,
        *,
        vocabulary: Vocabulary,
        inputs_length: int = 512,
        targets_length: int = 64,
        seed: int = 0,
        data_dir: str | None = None,
    ) -> packed_batches.Fill:
        """Packs the first pool of training examples and tells what its rows hold."""
        shape = batches.Shape(vocabulary, 1, inputs_length, targets_length)
        examples = self._drawn("train", shape, seed, 0, 1, data_dir)
        rows = packed_batches.pools(examples, shape, packing, seed)
        (pool,) = rows.take(1).as_numpy_iterator()
        return packed_batches.measure(pool, packed_batches.room_of(shape, packing))

    def examples(
        self,
        split: str,
        *,
        vocabulary: Vocabulary | None = None,
        inputs_length: int = 512,
        data_dir: str | None = None,
    ) -> dict[str, list[dict[str, Any]]]:
        """Reads all examples of a split: {task name: [as `Task.to_text` gives them]}.

        One for each row of the finite `dataset` of that split. The vocabulary and
        the length are for tasks whose examples are cut into chunks.
        """
        shape = batches.Shape(vocabulary, inputs_length=inputs_length)
        return {
            task.name: [python_values(e) for e in data.as_numpy_iterator()]
            for task, data in self._texts(split, shape, data_dir)
        }

    def batches_of(
        self,
        examples: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        vocabulary: Vocabulary,
        batch_size: int = 128,
        inputs_length: int = 512,
        targets_length: int = 64,
        host: int = 0,
        num_hosts: int = 1,
    ) -> tf.data.Dataset:
        """Makes batches of examples that were read already; no data is read again.

        They are those of the finite `dataset`, bit for bit, if `examples` is what
        `examples()` returned for the same split, vocabulary and inputs_length. Tasks
        of other mixtures in it are passed over, so that parts of a mixture
        (`mixture.only(...)`) can be given the examples of the whole.
        """
        shape = batches.Shape(
            vocabulary, batch_size, inputs_length, targets_length, host, num_hosts
        )
        data = [
            batches.from_python(examples[task.name], self.task_id(task))
            for task in self.tasks
            if task.name in examples
        ]
        if not data:
            raise ValueError(
                f"mixture {self.name}: examples of {', '.join(examples) or 'no task'}; "
                f"expected one of {', '.join(task.name for task in self.tasks)}"
            )
        return batches.to_batches(_end_to_end(data), shape, endless=False)

    def _texts(
        self, split: str, shape: batches.Shape, data_dir: str | None
    ) -> Iterator[tuple[Task, tf.data.Dataset]]:
        """Each task that has the split, and its examples as tf.data."""
        for task in self.tasks:
            if split in task.parts:
                rows = task.rows(split, data_dir)
                yield task, stream.texts(task, rows, split, shape)

    def _in_order(
        self, split: str, shape: batches.Shape, data_dir: str | None
    ) -> tf.data.Dataset:
        data = [
            batches.with_task_id(examples, self.task_id(task))
            for task, examples in self._texts(split, shape, data_dir)
        ]
        if not data:
            raise ValueError(f"mixture {self.name}: no task has split {split!r}")
        return _end_to_end(data)

    def _drawn(
        self,
        split: str,
        shape: batches.Shape,
        seed: int,
        position: int,
        repeats: int,
        data_dir: str | None,
    ) -> tf.data.Dataset:
        """Examples of all tasks, from a position of the endless order on."""
        shares = self.probabilities(split, data_dir)
        tasks = [task for task in self.tasks if shares[task.name]]
        shares = np.array([shares[task.name] for task in tasks])
        used = stream.counts(shares, seed, position, repeats)
        examples = [
            batches.with_task_id(
                stream.endless(task, split, shape, seed, int(count), data_dir),
                self.task_id(task),
            )
            for task, count in zip(tasks, used, strict=True)
        ]
        if len(examples) == 1:
            return examples[0]
        order = stream.choices(shares, seed, position, repeats)
        return tf.data.Dataset.choose_from_datasets(examples, order)


def _end_to_end(data: Sequence[tf.data.Dataset]) -> tf.data.Dataset:
    return functools.reduce(tf.data.Dataset.concatenate, data)


def _examples(task: Task, split: str, data_dir: str | None) -> int:
    """What a task is mixed by: T5's own number if all of its data is used as in T5."""
    if split not in task.parts or task.rate == 0:
        return 0
    whole = task.style.rows is None and task.parts[split].whole
    if split == "train" and whole and task.rate is not None:
        return task.rate
    return task.num_examples(split, data_dir)
