"""A row of a paper's tables: how it is run, and all that the paper prints of it."""

import dataclasses
from collections.abc import Mapping, Sequence

from experiments.runs.config import Config

AVERAGE = "average"  # the task of columns that are averages
# What a parameter figure says, relative to the plain T5: the size of the whole model,
# or how much is trained, of it all or of one task's share.
TIMES, TRAINED, TRAINED_PER_TASK = "times", "trained", "trained per task"
SIZE = "size"  # of the whole model, in billions


@dataclasses.dataclass(frozen=True)
class Printed:
    """What one table prints of a row: {task: {metric: value}}, {average: value}.

    `deviations` are those of scores and averages together; of an average the task is
    "average".
    """

    source: str
    split: str
    scores: Mapping[str, Mapping[str, float]]
    average: Mapping[str, float]
    deviations: Mapping[str, Mapping[str, float]] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a paper; called with the cells of a row, as printed.

    >>> table = Table("A paper, Table 1", ["glue/cola:f1 glue/cola:em", "average:glue"])
    >>> table("57.1/60 80.2").scores, table("57.1/60 80.2").average
    ({'glue/cola': {'f1': 57.1, 'em': 60.0}}, {'glue': 80.2})
    >>> table("57.1/60±2 80.2±0.5").deviations
    {'glue/cola': {'em': 2.0}, 'average': {'glue': 0.5}}

    Attributes:
        source: the paper and the table.
        columns: each "task:metric", several in one parted by a space as the numbers of
            its cells are by "/". A cell "-" is empty. A standard deviation follows its
            number after "±".
        split: of the tasks, as our tasks name it, that the figures are of.
    """

    source: str
    columns: Sequence[str]
    split: str = "validation"

    def __call__(self, cells: str) -> Printed:
        """Returns what the table prints of a row."""
        scores, average, deviations = {}, {}, {}
        for column, cell in zip(self.columns, cells.split(), strict=True):
            numbers = [] if cell == "-" else cell.split("/")
            keys = column.split() if numbers else []
            for key, number in zip(keys, numbers, strict=True):
                task, _, metric = key.partition(":")
                place = average if task == AVERAGE else scores.setdefault(task, {})
                value, _, deviation = number.partition("±")
                place[metric] = float(value)
                if deviation:
                    deviations.setdefault(task, {})[metric] = float(deviation)
        return Printed(self.source, self.split, scores, average, deviations)


@dataclasses.dataclass(frozen=True)
class ParameterFigure:
    """A number of parameters that a paper prints of a row.

    Attributes:
        source: where it stands.
        kind: one of "times", "trained", "trained per task" and "size".
        printed: the figure as it is printed.
        tasks: how many tasks it counts.
        model: the T5 that it is of, where it is not that of the configuration.
        options: of the conditioner, where they are not those of the configuration.
        note: why our figure is another.
    """

    source: str
    kind: str
    printed: str
    tasks: int = 8  # of GLUE, and of SuperGLUE
    model: str | None = None
    options: Mapping = dataclasses.field(default_factory=dict)
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a paper's tables.

    Where the paper prints one number for several metrics of a task, or does not say
    which half of MNLI it is of, the metric is called "score". Averages are "glue",
    "super_glue", "macro" (the mean of these two), "mrqa", "mrqa_out_of_domain",
    "summarization", "nli", "overall"; "glue_metrics" is HyperFormer's, over metrics;
    "glue_without_stsb" is Hyperdecoders', of the other seven tasks.

    Attributes:
        name: also that of the configuration.
        config: how it is run; None if another row's run is what the figures are of, or
            if it takes several.
        printed: what each table prints; a figure is a table whose cells are empty.
        parameters: the parameter figures that the paper prints.
        runs: {name: config} of the runs that make up the row together, one for each
            task, where it is not one run.
        of: the row whose runs the figures are of, if it is another's.
        starts_from: the row from whose run these start, where it is not from pretrained
            weights; or whose encoder they classify by.
    """

    name: str
    config: Config | None
    printed: tuple[Printed, ...] = ()
    parameters: tuple[ParameterFigure, ...] = ()
    runs: Mapping[str, Config] = dataclasses.field(default_factory=dict)
    of: str | None = None
    starts_from: str | None = None

    def __post_init__(self) -> None:
        splits = {table.split for table in self.printed}
        if len(splits) > 1:
            raise ValueError(
                f"row {self.name}: figures of {splits}, expected one split"
            )

    @property
    def takes_encoder(self) -> bool:
        """Whether it trains classifiers on the encoder of `starts_from`."""
        return self.config is not None and self.config.head == "linear"

    @property
    def split(self) -> str:
        """The split that the figures are of."""
        return self.printed[0].split if self.printed else "validation"

    @property
    def source(self) -> str:
        """The paper and its tables."""
        return "; ".join(table.source for table in self.printed)

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """{task: {metric: value}} of all tables, as far as they are printed."""
        scores = {}
        for table in self.printed:
            for task, metrics in table.scores.items():
                scores[task] = {**scores.get(task, {}), **metrics}
        return scores

    @property
    def average(self) -> dict[str, float]:
        """{what: value} of all tables."""
        return {
            what: value
            for table in self.printed
            for what, value in table.average.items()
        }


