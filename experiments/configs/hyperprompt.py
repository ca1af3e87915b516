"""HyperPrompt (He, Zheng et al., 2022): rows of Tables 1, 3 to 11, Figures 1 and 4.

Tables 6 and 7 name T5.1.1 large, and XXL is a size of 1.1, so all are taken to be 1.1;
with it most parameter counts of the tables come out. The paper does not say whether
GLUE and SuperGLUE are trained together. Both are here: in one mixture of 16 tasks, as
in HyperGrid (RTE scores alike in both, which SuperGLUE alone hardly allows), and, with
names that end in `_glue8` and `_super_glue8`, each by itself, which fits the printed
counts of parameters (`experiments.report --table=parameters`). What scores best has
prompts or adapters in both stacks for GLUE, in the decoder only for SuperGLUE (section
4.8): so rows of both stacks have GLUE's figures, "decoder_only" SuperGLUE's.
"""

from experiments.configs.hyperprompt_cells import CELLS, PRINTED_SIZES
from experiments.configs.paper_row import (
    FIRST_GLUE,
    LAST_GLUE,
    MTL,
    STSB,
    SUPER_GLUE,
    TIMES,
    ParameterFigure,
    Table,
    columns,
    paper_row,
)
from experiments.runs.config import Config

# Appendix A.2; checkpoints: section 4.1, the best one of each task.
BASE = Config(
    model="t5.1.1-base",
    mixture="en_mix",  # in proportion to the examples of a task
    inputs_length=512,
    targets_length=32,
    steps=300_000,
    batch_size=128,
    optimizer="adafactor",
    learning_rate=1e-3,
    schedule="constant",
    loss_normalization="target_size",  # as Mesh TensorFlow has it
    checkpoint_every=2000,
    keep=0,
)
LARGE = BASE.replace(model="t5.1.1-large")
SIZES = {"base": BASE, "large": LARGE}

# Section 4.7: the best lengths on T5 base, "similar" on large; 4.8: decoder only.
BOTH = {"encoder_length": 16, "decoder_length": 6}
ENCODER_ONLY = BOTH | {"decoder_length": 0}
DECODER_ONLY = BOTH | {"encoder_length": 0}
IN_DECODER = {"stacks": "decoder"}  # of adapters
ALL, TASK = {"trains": "all"}, {"trains": "task"}  # section 4.3
# Of the choices in A.2, those that give the parameter counts of Tables 3 and 4.
SHARE = ("hyperprompt-share", {"reduction": 32})
SEP = ("hyperprompt-sep", {"reduction": 64})  # with 16 tasks
GLOBAL = ("hyperprompt-global", {"reduction": 32, "embedding_size": 64})
# The smallest of the choices: 0.3% of XXL, where the abstract says 0.14%.
SMALL_GLOBAL = ("hyperprompt-global", {"reduction": 64, "embedding_size": 32})
# Baselines have "approximately the same numbers of parameters" (A.2), and reduction 64
# and 16 have those of Tables 3 and 4. Houlsby's adapters have no norm.
ADAPTERS = ("adapters-shared-norm", {"reduction": 64, "norm_after": False})
HYPERFORMER = ("hyperformer++", {"reduction": 16})
# A length is not given. Table 2's operations are those of 512 + 100 tokens, and 100 is
# what the public recipe has.
PROMPT_TUNING = ("prompt-tuning", {"length": 100})
# {method: (as trained, what it has in both stacks, what in the decoder only)}. Plain
# T5 and Prompt-Tuning are the same for both benchmarks.
METHODS = {
    "mtl": (MTL, {}, None),
    "adapters": (ADAPTERS, {}, IN_DECODER),
    "hyperformer_plus_plus": (HYPERFORMER, {}, IN_DECODER),
    "prompt_tuning": (PROMPT_TUNING, {}, None),
    "share": (SHARE, BOTH, DECODER_ONLY),
    "sep": (SEP, BOTH, DECODER_ONLY),
    "global": (GLOBAL, BOTH, DECODER_ONLY),
}
# With 8 tasks reduction 32 of both has the printed counts.
OF_8 = {"adapters": {"reduction": 32}, "sep": {"reduction": 32}}

