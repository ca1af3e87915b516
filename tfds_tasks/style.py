"""How a task is written as text: the choices that differ between the papers."""

import dataclasses

LABELS = ("words", "digits")
SPLITS = ("t5", "hyperformer", "hyperdecoders")


@dataclasses.dataclass(frozen=True)
class Style:
    """Words with the task's name in front as T5 writes them, or another paper's way.

    Attributes:
        labels: "words" (`acceptable`) as T5, or "digits" (`1`) as HyperFormer and
            Hyperdecoders. A task whose answer is a number or free text has one form.
        prefix: whether the task's name comes first; HyperFormer drops it. None is as
            the task itself has it: with it, but for the tasks of `nano`.
        splits: whose train, validation and test: "t5", "hyperformer" or
            "hyperdecoders" (see `splits.py`).
        rows: how many rows of the training split are kept, None for all; which ones
            is decided by `seed`. For low-resource and few-shot training.
        seed: decides the rows that change their split, and those that are kept.
    """

    labels: str = "words"
    prefix: bool | None = None
    splits: str = "t5"
    rows: int | None = None
    seed: int = 42

    def __post_init__(self):
        _one_of("labels", self.labels, LABELS)
        _one_of("splits", self.splits, SPLITS)
        if self.prefix not in (True, False, None):
            raise ValueError(f"prefix={self.prefix!r}, expected True, False or None")
        if self.rows is not None and (type(self.rows) is not int or self.rows < 1):
            raise ValueError(f"rows={self.rows!r}, expected an integer >= 1 or None")
        if type(self.seed) is not int or self.seed < 0:
            raise ValueError(f"seed={self.seed!r}, expected an integer >= 0")


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}={value!r}, expected one of {', '.join(known)}")
