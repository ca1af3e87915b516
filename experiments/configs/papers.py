"""The scores that the papers print, by the name of the configuration they belong to."""

import dataclasses
import difflib
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a paper's tables.

    Attributes:
        source: the paper and its tables, such as "HyperGrid, Tables 1, 2 and 4".
        scores: {task: {metric: value}} with our names, as far as they are printed.
            Where the paper prints one number for several metrics of a task, or does
            not say which half of MNLI it is of, the metric is called "score".
        average: {what: value} as printed: "glue", "super_glue", "macro" (the mean of
            these two), "mrqa", "mrqa_out_of_domain", "summarization", "nli",
            "overall"; "glue_metrics" is HyperFormer's, over metrics, not tasks.
    """

    source: str
    scores: Mapping = dataclasses.field(default_factory=dict)
    average: Mapping = dataclasses.field(default_factory=dict)


def get_row(name):
    """The row of that name; a wrong name gets the nearest."""
    if name not in ROWS:
        near = difflib.get_close_matches(name, ROWS, n=3)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(
            f"row {name!r} is unknown; {hint}known are {', '.join(sorted(ROWS))}"
        )
    return ROWS[name]


ROWS = {}


def _table(columns, text):
    """Adds rows. After a line "# prefix: source", a line is the rest of a row's name
    ("." for none), then its cells.

    A column is "task:metric", several in one parted by a space as the numbers of its
    cells are by "/"; the task "average" is of averages. A cell "-" is empty. What a
    row has from other tables stays.
    """
    for line in text.strip().splitlines():
        if line.startswith("#"):
            prefix, source = line[1:].strip().split(": ")
            continue
        row, *cells = line.split()
        name = prefix if row == "." else f"{prefix}_{row}"
        old = ROWS.get(name, Row(""))
        scores, average = {**old.scores}, {**old.average}
        for column, cell in zip(columns, cells, strict=True):
            numbers = [] if cell == "-" else cell.split("/")
            keys = column.split() if numbers else []
            for key, number in zip(keys, numbers, strict=True):
                task, _, metric = key.partition(":")
                place = average if task == "average" else scores.setdefault(task, {})
                place[metric] = float(number)
        ROWS[name] = Row("; ".join(filter(None, (old.source, source))), scores, average)


def _of(benchmark, text):
    """Columns of a benchmark's tasks, parted by commas: "cola:f1" -> "glue/cola:f1"."""
    return [
        " ".join(f"{benchmark}/{key}" for key in column.split())
        for column in text.split(",")
    ]


_AVG_GLUE, _AVG_SUPER_GLUE = ["average:glue"], ["average:super_glue"]
_AVERAGES = [*_AVG_GLUE, *_AVG_SUPER_GLUE, "average:macro"]
_SUPER_GLUE = _of(
    "super_glue",
    "boolq:accuracy,cb:mean_3class_f1 cb:accuracy,copa:accuracy,"
    "multirc:f1 multirc:exact_match,record:f1 record:em,rte:accuracy,wic:accuracy,"
    "wsc:accuracy",
)
_FIRST = "cola:matthews_corrcoef,sst2:accuracy,"
_LAST = ",qnli:accuracy,rte:accuracy"
_STSB = "stsb:pearson_corrcoef stsb:spearman_corrcoef"

