"""Every table and figure of the papers: what it needs, and whether it can be run here.

A table's rows are those of `experiments.configs` that name it. The others say what
makes them instead, or why nothing does.
"""

import dataclasses
import re

from experiments.configs import Config, Row, get_row, row_names, runs_of
from hypertf.names import unknown

TITLES = {
    "hypergrid": "HyperGrid",
    "hypergrid_slides": "HyperGrid's slides",
    "hyperprompt": "HyperPrompt",
    "hyperformer": "HyperFormer",
    "hyperdecoders": "Hyperdecoders",
}
# As the papers say what they ran on; HyperPrompt does not.
CHIPS = {
    "t5-base": "16 TPU v3 chips",
    "t5-large": "64 TPU v3 chips",
    "t5-3b": "64 TPU v3 chips",
    "t5-11b": "128 TPU v3 chips",
}
DIAGRAM = "an architecture diagram"
COST = "`python -m experiments.report --table=cost`"
MEASURED = "`python -m experiments.report --table=measured_cost`"
SERVERS = (
    "its labels are on the benchmarks' servers: train the rows, then send what "
    "`experiments.evaluate --split=test --submission=FOLDER` writes"
)
COUNTS = "counts of data sets: `python -m tfds_tasks.list`"


def _analysis(figure):
    return (
        "a picture of a trained run: "
        f"`python -m experiments.analyze --model_dir=RUN --figure={figure}`"
    )


@dataclasses.dataclass(frozen=True)
class Item:
    """A table or a figure.

    Attributes:
        paper: a key of `TITLES`.
        name: such as "table5" or "figure2".
        about: what it shows.
        instead: what makes it, or why it is not run; "" if its rows are.
    """

    paper: str
    name: str
    about: str
    instead: str = ""

    @property
    def key(self) -> str:
        """The name on the command line, such as "hyperprompt/table5"."""
        return f"{self.paper}/{self.name}"

    @property
    def title(self) -> str:
        """The name in the papers' rows, such as "HyperPrompt, Table 5"."""
        kind, number = re.fullmatch(r"([a-z]+)(\d+)", self.name).groups()
        return f"{TITLES[self.paper]}, {kind.capitalize()} {number}"

    @property
    def rows(self) -> list[Row]:
        """The rows, each with what this item prints of it only."""
        found = []
        for name in row_names():
            row = get_row(name)
            own = tuple(p for p in row.printed if _is_of(p.source, self.title))
            if own:
                found.append(dataclasses.replace(row, printed=own))
        return found

    @property
    def best_of_each_task(self) -> bool:
        """Whether the paper takes each task's own best checkpoint."""
        return self.paper == "hyperprompt" or self.key == "hyperdecoders/table2"

    @property
    def by_labels(self) -> bool:
        """Whether only tasks that are answered by one of their labels count."""
        return any(row.takes_encoder for row in self.rows)

    @property
    def can_run(self) -> bool:
        """Whether there are rows to train and score."""
        return not self.instead

    @property
    def needs(self) -> str:
        """Model sizes, steps, data and chips of its rows."""
        configs = [c for row in self.rows for c in item_runs(row).values()]
        if not configs:
            return ""
        models = dict.fromkeys(c.model for c in configs)
        steps = sorted({_length(c) for c in configs})
        data = dict.fromkeys(_data(c.mixture) for c in configs)
        others = [row for row in self.rows if not row.takes_encoder]
        sources = dict.fromkeys(row.starts_from for row in others)
        return "; ".join(
            [
                *(f"first {source}" for source in sources if source),
                "1 run" if len(configs) == 1 else f"{len(configs)} runs",
                ", ".join(models),
                " or ".join(steps),
                ", ".join(data),
                self._chips(models),
            ]
        )

    def _chips(self, models):
        if self.paper == "hypergrid":
            return " or ".join(dict.fromkeys(CHIPS[m] for m in models))
        if self.paper == "hyperformer":
            return "4 GPUs" if self.name == "table1" else "1 GPU"
        if self.paper == "hyperdecoders":
            return "1 A100 with 80 GB"
        return "chips not printed"


def item_runs(row: Row) -> dict[str, Config]:
    """Returns the runs of an item's row: those of the tasks that it prints."""
    configs = runs_of(row)
    if not row.runs:
        return configs
    printed = {task for table in row.printed for task in table.scores}
    wanted = {f"{row.name}_{task.replace('/', '_')}" for task in printed}
    return {name: c for name, c in configs.items() if name in wanted}