GLUE = columns(
    "glue",
    f"{FIRST_GLUE}mrpc:f1 mrpc:accuracy,{STSB},qqp:f1 qqp:accuracy,"
    f"mnli_matched:accuracy mnli_mismatched:accuracy{LAST_GLUE}",
)
AVERAGES = ["average:glue", "average:super_glue"]
TABLE_1 = Table("HyperPrompt, Table 1", AVERAGES)
TABLE_5 = Table("HyperPrompt, Table 5", AVERAGES)
TABLE_6 = Table("HyperPrompt, Table 6", [*GLUE, "average:glue"])
TABLE_7 = Table("HyperPrompt, Table 7", [*SUPER_GLUE, "average:super_glue"])
# Of each size: means over 3 runs, GLUE's tasks, and SuperGLUE's.
OVER_RUNS = {
    "base": Table("HyperPrompt, Table 3", AVERAGES),
    "large": Table("HyperPrompt, Table 4", AVERAGES),
}
ON_GLUE = {
    "base": Table("HyperPrompt, Table 8", TABLE_6.columns),
    "large": Table("HyperPrompt, Table 10", TABLE_6.columns),
}
ON_SUPER_GLUE = {
    "base": Table("HyperPrompt, Table 9", TABLE_7.columns),
    "large": Table("HyperPrompt, Table 11", TABLE_7.columns),
}
# Section 4.2 prints two sizes of four; the bars of the figure have no numbers.
FIGURE_1 = Table("HyperPrompt, Figure 1 and section 4.2", ["average:super_glue"])
FIGURE_4 = Table("HyperPrompt, Figure 4", ["average:glue"])

# More tables that print the same runs: {(size, method, benchmark): ...}.
ALSO = {
    ("base", "mtl", "glue"): [TABLE_5("85.5 77.2"), FIGURE_1("77.2")],
    ("base", "hyperformer_plus_plus", "glue"): [TABLE_5("86.5 74.8")],
    ("base", "hyperformer_plus_plus", "super_glue"): [TABLE_5("85.7 78.2")],
    ("base", "global", "glue"): [TABLE_5("86.8 78.7"), FIGURE_4("86.8")],
    ("base", "global", "super_glue"): [
        TABLE_5("86.3 78.9"),
        FIGURE_1("78.9"),
        FIGURE_4("-"),
    ],
    ("large", "mtl", "glue"): [TABLE_1("88.3 85.9"), FIGURE_1("-")],
    ("large", "hyperformer_plus_plus", "glue"): [TABLE_1("88.8 -")],
    ("large", "hyperformer_plus_plus", "super_glue"): [TABLE_1("- 86.4")],
    ("large", "global", "glue"): [TABLE_1("89.4 -")],
    ("large", "global", "super_glue"): [TABLE_1("- 87"), FIGURE_1("-")],
}
IN_TABLES_6_AND_7 = ("mtl", "hyperformer_plus_plus", "global")
CUT = "the paper cuts digits off where we round"
ONE_PROMPT = "100 tokens for each task; the paper's figure is that of one such prompt"
# {(size, method, tasks): why the count on GLUE is another}.
NOTES = {
    ("large", "adapters", 16): CUT,
    ("large", "adapters", 8): CUT,
    ("large", "share", 16): CUT,
}


def _method(method, *changes):
    name, options = method
    for change in changes:
        options = options | change
    return name, options | (TASK if TASK in changes else ALL if name != "none" else {})


def _size(size, method, on_glue, tasks):
    printed = PRINTED_SIZES.get((size, method))
    if printed is None:
        return []
    note = NOTES.get((size, method, tasks), "") if on_glue else ""
    if method == "prompt_tuning":
        note = ONE_PROMPT
    figure = printed[0] if on_glue else printed[1]
    return [ParameterFigure("HyperPrompt", TIMES, figure, tasks=tasks, note=note)]


def _decoder_only(size, method):
    if method == "global":
        return f"hyperprompt_{size}_decoder_only"
    return f"hyperprompt_{size}_{method}_decoder_only"


def _of_16(size, method):
    """The rows of a method with all tasks in one mixture."""
    name = f"hyperprompt_{size}_{method}"
    made, both, decoder = METHODS[method]
    glue, super_glue, means = CELLS[size, method]
    mean, super_mean = means.split()
    printed = [ON_GLUE[size](glue), *ALSO.get((size, method, "glue"), ())]
    on_super = [ON_SUPER_GLUE[size](super_glue)]
    on_super += ALSO.get((size, method, "super_glue"), ())
    if size == "large" and method in IN_TABLES_6_AND_7:
        printed.append(TABLE_6(glue))
        on_super.append(TABLE_7(super_glue))
    if decoder is None:
        printed += [*on_super, OVER_RUNS[size](means)]
    else:
        printed.append(OVER_RUNS[size](f"{mean} -"))
        on_super.append(OVER_RUNS[size](f"- {super_mean}"))
    config = SIZES[size]
    yield paper_row(
        name,
        config,
        _method(made, both),
        *printed,
        parameters=_size(size, method, True, 16),
    )
    if decoder is not None:
        yield paper_row(
            _decoder_only(size, method),
            config,
            _method(made, decoder),
            *on_super,
            parameters=_size(size, method, False, 16),
        )


