"""The options of a method, and the one way to check them."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Self

from hypertf.names import unknown
from hypertf.t5.sites import STACKS

# From the most weights to the fewest.
TRAINS = {
    "all": "every weight",
    "all-but-embeddings": "every weight but the token embeddings",
    "task+norms": "the conditioner and T5's norms",
    "task": "the conditioner only",
    "task-vectors": "of the conditioner, only what each task has of its own",
}


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a method; each method adds its own fields.

    `trains` says which weights train (a key of `TRAINS`), None for the paper's choice.
    `stacks` says where the method works: in the "encoder", the "decoder" or "both". The
    other stack is the plain T5's, and has no weights of the method.

    The `require...` methods raise an error that names the option, its value and what
    was expected. An option whose default is None may be None in all of them.
    """

    trains: str | None = None
    stacks: str = "both"

    def __post_init__(self) -> None:
        self.require_one_of("trains", TRAINS)
        self.require_one_of("stacks", ("both", *STACKS))

    @property
    def chosen_stacks(self) -> tuple[str, ...]:
        """The stacks that the method works in."""
        return STACKS if self.stacks == "both" else (self.stacks,)

    def require_effect(self, given: Iterable[str]) -> None:
        """Raises if an option given is of a stack that is left plain.

        Options of one stack are called after it: `encoder_size`.
        """
        for stack in set(STACKS) - set(self.chosen_stacks):
            for name in given:
                of_stack = name == stack or name.startswith(f"{stack}_")
                unset = f"none: no effect with stacks={self.stacks!r}"
                self.require(name, not of_stack, unset)

    def require(self, name: str, holds: bool, expected: str) -> None:
        """Raises unless what is asked of the option holds."""
        if not holds:
            value = getattr(self, name)
            raise ValueError(f"{name}={value!r}, expected {expected}")

    def require_one_of(self, name: str, choices: Iterable[str]) -> None:
        """Raises unless the option is one of the choices."""
        expected = f"one of {', '.join(map(repr, choices))}"
        value = getattr(self, name)
        self.require(name, self._may_be_none(name) or value in choices, expected)

    def require_positive(self, *names: str) -> None:
        """Raises unless the options are whole numbers above 0."""
        for name in names:
            holds = self._may_be_none(name) or _is_whole(getattr(self, name), 1)
            self.require(name, holds, "an integer >= 1")

    def require_count(self, *names: str, of: str) -> None:
        """Raises unless the options are whole numbers; 0 is none `of` something."""
        for name in names:
            holds = self._may_be_none(name) or _is_whole(getattr(self, name), 0)
            self.require(name, holds, f"an integer >= 0 (0: no {of})")

    def require_number(self, *names: str) -> None:
        """Raises unless the options are numbers above 0."""
        for name in names:
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            holds = self._may_be_none(name) or (is_number and value > 0)
            self.require(name, holds, "a number > 0")

    def require_flags(self, *names: str) -> None:
        """Raises unless the options are True or False."""
        for name in names:
            is_flag = isinstance(getattr(self, name), bool)
            self.require(name, self._may_be_none(name) or is_flag, "True or False")

    def require_some_of(self, name: str, choices: Iterable[str]) -> None:
        """Raises unless the option lists some of the choices, each once.

        A list becomes a tuple.
        """
        value = getattr(self, name)
        is_list = isinstance(value, list | tuple)
        known = is_list and all(v in choices for v in value)
        once = known and value and len(set(value)) == len(value)
        self.require(name, once, f"some of {', '.join(choices)}, each once")
        object.__setattr__(self, name, tuple(value))

    def require_unset(self, *names: str, because: str) -> None:
        """Raises unless options that would change nothing have their defaults."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name in names:
            default = defaults[name]
            unset = getattr(self, name) == default
            self.require(name, unset, f"{default!r}: no effect with {because}")

    def require_either(self, one: str, other: str) -> None:
        """Raises if both options are given where one of them decides."""
        both = None not in (getattr(self, one), getattr(self, other))
        self.require(one, not both, f"None beside {other}={getattr(self, other)!r}")

    def _may_be_none(self, name: str) -> bool:
        """Whether the option is None, and is so by default."""
        if getattr(self, name) is not None:
            return False
        fields = {field.name: field for field in dataclasses.fields(self)}
        return fields[name].default is None

    @classmethod
    def names(cls) -> list[str]:
        """All options of the method."""
        return [field.name for field in dataclasses.fields(cls)]

    @classmethod
    def of(cls, method: str, values: Mapping[str, Any]) -> Self:
        """Options of a method from keywords; a misspelt one gets the nearest name."""
        for name in values:
            if name not in cls.names():
                message = unknown("option", name, cls.names())
                raise ValueError(f"{method}: {message}")
        try:
            return cls(**values)
        except ValueError as error:
            raise ValueError(f"{method}: {error}") from None


def _is_whole(value: object, least: int) -> bool:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return is_integer and value >= least