# HyperGrid
_GLUE = _of("glue", _FIRST + "mrpc:score,stsb:score,qqp:score,mnli:score" + _LAST)
_table(
    _GLUE,
    """
# hypergrid_base: HyperGrid, Table 1
mtl 57.3 94.2 88.6 89.5 90.2 86.2 93.1 80.9
l2 59.4 90.6 90.1 88.9 90.3 86.5 93.1 79.1
lg 57.9 94.6 89.2 90.1 90.3 86.7 81.2 84.2
l 59.9 94.0 89.1 89.9 90.2 86.5 93.1 81.1
""",
)
_table(
    _SUPER_GLUE,
    """
# hypergrid_base: HyperGrid, Table 2
mtl 81.5 77.3/83.9 64.0 78.2/43.3 76.9/76.1 84.1 66.9 74.0
l2 82.4 85.3/91.1 64.0 77.8/42.7 76.8/75.9 83.4 67.1 80.8
lg 82.5 83.1/89.3 64.0 77.9/42.8 77.1/76.3 84.1 65.5 78.8
l 82.5 81.5/89.3 66.0 78.8/41.0 76.8/76.0 85.9 66.5 78.8
""",
)
_table(
    _AVERAGES,
    """
# hypergrid: HyperGrid, Table 3
base_mtl 84.99 73.55 79.27
large_mtl 88.22 80.04 84.13
3b_mtl 89.53 84.22 86.87
3b_lg 89.67 85.75 87.71
# hypergrid: HyperGrid, Table 4
base_l 85.60 74.50 80.05
base_l2 85.22 75.30 80.26
base_gl 85.12 75.00 80.05
base_lg 85.43 74.78 80.10
base_og 85.13 73.31 79.22
base_og_16 84.94 73.10 79.01
base_og_32 84.84 72.93 78.89
base_og_64 85.07 74.11 79.59
large_l 88.07 80.51 84.29
large_l2 88.05 80.68 84.36
large_gl 88.33 80.30 84.32
large_lg 88.31 81.56 84.94
# hypergrid: HyperGrid, Table 7
base_l2_all - - 79.05
base_l2_both_ffn - - 80.20
base_l2_first_ffn - - 80.23
base_scalar - - 79.20
base_max_grid - - 80.10
""",
)
# Of the test sets. 11B has no others.
_table(
    [*_AVG_GLUE, *_GLUE, "glue/wnli:accuracy"],
    """
# hypergrid: HyperGrid, Table 5 (test sets)
3b_lg_test 88.2 65.6 97.5 89.0 91.6 81.9 90.9 95.9 90.1 89.7
11b_lg 89.4 69.0 97.6 89.2 92.6 82.0 91.3 96.4 91.5 93.2
""",
)
_table(
    [*_AVG_SUPER_GLUE, *_SUPER_GLUE],
    """
# hypergrid: HyperGrid, Table 6 (test sets)
3b_lg_test 84.7 89.2 81.7/90.4 89.6 86.6/58.7 91.1/90.3 90.8 70.6 87.7
11b_lg 88.9 91.1 93.9/96.8 94.6 88.1/62.4 93.5/92.7 92.3 74.6 91.6
""",
)

