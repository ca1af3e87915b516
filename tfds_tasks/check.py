"""Looks through the tasks that TOML files declare, before anything is trained.

    python -m tfds_tasks.check mine.toml
    python -m tfds_tasks.check mine.toml --vocabulary=spiece.model --inputs_length=128

Prints for each task its rows, how its labels are balanced, how long its texts are and
what is trimmed, rows that stand twice, rows of train that stand in validation or test
too, and a few examples as the model will see them. The data is prepared on the way.
"""

import collections
import dataclasses
import hashlib
import os
import sys
from collections.abc import Iterator

import numpy as np
from absl import app, flags, logging

from tfds_tasks import modules
from tfds_tasks.batches import Shape
from tfds_tasks.lengths import Lengths, measure
from tfds_tasks.named_mixtures import get_mixture
from tfds_tasks.task import Task
from tfds_tasks.vocabulary import Vocabulary, get_vocabulary

FLAGS = flags.FLAGS
SHOWN = 3  # examples
MOST_LABELS = 20  # lines of the table of labels
WIDTH = 300  # letters of an example


@dataclasses.dataclass(frozen=True)
class Checked:
    """What was seen of a split of a task.

    Attributes:
        rows: how many it has.
        labels: how often each answer is given, most often first; None for free text.
        doubled: rows whose inputs stood in the split before.
        contradicting: of those, rows with another answer than before.
        in_train: rows whose inputs stand in train too; 0 for train itself.
        lengths: in tokens.
    """

    rows: int
    labels: dict[str, int] | None
    doubled: int
    contradicting: int
    in_train: int
    lengths: Lengths


def check_split(
    task: Task,
    split: str,
    vocabulary: Vocabulary,
    train: set[bytes],
    data_dir: str | None = None,
) -> tuple[Checked, set[bytes]]:
    """Reads a split once; returns what was seen, and the digests of its inputs.

    Args:
        train: digests of the inputs of train, empty if this is it.
    """
    answers, labels = {}, collections.Counter()
    rows = doubled = contradicting = in_train = 0
    for inputs, targets in _texts(task, split, data_dir):
        key = hashlib.blake2b(inputs, digest_size=16).digest()
        answer = hashlib.blake2b(targets, digest_size=8).digest()
        rows += 1
        in_train += key in train
        doubled += key in answers
        contradicting += answers.setdefault(key, answer) != answer
        if task.choices:
            labels[targets.decode()] += 1
    return Checked(
        rows,
        dict(labels.most_common()) if task.choices else None,
        doubled,
        contradicting,
        in_train,
        measure(task, split, Shape(vocabulary), None, data_dir),
    ), set(answers)


def _texts(
    task: Task, split: str, data_dir: str | None
) -> Iterator[tuple[bytes, bytes]]:
    for example in task.examples(split, data_dir).as_numpy_iterator():
        yield example["inputs"], example["targets"]


def report(
    task: Task,
    vocabulary: Vocabulary,
    inputs_length: int = 512,
    targets_length: int = 64,
    data_dir: str | None = None,
) -> str:
    """Writes what there is to know of a task."""
    lines = [task.name, "=" * len(task.name)]
    train, seen = set(), {}
    for split in task.parts:
        seen[split], digests = check_split(task, split, vocabulary, train, data_dir)
        train = digests if split == "train" else train
    for split, checked in seen.items():
        lines += [f"{split}: {checked.rows:,} rows", *_repeats(checked)]
        lines += _lengths(checked.lengths, inputs_length, targets_length)
    lines += _labels(seen) if task.choices else ["answers: free text"]
    metrics = ", ".join(metric.__name__ for metric in task.metrics)
    lines += [f"scored by {metrics}", "", "as the model sees it:"]
    for example in task.examples("train", data_dir).take(SHOWN).as_numpy_iterator():
        inputs, targets = example["inputs"].decode(), example["targets"].decode()
        lines += [f"  inputs:  {_cut(inputs)}", f"  targets: {_cut(targets)}"]
    return "\n".join(lines) + "\n"


def _repeats(checked: Checked) -> list[str]:
    lines = []
    if checked.doubled:
        lines.append(
            f"  ! {checked.doubled:,} inputs stood there before"
            f", {checked.contradicting:,} with another answer"
        )
    if checked.in_train:
        lines.append(f"  ! {checked.in_train:,} inputs stand in train too")
    return lines


def _lengths(lengths: Lengths, inputs_length: int, targets_length: int) -> list[str]:
    lines = []
    shares = lengths.trimmed(inputs_length, targets_length)
    limits = (inputs_length, targets_length)
    for name, share, limit in zip(("inputs", "targets"), shares, limits, strict=True):
        tokens = getattr(lengths, name)
        median, most = np.percentile(tokens, [50, 95])
        mark = "!" if share else " "
        lines.append(
            f"  {mark} {name}: {median:.0f} tokens in the middle, 95% within "
            f"{most:.0f}, longest {tokens.max()}; {share:.1%} trimmed at {limit}"
        )
    return lines


def _labels(seen: dict[str, Checked]) -> list[str]:
    """A line for each label: its share of each split."""
    names = dict.fromkeys(label for c in seen.values() for label in c.labels)
    lines = ["labels: share of " + ", ".join(seen)]
    for label in list(names)[:MOST_LABELS]:
        shares = [f"{c.labels.get(label, 0) / c.rows:6.1%}" for c in seen.values()]
        lines.append(f"  {' '.join(shares)}  {label or '(hidden)'}")
    if len(names) > MOST_LABELS:
        lines.append(f"  and {len(names) - MOST_LABELS} more")
    return lines


def _cut(text: str) -> str:
    text = text.replace("\n", " ")
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def open_vocabulary(name: str | None) -> Vocabulary:
    """Opens a vocabulary; by default nano's, which is always there."""
    if name is not None:
        return get_vocabulary(name)
    print(
        "lengths are of the vocabulary nano, in which most words are several tokens; "
        "name T5's for its own: --vocabulary=.../spiece.model"
    )
    return get_vocabulary("nano")


def main(argv: list[str]) -> None:
    """Checks the tasks of the files named on the command line."""
    if not argv[1:]:
        raise app.UsageError("name a file: python -m tfds_tasks.check mine.toml")
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)  # TFDS tells of every file
    try:
        modules.import_modules(FLAGS.module_import)
        mixture = get_mixture(",".join(argv[1:]), data_dir=FLAGS.data_dir)
        vocabulary = open_vocabulary(FLAGS.vocabulary)
        for task in mixture.tasks:
            lengths = FLAGS.inputs_length, FLAGS.targets_length
            print(report(task, vocabulary, *lengths, FLAGS.data_dir), flush=True)
    except BrokenPipeError:  # whoever reads it, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        raise SystemExit(f"tfds_tasks.check: {error}") from None


if __name__ == "__main__":
    flags.DEFINE_string("data_dir", None, "Folder of the TFDS data.")
    flags.DEFINE_string("vocabulary", None, "SentencePiece file, folder or preset.")
    flags.DEFINE_integer("inputs_length", 512, "Tokens of an input.", lower_bound=1)
    flags.DEFINE_integer("targets_length", 64, "Tokens of a target.", lower_bound=1)
    flags.DEFINE_string("module_import", None, modules.HELP)
    app.run(main)
