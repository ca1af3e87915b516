"""What is said of a name that nobody knows."""

import difflib
from collections.abc import Iterable


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """The message of an unknown name: the nearest ones, then all that are known.

    >>> unknown("method", "hypergird", ["hypergrid", "adapters"])
    "unknown method 'hypergird'; did you mean 'hypergrid'? Known: hypergrid, adapters"
    """
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=3)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return f"unknown {kind} {name!r}; {hint}Known: {', '.join(known)}"
