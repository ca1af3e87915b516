"""Every named configuration can be run, and says what its paper says."""

import pytest

from experiments import configs
from experiments.configs import get_row
from experiments.runs.components import make_mixture
from hypertf import T5Config, conditioning
from tfds_tasks import get_task
from tfds_tasks.scores.averages import average

NAMES = configs.config_names()
OF_PAPERS = [name for name in NAMES if configs.get_config(name).paper]


def methods():
    """The configurations that differ in model, tasks or method: {what: name}."""
    of_model = {}
    for name in NAMES:
        config = configs.get_config(name)
        tasks = make_mixture(config).num_tasks
        made = (
            config.model,
            tasks,
            config.conditioner,
            *config.conditioner_options.items(),
        )
        of_model.setdefault(made, name)
    return of_model


METHODS = methods()


@pytest.mark.parametrize("made", METHODS, ids=METHODS.values())
def test_model_mixture_and_options_are_known(made):
    model, tasks, method, *options = made
    conditioner = conditioning.create(
        method, T5Config.from_name(model), tasks, **dict(options)
    )
    assert (conditioner is None) == (method == "none" and not options)


def test_survives_json():
    for name in NAMES:
        config = configs.get_config(name)
        assert configs.Config.from_json(config.to_json()) == config, name


NOT_PRINTED = (
    "hyperformer_small_adapters_shared_norm_r4",
    "hyperformer_base_adapters_shared_norm_r4",
)


def test_has_a_row_of_its_paper():
    for name in OF_PAPERS:
        row = get_row(configs.get_config(name).paper)
        numbers = row.scores or row.average or name in NOT_PRINTED
        assert row.source and (numbers or "Figure" in row.source), name


def test_is_of_its_row():
    for name in OF_PAPERS:
        config = configs.get_config(name)
        row = get_row(config.paper)
        assert config is (row.runs[name] if row.runs else row.config), name
        assert name.startswith(row.name)


def test_another_rows_runs_are_known():
    for name in configs.row_names():
        assert configs.runs_of(get_row(name)), name


def test_the_split_of_the_figures():
    for name in configs.row_names():
        check_the_split_of_the_figures(name)


def check_the_split_of_the_figures(name):
    """HyperFormer's and Hyperdecoders' own test sets, else the validation sets."""
    row = get_row(name)
    validation = ("hyperprompt_", "hypergrid_", "hyperdecoder_base_mrqa")
    test = ("hyperformer_", "hyperdecoder_")
    exceptions = {
        "hypergrid_3b_lg_test": "test",
        "hypergrid_11b_lg": "test",  # only of the servers
        "hyperdecoder_large_glue_dev": "validation",
        **{
            f"hyperdecoder_large_glue_{which}": "validation"  # Table 7
            for which in (
                *("encoder_decoder", "encoder_only"),
                *("adapters_encoder_decoder", "adapters_encoder_only"),
            )
        },
        **{
            f"hyperformer_plus_plus_{size}_r{r}": "validation"  # Table 7
            for size in ("small", "base")
            for r in (8, 16, 32)
        },
    }
    usual = "validation" if name.startswith(validation) else "test"
    assert name.startswith(validation + test)
    assert row.split == exceptions.get(name, usual)


OF_OTHERS = {"lora", "ia3", "mpt"}  # methods of papers that have no row here


def test_every_method_of_the_papers_has_a_config():
    used = {configs.get_config(name).conditioner for name in NAMES}
    assert used >= set(conditioning.names()) - OF_OTHERS


def test_scored_tasks_are_of_the_mixture():
    for name in OF_PAPERS:
        check_scored_tasks_are_of_the_mixture(name)


def check_scored_tasks_are_of_the_mixture(name):
    config = configs.get_config(name)
    tasks = {task.name for task in make_mixture(config).tasks}
    row = get_row(config.paper)
    if row.runs:  # one of several
        assert tasks & set(row.scores)
        return
    # WNLI is in the leaderboard of GLUE, and not trained.
    assert set(row.scores) - {"glue/wnli"} <= tasks


HALVES = ("glue/mnli_matched", "glue/mnli_mismatched")


def scores_of(name, benchmark):
    scores = get_row(configs.get_config(name).paper).scores
    return {t: m for t, m in scores.items() if t.startswith(f"{benchmark}/")}


@pytest.mark.parametrize(
    ("name", "benchmark"),
    [
        (name, benchmark)
        for name in OF_PAPERS
        for benchmark in ("glue", "super_glue")
        if name.startswith(("hyperprompt_", "hyperdecoder_"))
        if scores_of(name, benchmark)
        and benchmark in get_row(configs.get_config(name).paper).average
    ],
)
def test_printed_scores_have_the_printed_average_over_tasks(name, benchmark):
    """Finds a number that was copied wrong. HyperGrid's own do not add up."""
    scores = scores_of(name, benchmark)
    if HALVES[0] in scores:
        scores["glue/mnli"] = {half: scores.pop(half)["accuracy"] for half in HALVES}
    printed = get_row(name).average[benchmark]
    assert average(scores) == pytest.approx(printed, abs=0.08)