def _is_of(source, title):
    return source == title or source.startswith((f"{title} ", f"{title}:"))


def _length(config):
    if config.epochs is not None:
        return f"{config.epochs:g} epochs of batch {config.batch_size}"
    return f"{config.steps:,} steps of batch {config.batch_size}"


def _data(mixture):
    names = mixture.split(",")
    if len(names) == 1:
        return mixture
    return f"{len(names)} tasks of {names[0].partition('/')[0]}"


def _items(paper, *described):
    return [Item(paper, *each) for each in described]


ITEMS = {
    item.key: item
    for item in (
        *_items(
            "hypergrid",
            ("figure1", "the idea", DIAGRAM),
            ("figure2", "the module", DIAGRAM),
            ("table1", "GLUE, validation sets"),
            ("table2", "SuperGLUE, validation sets"),
            ("table3", "sizes of T5"),
            ("table4", "variants and output gating"),
            ("table5", "GLUE, test sets", SERVERS),
            ("table6", "SuperGLUE, test sets", SERVERS),
            ("table7", "where it acts, and how"),
            *((f"figure{n}", "size of the grid: fan-in") for n in (3, 4, 5)),
            *((f"figure{n}", "size of the grid: fan-out") for n in (6, 7, 8)),
        ),
        *_items(
            "hypergrid_slides",
            ("table5", "GLUE, test sets, as in the paper", SERVERS),
            ("table6", "SuperGLUE, test sets, as in the paper", SERVERS),
        ),
        *_items(
            "hyperprompt",
            ("figure1", "SuperGLUE over sizes of T5"),
            ("figure2", "the method", DIAGRAM),
            ("figure3", "attention on prompts", _analysis("attention")),
            ("figure4", "lengths of prompts"),
            ("table1", "all weights or the method's only"),
            ("table2", "operations and time", COST),
            ("table3", "T5 base, means over 3 runs"),
            ("table4", "T5 large, means over 3 runs"),
            ("table5", "encoder, decoder or both"),
            ("table6", "all weights or the method's only, GLUE"),
            ("table7", "all weights or the method's only, SuperGLUE"),
            ("table8", "T5 base, GLUE"),
            ("table9", "T5 base, SuperGLUE"),
            ("table10", "T5 large, GLUE"),
            ("table11", "T5 large, SuperGLUE"),
        ),
        *_items(
            "hyperformer",
            ("figure1", "the method", DIAGRAM),
            ("figure2", "few rows of each task"),
            ("figure3", "task embeddings", _analysis("task-embeddings")),
            ("table1", "GLUE, test sets"),
            ("table2", "transfer to new tasks"),
            ("table3", "adapters with more parameters"),
            ("table4", "parts taken away"),
            ("table5", "memory", MEASURED),
            ("table6", "time", MEASURED),
            ("table7", "reductions, validation sets"),
        ),
        *_items(
            "hyperdecoders",
            ("figure1", "the method", DIAGRAM),
            *(
                (f"figure{n}", "embeddings of inputs", _analysis("input-embeddings"))
                for n in (2, 3, 4)
            ),
            ("table1", "GLUE on T5 1.1 large, test sets"),
            ("table2", "GLUE on T5 1.1 large, validation sets"),
            ("table3", "GLUE on T5 base, test sets"),
            ("table4", "MRQA, in domain"),
            ("table5", "MRQA, out of domain"),
            ("table6", "summaries and NLI, averages"),
            ("table7", "encoder-only models"),
            ("table8", "kinds of adapters"),
            ("table9", "without the MLP, with normed input"),
            *((f"table{n}", "sizes of data sets", COUNTS) for n in (10, 11, 12)),
            ("table13", "kinds of adapters, all tasks"),
            ("table14", "sizes, MRQA in domain"),
            ("table15", "sizes, MRQA out of domain"),
            ("table16", "summaries and NLI"),
        ),
    )
}


def get_item(key: str) -> Item:
    """Returns a table or figure; a wrong name gets the nearest.

    >>> get_item("hyperprompt/table5").title
    'HyperPrompt, Table 5'
    """
    if key not in ITEMS:
        raise ValueError(unknown("item", key, list(ITEMS)))
    return ITEMS[key]