def paper_row(
    name: str,
    config: Config | None,
    method: tuple[str, Mapping],
    *printed: Printed,
    parameters: Sequence[ParameterFigure] = (),
) -> Row:
    """Makes the row that trains `config` with a method: a conditioner, its options."""
    conditioner, options = method
    config = config.replace(
        conditioner=conditioner, conditioner_options=options, paper=name
    )
    return Row(name, config, printed, tuple(parameters))


def same_runs(name: str, of: str, *printed: Printed) -> Row:
    """Makes a row whose figures are of another row's runs, such as their mean."""
    return Row(name, None, printed, of=of)


def single_task_row(
    name: str,
    config: Config,
    method: tuple[str, Mapping],
    *printed: Printed,
    also_scored: Mapping[str, Sequence[str]],
) -> Row:
    """Makes the row of a model for each task that the tables print.

    The runs are called `<name>_<task>`, such as `..._single_glue_cola`. `also_scored`
    are tasks that are scored on others' sets: {task: tasks of its run}.
    """
    row = paper_row(name, config, method, *printed)
    runs = {
        f"{name}_{task.replace('/', '_')}": row.config.replace(
            mixture=",".join(also_scored.get(task, (task,)))
        )
        for task in row.scores
    }
    return dataclasses.replace(row, config=None, runs=runs)


def columns(benchmark: str, text: str) -> list[str]:
    """Lists columns of a benchmark's tasks, which are parted by commas.

    >>> columns("glue", "cola:f1,mrpc:f1 mrpc:accuracy")
    ['glue/cola:f1', 'glue/mrpc:f1 glue/mrpc:accuracy']
    """
    return [
        " ".join(f"{benchmark}/{key}" for key in column.split())
        for column in text.split(",")
    ]


MTL = ("none", {})  # a T5 without a method
# A task that is trained as one, and scored on two sets.
MNLI_HALVES = {
    "glue/mnli": ("glue/mnli", "glue/mnli_matched", "glue/mnli_mismatched"),
}
# Columns that several papers have.
FIRST_GLUE = "cola:matthews_corrcoef,sst2:accuracy,"
LAST_GLUE = ",qnli:accuracy,rte:accuracy"
STSB = "stsb:pearson_corrcoef stsb:spearman_corrcoef"
SUPER_GLUE = columns(
    "super_glue",
    "boolq:accuracy,cb:mean_3class_f1 cb:accuracy,copa:accuracy,"
    "multirc:f1 multirc:exact_match,record:f1 record:em,rte:accuracy,wic:accuracy,"
    "wsc:accuracy",
)