@pytest.mark.parametrize(
    "name",
    [n for n in OF_PAPERS if n.startswith("hyperformer_") and scores_of(n, "glue")],
)
def test_printed_scores_have_the_printed_average_over_metrics(name):
    scores = scores_of(name, "glue").values()
    values = [value for metrics in scores for value in metrics.values()]
    printed = get_row(configs.get_config(name).paper).average["glue_metrics"]
    assert sum(values) / len(values) == pytest.approx(printed, abs=0.02)


def test_hypergrid_as_in_its_section_6_3():
    config = configs.get_config("hypergrid_base_l2")
    assert config.model == "t5-base"
    assert (config.steps, config.batch_size) == (100_000, 128)
    assert (config.optimizer, config.learning_rate) == ("adafactor", 0.001)
    assert config.conditioner_options["trains"] == "all-but-embeddings"
    largest = configs.get_config("hypergrid_11b_lg")
    options = largest.conditioner_options
    assert (options["variant"], options["d_r"], options["d_c"]) == ("LG", 32, 128)
    assert largest.steps == 200_000


def test_hyperprompt_as_in_its_appendix_a2():
    config = configs.get_config("hyperprompt_base_global")
    assert (config.inputs_length, config.targets_length) == (512, 32)
    assert (config.steps, config.batch_size) == (300_000, 128)
    options = config.conditioner_options
    assert (options["encoder_length"], options["decoder_length"]) == (16, 6)
    assert configs.get_config("hyperprompt_large_global").model == "t5.1.1-large"


def test_hyperformer_as_in_its_section_3():
    config = configs.get_config("hyperformer_plus_plus_base")
    assert (config.steps, config.learning_rate) == (262_144, 0.0003)
    assert (config.temperature, config.prefix) == (10, False)
    assert config.batch_size == 32
    assert configs.get_config("hyperformer_plus_plus_small").batch_size == 64
    # Of the public code: a sum is clipped, and elements are dropped one by one.
    assert (config.loss_normalization, config.clip_norm) == ("sum", 1.0)
    assert not config.shared_dropout


def test_norms_of_hyperformers_adapters_start_as_in_its_public_code():
    trained = [
        configs.get_config(name)
        for name in OF_PAPERS
        if name.startswith("hyperformer_")
        and (
            "adapters" in configs.get_config(name).conditioner
            or "conditional_norm" in configs.get_config(name).conditioner_options
        )
    ]
    assert len(trained) > 20
    for config in trained:
        assert config.conditioner_options["initial_scale"] == 1.0, config.paper


def test_hyperdecoders_as_in_their_section_3_2():
    glue = configs.get_config("hyperdecoder_large_glue")
    assert (glue.optimizer, glue.learning_rate) == ("adamw", 3e-4)
    assert (glue.schedule, glue.warmup_steps, glue.batch_size) == ("linear", 500, 128)
    skills = configs.get_config("hyperdecoder_large_glue_modular_skills")
    assert skills.learning_rates == {"skill_logits": 1e-2}  # appendix A.3
    sum_nli = configs.get_config("hyperdecoder_base_sum_nli")
    assert (sum_nli.steps, sum_nli.batch_size) == (100_000, 64)
    assert sum_nli.decoding == "task"
    assert get_task("xsum").decoding["beam_size"] == 6


def test_scores_as_the_papers_print_them():
    def score(name, task, metric):
        return get_row(name).scores[task][metric]

    assert score("hypergrid_base_l2", "super_glue/wsc", "accuracy") == 80.8
    assert score("hypergrid_base_l2", "glue/mrpc", "score") == 90.1
    assert score("hyperprompt_base_decoder_only", "super_glue/copa", "accuracy") == 69.7
    assert (
        score("hyperformer_plus_plus_base", "glue/cola", "matthews_corrcoef") == 63.73
    )
    assert score("hyperdecoder_base_mrqa", "mrqa/drop", "f1") == 47.0
    assert get_row("hyperprompt_xxl_decoder_only").average["super_glue"] == 91.3


@pytest.mark.parametrize("get", [configs.get_config, get_row])
def test_a_wrong_name_gets_the_nearest(get):
    with pytest.raises(ValueError, match="did you mean 'hypergrid_base_l2'"):
        get("hypergrid_base_L2")


def test_a_name_in_two_modules_is_an_error():
    with pytest.raises(ValueError, match="two: a: known already"):
        configs.merged([("one", {"a": 1}), ("two", {"a": 2})])


def test_figures_of_two_splits_are_two_rows():
    tables = [configs.Table("A paper", ["average:glue"], s)("1.0") for s in ("a", "b")]
    with pytest.raises(ValueError, match=r"row mixed: .*expected one split"):
        configs.Row("mixed", None, tuple(tables))