# HyperPrompt. Rows of prompts in both stacks have GLUE, "decoder_only" SuperGLUE.
_GLUE = _of(
    "glue",
    f"{_FIRST}mrpc:f1 mrpc:accuracy,{_STSB},qqp:f1 qqp:accuracy,"
    f"mnli_matched:accuracy mnli_mismatched:accuracy{_LAST}",
)
_table(
    [*_GLUE, *_AVG_GLUE],
    """
# hyperprompt_base: HyperPrompt, Table 8
mtl 49.8 94.6 92.5/89.8 90.7/90.5 89.2/91.9 88.8/88.5 93.3 85.0 85.5
adapters 60.0 95.4 92.7/89.8 90.2/90.2 89.3/91.9 88.5/88.1 93.5 84.4 86.7
hyperformer_plus_plus 56.9 94.8 92.9/90.1 91.1/90.9 88.9/91.7 88.7/88.3 93.4 85.6 86.5
prompt_tuning 48.0 95.0 92.2/89.0 90.3/90.2 89.0/91.7 88.8/88.5 93.2 82.9 84.8
share 56.2 94.7 93.0/90.4 90.6/90.4 89.2/91.9 88.7/88.4 93.4 85.2 86.4
sep 57.2 94.6 93.8/91.4 91.0/90.8 89.2/91.9 88.5/88.4 93.4 86.6 86.8
global 57.0 95.2 93.4/90.9 90.4/90.2 89.2/92.0 88.7/88.5 93.4 87.1 86.8
# hyperprompt_large: HyperPrompt, Table 10
mtl 59.4 96.6 93.3/90.7 90.6/90.4 89.8/92.3 90.8/90.8 95.2 90.8 88.3
adapters 63.8 96.5 93.7/91.3 92.0/91.9 90.0/92.5 90.6/90.5 94.9 88.7 88.8
hyperformer_plus_plus 63.3 96.6 93.2/90.7 92.1/91.9 89.7/92.3 90.5/90.7 95.1 89.9 88.8
prompt_tuning 62.5 96.7 93.4/91.0 91.3/91.0 90.0/92.4 90.9/91.0 95.4 89.9 88.8
share 65.0 96.7 93.8/91.6 91.1/90.8 90.0/92.4 90.8/91.1 95.3 91.3 89.3
sep 63.9 96.6 94.6/92.6 92.0/91.7 90.0/92.4 90.9/91.0 95.2 91.6 89.4
global 64.6 96.7 94.0/91.8 91.3/91.4 90.0/92.4 90.8/91.0 95.4 91.9 89.4
# hyperprompt_large_hyperformer_plus_plus_task: HyperPrompt, Table 6
only 58.9 95.7 92.7/90.0 91.6/91.5 87.7/90.7 89.8/90.0 94.5 87.0 87.3
# hyperprompt_large: HyperPrompt, Table 6
global_task_only 57.5 96.7 93.6/91.2 91.9/92.0 87.0/90.1 90.3/90.6 95.0 87.7 87.5
""",
)
_table(
    [*_SUPER_GLUE, *_AVG_SUPER_GLUE],
    """
# hyperprompt_base: HyperPrompt, Table 9
mtl 82.6 93.4/93.5 65.7 76.7/39.7 80.9/80.2 85.6 70.5 81.4 77.2
prompt_tuning 82.5 94.0/95.8 68.0 76.9/40.2 80.9/80.2 84.1 69.3 80.8 77.3
share_decoder_only 83.1 95.7/95.2 67.7 77.3/41.3 81.9/81.0 87.4 70.4 80.8 78.2
sep_decoder_only 83.3 97.8/97.0 61.7 77.6/42.3 81.5/80.6 86.8 71.4 78.2 77.5
decoder_only 83.3 96.6/96.4 69.7 77.5/41.0 81.7/80.9 86.8 70.5 83.7 78.9
# hyperprompt_large: HyperPrompt, Table 11
mtl 88.5 95.8/98.2 87.0 85.5/56.3 89.2/88.6 91.7 74.0 89.4 85.9
prompt_tuning 88.5 97.6/98.8 85.0 84.9/55.2 89.0/88.4 91.5 72.8 90.1 85.6
share_decoder_only 88.5 98.7/98.2 88.0 85.2/55.8 89.7/89.1 91.8 74.1 93.9 86.8
sep_decoder_only 88.6 97.6/98.8 87.7 85.2/56.4 89.7/89.1 91.6 73.5 89.4 86.1
decoder_only 88.7 99.1/98.8 91.0 85.0/55.6 89.8/89.1 91.3 74.2 92.0 87.0
# hyperprompt_large: HyperPrompt, Table 7
decoder_only_task_only 85.2 95.2/95.5 75.5 82.9/52.9 89.1/88.3 85.7 71.1 82.2 81.5
""",
)
_table(
    [*_AVG_GLUE, *_AVG_SUPER_GLUE],
    """
# hyperprompt_base: HyperPrompt, Table 5
hyperformer_plus_plus 86.5 74.8
encoder_only 86.6 76.5
decoder_only 86.3 78.9
global 86.8 78.7
# hyperprompt_xxl: HyperPrompt, section 4.2
mtl - 90.2
decoder_only - 91.3
""",
)