def _of_8(size, method):
    """The rows of a method with the tasks of each benchmark by themselves."""
    made, both, decoder = METHODS[method]
    glue, super_glue, _ = CELLS[size, method]
    own = OF_8.get(method, {})
    yield paper_row(
        f"hyperprompt_{size}_{method}_glue8",
        SIZES[size].replace(mixture="glue"),
        _method(made, own, both),
        ON_GLUE[size](glue),
        parameters=_size(size, method, True, 8),
    )
    yield paper_row(
        f"hyperprompt_{size}_{method}_super_glue8",
        SIZES[size].replace(mixture="super_glue"),
        _method(made, own, both if decoder is None else decoder),
        ON_SUPER_GLUE[size](super_glue),
        parameters=_size(size, method, False, 8),
    )


def _lengths():
    """Figure 4: in the decoder without prompts in the encoder, then in the encoder."""
    lengths = [{"encoder_length": 0, "decoder_length": n} for n in range(2, 17, 2)]
    lengths += [{"encoder_length": n, "decoder_length": 6} for n in (12, 16, 20, 24)]
    for both in lengths:
        if both in (BOTH, DECODER_ONLY):  # the rows of Tables 8 and 9
            continue
        stack = "encoder" if both["encoder_length"] else "decoder"
        name = f"hyperprompt_base_global_{stack}_length_{both[f'{stack}_length']}"
        yield paper_row(name, BASE, _method(GLOBAL, both), FIGURE_4("-"))


# Section 4.3; Tables 6 and 7 print the tasks, Table 1 the averages.
TASK_ONLY = (
    paper_row(
        "hyperprompt_large_global_task_only",
        LARGE,
        _method(GLOBAL, BOTH, TASK),
        TABLE_6("57.5 96.7 93.6/91.2 91.9/92.0 87.0/90.1 90.3/90.6 95.0 87.7 87.5"),
        TABLE_1("87.5 -"),
    ),
    paper_row(
        "hyperprompt_large_decoder_only_task_only",
        LARGE,
        _method(GLOBAL, DECODER_ONLY, TASK),
        TABLE_7("85.2 95.2/95.5 75.5 82.9/52.9 89.1/88.3 85.7 71.1 82.2 81.5"),
        TABLE_1("- 81.5"),
    ),
    paper_row(
        "hyperprompt_large_hyperformer_plus_plus_task_only",
        LARGE,
        _method(HYPERFORMER, TASK),
        TABLE_6("58.9 95.7 92.7/90.0 91.6/91.5 87.7/90.7 89.8/90.0 94.5 87.0 87.3"),
        TABLE_1("87.3 -"),
    ),
    paper_row(
        "hyperprompt_large_hyperformer_plus_plus_decoder_only_task_only",
        LARGE,
        _method(HYPERFORMER, IN_DECODER, TASK),
        TABLE_7("85.2 90.9/94.6 76.7 81.5/48.8 87.2/86.4 87.7 67.8 82.1 80.5"),
        TABLE_1("- 80.5"),
    ),
)
# Table 5.
IN_THE_ENCODER = (
    paper_row(
        "hyperprompt_base_encoder_only",
        BASE,
        _method(GLOBAL, ENCODER_ONLY),
        TABLE_5("86.6 76.5"),
    ),
    paper_row(
        "hyperprompt_base_hyperformer_plus_plus_encoder_only",
        BASE,
        _method(HYPERFORMER, {"stacks": "encoder"}),
        TABLE_5("85.9 74.4"),
    ),
)
LARGEST = tuple(
    row
    for size, mtl, prompts in (("xl", "-", "-"), ("xxl", "90.2", "91.3"))
    for config in [BASE.replace(model=f"t5.1.1-{size}")]
    for row in (
        paper_row(f"hyperprompt_{size}_mtl", config, MTL, FIGURE_1(mtl)),
        paper_row(
            f"hyperprompt_{size}_decoder_only",
            config,
            _method(SMALL_GLOBAL, DECODER_ONLY),
            FIGURE_1(prompts),
        ),
    )
)
ROWS = (
    *(row for key in CELLS for row in _of_16(*key)),
    *TASK_ONLY,
    *IN_THE_ENCODER,
    *_lengths(),
    *LARGEST,
    *(row for key in CELLS for row in _of_8(*key)),
)
