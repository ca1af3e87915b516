"""Writes the table of parameters into the pages of the methods.

    python docs/parameter_table.py

A page has it between `<!-- parameters: METHOD, ... -->` and `<!-- end -->`; rows of the
methods named there are bold. A test compares the pages with what the code counts.
"""

import functools
import re
from pathlib import Path

from hypertf import T5, T5Config, analysis, conditioning
from hypertf.t5 import Unallocated

PAGES = Path(__file__).parent / "methods"
MODEL, TASKS = "t5-base", 8
HEADINGS = ("method", "added", "times T5", "trained", "of T5", "constants when baked")
MARKED = re.compile(r"(<!-- parameters: ?(.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
BAKED = {
    (): "all",
    ("decoder",): "the encoder's",
    ("encoder", "decoder"): "none: it reads the input",
}


@functools.cache
def rows() -> dict[str, tuple[str, ...]]:
    """The cells of every method with its default options, without making weights."""
    config = T5Config.from_name(MODEL)
    cells = {}
    for name in conditioning.names():
        with Unallocated():
            method = conditioning.create(name, config, TASKS)
            counted = analysis.parameters(T5(config, conditioner=method))
        reads = () if method is None else tuple(method.reads_input)
        cells[name] = (
            f"{counted.added:,}",
            f"{counted.times:.4f}",
            f"{counted.trained:,}",
            f"{counted.trained / counted.plain:.2%}",
            "" if method is None else BAKED[reads],
        )
    return cells


def table(bold: set[str]) -> str:
    """The Markdown of all rows; those of `bold` stand out."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---|---:|---:|---:|---:|---|"]
    for name, cells in rows().items():
        cells = (f"`{name}`", *cells)
        if name in bold:
            cells = [f"**{cell}**" if cell else "" for cell in cells]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def filled(page: str) -> str:
    """A page's text with the table in its place."""

    def fill(marked: re.Match) -> str:
        bold = {name.strip() for name in marked[2].split(",") if name.strip()}
        unknown = bold - rows().keys()
        if unknown:
            raise ValueError(f"methods {sorted(unknown)}, expected some of {[*rows()]}")
        return f"{marked[1]}\n{table(bold)}\n{marked[3]}"

    return MARKED.sub(fill, page)


if __name__ == "__main__":
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(filled(path.read_text()))
        print(f"wrote {path}")