# HyperFormer
_GLUE = _of(
    "glue",
    f"{_FIRST}mrpc:accuracy mrpc:f1,qqp:accuracy qqp:f1,{_STSB},mnli:accuracy{_LAST}",
)
_table(
    [*_GLUE, "average:glue_metrics"],
    """
# hyperformer_small: HyperFormer, Table 1 (single-task training)
t5_single 46.81 90.47 86.21/90.67 91.02/87.96 89.11/88.70 82.09 90.21 59.42 82.06
adapters 40.12 89.44 85.22/89.29 90.04/86.68 83.93/83.62 81.58 89.11 55.80 79.53
# hyperformer_base: HyperFormer, Table 1 (single-task training)
t5_single 54.85 92.19 88.18/91.61 91.46/88.61 89.55/89.41 86.49 91.60 67.39 84.67
adapters 59.49 93.46 88.18/91.55 90.94/88.01 87.44/87.18 86.38 92.26 68.84 84.88
# hyperformer_small: HyperFormer, Table 1
t5 50.67 91.39 84.73/88.89 89.53/86.31 88.70/88.27 81.04 89.67 59.42 81.69
# hyperformer_small_adapters_shared: HyperFormer, Table 1
norm 39.87 90.01 88.67/91.81 88.51/84.77 88.15/87.89 79.95 89.60 60.14 80.85
# hyperformer_small: HyperFormer, Table 1
. 47.64 91.39 90.15/92.96 88.68/85.08 87.49/86.96 81.24 90.39 65.22 82.47
# hyperformer_plus_plus_small: HyperFormer, Table 1
. 53.96 90.59 84.24/88.81 88.44/84.46 87.73/87.26 80.69 90.39 71.01 82.51
# hyperformer_base: HyperFormer, Table 1
t5 54.88 92.54 90.15/93.01 91.13/88.07 88.84/88.53 85.66 92.04 75.36 85.47
# hyperformer_base_adapters_shared: HyperFormer, Table 1
norm 61.53 93.00 90.15/92.91 90.47/87.26 89.86/89.44 86.09 93.17 70.29 85.83
# hyperformer_base: HyperFormer, Table 1
. 61.32 93.80 90.64/93.33 90.13/87.18 89.55/89.03 86.33 92.79 78.26 86.58
# hyperformer_plus_plus_base: HyperFormer, Table 1
. 63.73 94.03 89.66/92.63 90.28/87.20 90.00/89.66 85.74 93.02 75.36 86.48
# hyperformer_plus_plus_small: HyperFormer, Table 7 (validation sets)
r8 42.13 98.60 82.76/87.72 90.69/87.55 84.92/84.18 82.3 95.40 78.83 83.19
r16 42.60 97.8 84.73/89.12 88.99/85.33 85.69/85.12 81.96 93.69 75.91 82.81
r32 49.90 96.00 83.74/88.50 89.29/85.79 85.99/85.41 81.28 91.79 72.99 82.79
# hyperformer_plus_plus_base: HyperFormer, Table 7 (validation sets)
r8 54.86 97.30 88.18/91.55 94.59/92.91 89.77/89.69 85.89 96.10 84.67 87.77
r16 53.83 98.00 88.18/91.61 94.89/93.33 90.12/89.65 85.94 96.50 83.94 87.82
r32 55.58 97.20 89.66/92.42 93.19/91.08 88.96/88.57 85.82 94.19 81.75 87.13
""",
)
_table(
    ["average:glue_metrics"],
    """
# hyperformer_small_adapters_shared: HyperFormer, Table 3
norm_r2 80.97
# hyperformer_base_adapters_shared: HyperFormer, Table 3
norm_r2 85.84
# hyperformer_small: HyperFormer, Table 4
no_adapter_blocks 68.37
no_conditional_norm 79.83
no_task_projector 81.56
no_t5_norms 81.29
no_norms 78.92
""",
)

