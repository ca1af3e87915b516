"""Parameter counts of the methods beside the papers' figures.

A row says what a paper prints and how it got there: the size of T5, the number of
tasks, the method's options. Figures are of two kinds: "times", the size of the model
relative to T5, and "trained", trained parameters relative to T5's, per task or not.
"""

import dataclasses

from hypertf import T5, T5Config, analysis, conditioning
from hypertf.t5 import Unallocated

TASKS = 8  # of GLUE, and of SuperGLUE


@dataclasses.dataclass(frozen=True)
class Row:
    """A figure of a paper: `paper` is where it stands, `printed` as it is printed."""

    paper: str
    method: str
    size: str
    kind: str  # "times", "trained" or "trained per task"
    printed: str
    options: dict = dataclasses.field(default_factory=dict)
    note: str = ""


_DECODER_ONLY = {"encoder_length": 0}
_LARGER = {"encoder_size": 512, "decoder_size": 36, "bottleneck": 72}
_CUT = "the paper cuts digits off where we round"
_ONE_PROMPT = (
    "100 tokens for each of 8 tasks; the paper's figure is that of one such prompt"
)
_NORMS = "the paper's 5.80% a task, times 8 tasks, makes 1.46x as well"
_OTHER_SIZES = "the sizes of MRQA: 512, 36 and 72; the paper does not say which"
_WIDTH = "adapters of 230 as in the public configuration; appendix A.1 says 410"
HYPERPROMPT = "HyperPrompt"
HYPERFORMER = "HyperFormer Table 1"
ROWS = (
    Row(HYPERPROMPT, "hyperprompt-share", "t5-base", "times", "1.008x", note=_CUT),
    Row(HYPERPROMPT, "hyperprompt-sep", "t5-base", "times", "1.06x"),
    Row(HYPERPROMPT, "hyperprompt-global", "t5-base", "times", "1.04x"),
    Row(
        HYPERPROMPT,
        "hyperprompt-global",
        "t5-base",
        "times",
        "1.02x",
        _DECODER_ONLY,
        "decoder only, as for SuperGLUE",
    ),
    Row(HYPERPROMPT, "hyperprompt-share", "t5-large", "times", "1.008x", note=_CUT),
    Row(HYPERPROMPT, "hyperprompt-sep", "t5-large", "times", "1.06x", note=_CUT),
    Row(HYPERPROMPT, "hyperprompt-global", "t5-large", "times", "1.02x"),
    Row(HYPERPROMPT, "prompt-tuning", "t5-base", "times", "1.0003x", note=_ONE_PROMPT),
    Row(HYPERFORMER, "hyperformer++", "t5-small", "times", "1.04x"),
    Row(HYPERFORMER, "hyperformer++", "t5-small", "trained per task", "0.50%"),
    Row(HYPERFORMER, "hyperformer++", "t5-base", "times", "1.02x"),
    Row(HYPERFORMER, "hyperformer++", "t5-base", "trained per task", "0.29%"),
    Row(HYPERFORMER, "hyperformer", "t5-small", "times", "1.45x", note=_NORMS),
    Row(HYPERFORMER, "hyperformer", "t5-small", "trained per task", "5.80%"),
    Row(HYPERFORMER, "hyperformer", "t5-base", "times", "1.54x", note=_CUT),
    Row(HYPERFORMER, "hyperformer", "t5-base", "trained per task", "6.86%"),
    Row(HYPERFORMER, "adapters", "t5-small", "trained per task", "0.74%"),
    Row(HYPERFORMER, "adapters", "t5-base", "trained per task", "0.87%"),
    Row(HYPERFORMER, "adapters-shared-norm", "t5-small", "times", "1.05x"),
    Row(HYPERFORMER, "adapters-shared-norm", "t5-small", "trained per task", "0.68%"),
    Row(HYPERFORMER, "adapters-shared-norm", "t5-base", "times", "1.07x"),
    Row(HYPERFORMER, "adapters-shared-norm", "t5-base", "trained per task", "0.82%"),
    Row("Hyperdecoders Table 1", "hyperdecoder", "t5.1.1-large", "trained", "2.9%"),
    Row(
        "Hyperdecoders Table 2",
        "hyperdecoder",
        "t5.1.1-large",
        "trained",
        "4.2%",
        _LARGER,
        _OTHER_SIZES,
    ),
    Row(
        "Hyperdecoders Table 1",
        "parallel-adapters",
        "t5.1.1-large",
        "trained",
        "2.9%",
        note=_WIDTH,
    ),
    Row("Hyperdecoders Table 1", "modular-skills", "t5.1.1-large", "trained", "4.8%"),
    Row("HyperGrid", "hypergrid", "t5-base", "times", "negligible"),
    Row("HyperGrid", "hypergrid", "t5-3b", "times", "negligible"),
)


def count(row):
    """The parameters of the model that a row speaks of."""
    config = T5Config.from_name(row.size)
    with Unallocated():
        conditioner = conditioning.create(row.method, config, TASKS, **row.options)
        return analysis.parameters(T5(config, conditioner=conditioner))


def ours(row, counted):
    """Our figure, written as the paper writes its own."""
    if row.kind == "times":
        return f"{counted.times:.4f}x"
    if row.kind == "trained":
        return f"{counted.trained / counted.plain:.2%}"
    return f"{counted.trained_per_task:.2%}"


def agrees(row, figure):
    """Whether our figure, rounded as the paper's, is the paper's."""
    if not row.printed[0].isdigit():
        return None
    digits = len(row.printed.rstrip("x%").partition(".")[2])
    return f"{float(figure.rstrip('x%')):.{digits}f}" == row.printed.rstrip("x%")


def table():
    """Headings, rows of cells, and the footnotes; a figure that differs has one."""
    cells, notes = [], []
    for row in ROWS:
        counted = count(row)
        figure = ours(row, counted)
        mark = ""
        if row.note:
            if row.note not in notes:
                notes.append(row.note)
            mark = f"[{notes.index(row.note) + 1}]"
        cells.append(
            (
                row.paper,
                row.method,
                row.size,
                row.kind,
                row.printed,
                figure,
                f"{counted.added:,}",
                mark,
            )
        )
    headings = ("paper", "method", "size", "figure", "paper's", "ours", "added", "")
    return headings, cells, notes
