"""Tables as text: aligned for a terminal, or Markdown."""

from collections.abc import Iterable, Sequence


def aligned(headings: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Writes a table in plain text; the first column to the left, others to the right.

    >>> print(aligned(("task", "score"), [("rte", 70.5), ("cola", 8)]))
    task  score
    -----------
    rte    70.5
    cola      8
    """
    cells = [headings, *rows]
    widths = [max(len(str(row[i])) for row in cells) for i in range(len(headings))]
    lines = []
    for row in cells:
        first, *rest = (str(cell) for cell in row)
        line = first.ljust(widths[0])
        for cell, width in zip(rest, widths[1:], strict=True):
            line += "  " + cell.rjust(width)
        lines.append(line)
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)


def markdown(headings: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Writes a Markdown table; the first column to the left, the others to the right.

    >>> print(markdown(("task", "score"), [("a|b", 70.5)]))
    | task | score |
    | --- | ---: |
    | a\\|b | 70.5 |
    """
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |"
        for line in lines
    )