# Hyperdecoders
_GLUE = _of(
    "glue",
    f"{_FIRST}{_STSB},mrpc:accuracy mrpc:f1,qqp:accuracy qqp:f1,mnli:accuracy{_LAST}",
)
_table(
    [*_GLUE, *_AVG_GLUE],
    """
# hyperdecoder_large_glue: Hyperdecoders, Table 1
finetuning 63.6 94.8 92.0/91.6 88.7/91.8 92.2/89.5 88.6 93.3 77.5 86.3
hyperformer 19.2 87.3 86.2/85.8 73.4/81.3 87.0/82.8 77.7 84.2 55.1 71.5
hyperformer_plus_plus 35.5 88.3 87.9/87.6 78.8/85.2 86.4/82.3 88.3 84.8 64.5 76.9
task_hypernet 0.0 82.1 16.4/16.4 70.4/81.4 89.8/86.5 56.6 64.8 50.7 54.3
modular_skills 51.2 96.2 91.9/92.0 90.1/93.0 89.4/86.1 89.5 93.5 74.6 84.5
adapters 58.5 95.7 90.1/90.3 89.4/92.2 91.4/88.6 89.8 94.1 80.7 86.2
. 58.7 95.9 91.8/92.0 89.2/92.0 91.1/88.3 90.0 94.2 80.8 86.5
# hyperdecoder_large_glue: Hyperdecoders, Table 13
manual_task 54.6 96.0 91.9/91.9 89.7/92.6 91.0/88.1 90.0 94.1 83.3 86.3
task_manual 8.2 80.7 38.4/38.4 69.0/80.1 78.5/74.2 61.9 69.8 51.5 57.7
task_generated 0.0 83.1 38.4/42.5 69.5/81.0 90.6/87.6 63.0 60.1 52.2 57.9
generated_manual 50.3 95.7 90.6/90.8 82.8/87.6 89.8/86.5 89.1 92.2 76.1 83.4
generated_task 41.6 95.3 82.4/92.7 83.1/88.3 89.5/86.2 88.6 92.1 79.7 82.3
generated_generated 45.4 95.8 88.6/88.4 84.2/88.5 89.7/86.3 89.5 91.8 76.8 82.8
no_mlp 62.0 96.0 92.2/92.3 86.7/90.3 91.1/88.2 90.0 93.4 81.9 86.7
norm_input 45.0 94.8 90.7/91.1 82.3/87.5 89.8/86.7 89.3 92.8 79.7 83.2
# hyperdecoder_base_glue: Hyperdecoders, Table 3
. 54.8 93.8 90.3/90.2 86.2/90.5 90.5/87.3 85.8 93.4 71.0 83.3
""",
)
# Here F1 comes first, as in HyperPrompt, from which its other rows are.
_table(
    [
        *_of(
            "glue",
            f"{_FIRST}{_STSB},mrpc:f1 mrpc:accuracy,qqp:f1 qqp:accuracy,"
            f"mnli:accuracy{_LAST}",
        ),
        *_AVG_GLUE,
    ],
    """
# hyperdecoder_large_glue_dev: Hyperdecoders, Table 2
. 58.2 96.4 91.5/91.6 93.8/91.4 89.3/91.9 90.7 94.8 88.4 87.9
""",
)
_table(
    [
        *_of(
            "mrqa",
            "squad:f1,hotpot_qa:f1,trivia_qa:f1,news_qa:f1,search_qa:f1,"
            "natural_questions:f1",
        ),
        "average:mrqa",
    ],
    """
# hyperdecoder_base_mrqa: Hyperdecoders, Table 4
finetuning 91.0 80.6 76.2 69.0 83.4 79.6 80.0
adapters 90.8 79.5 75.0 68.6 82.9 78.6 79.2
task_hypernet 88.9 77.4 70.6 66.0 81.0 75.0 76.5
. 91.3 79.9 75.0 68.6 82.9 79.1 79.5
# hyperdecoder_base_mrqa: Hyperdecoders, Table 14
64_64 91.1 78.9 73.5 67.7 82.6 77.6 78.6
800_2 90.8 79.5 75.0 68.6 82.9 78.6 79.2
adapters_370_370 88.7 75.9 67.4 64.9 79.5 74.3 75.1
adapters_800_2 91.0 79.6 75.5 68.6 82.9 78.9 79.4
""",
)
_table(
    [
        *_of(
            "mrqa",
            "bio_asq:f1,drop:f1,duo_rc:f1,race:f1,relation_extraction:f1,"
            "textbook_qa:f1",
        ),
        "average:mrqa_out_of_domain",
    ],
    """
# hyperdecoder_base_mrqa: Hyperdecoders, Table 5
finetuning 63.9 47.9 54.5 47.3 84.0 55.1 58.8
adapters 66.0 48.2 55.6 47.7 84.0 57.5 59.8
task_hypernet 63.9 36.6 53.0 44.8 82.0 53.0 55.6
. 65.8 47.0 58.1 46.3 84.3 59.5 60.2
# hyperdecoder_base_mrqa: Hyperdecoders, Table 15
64_64 66.2 43.3 57.8 46.8 85.4 58.4 59.7
800_2 65.7 44.1 55.2 45.4 84.6 54.9 58.3
adapters_370_370 63.4 33.3 56.4 44.8 83.1 56.9 56.3
adapters_800_2 66.4 43.7 55.9 47.2 84.5 55.6 58.9
""",
)
_table(
    [
        *("xsum:rouge2", "cnn_dailymail:rouge2", "wiki_lingua:rouge2"),
        *("glue/mnli:accuracy", "art:accuracy", "anli:accuracy"),
        *("average:summarization", "average:nli", "average:overall"),
    ],
    """
# hyperdecoder_base_sum_nli: Hyperdecoders, Table 16
finetuning 17.4 19.3 18.4 85.6 64.3 44.3 18.4 64.8 41.6
adapters_370_370 15.4 18.7 16.7 86.2 65.2 45.0 16.9 65.5 41.2
adapters 15.5 18.7 16.8 86.5 67.2 45.2 17.0 66.3 41.7
64_64 14.6 18.2 16.0 85.5 63.8 44.1 16.3 64.5 40.4
. 15.3 18.6 16.5 86.3 66.4 44.1 16.8 65.6 41.2
task_hypernet 11.6 17.0 13.4 83.9 61.5 40.5 14.0 62.0 38.0
""",
)
