"""Figures of runs: drawn where a method has them, refused where not, numbers beside."""

import csv

import pytest
from matplotlib.image import imread

from experiments.analyze import analyze
from experiments.configs import get_config
from experiments.runs.eval_results import Results
from tests.experiments.small_run import make_run

EXAMPLES = 5  # of each of two tasks
PLAIN = get_config("nano").replace(mixture="nano/sentiment,nano/acceptability")
RUNS = {
    "plain": PLAIN,
    "prompts": PLAIN.replace(conditioner="hyperprompt-global"),
    "decoder": PLAIN.replace(conditioner="hyperdecoder"),
    "grid": PLAIN.replace(
        conditioner="hypergrid", conditioner_options={"d_r": 4, "d_c": 8}
    ),
}
HAD = {
    "prompts": {"attention", "task-embeddings", "weight-similarity"},
    "decoder": {"input-embeddings", "weight-similarity"},
    "grid": {"attention", "task-embeddings", "grids", "grid-similarity"},
}

pytestmark = pytest.mark.usefixtures("shallow")


@pytest.fixture(scope="module")
def folders(tmp_path_factory, shallow):
    root = tmp_path_factory.mktemp("runs")
    return {name: make_run(root / name, config) for name, config in RUNS.items()}


def numbers(path):
    with open(path.removesuffix(".png") + ".csv") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", HAD)
def test_all_that_a_method_has_is_drawn(folders, name, data_dir):
    drawn = analyze(folders[name], examples=EXAMPLES, data_dir=data_dir)
    assert drawn.keys() == HAD[name]
    for paths in drawn.values():
        for path in paths:
            height, width, _ = imread(path).shape  # dots
            assert 400 < width < 2000 and 200 < height < 2000
            assert numbers(path)
    assert drawn[min(drawn)][0].startswith(f"{folders[name]}/analysis/")


def test_the_numbers_of_attention_are_shares_beside_a_baseline(
    folders, data_dir, tmp_path
):
    (path,) = analyze(
        folders["prompts"],
        figures=["attention"],
        examples=EXAMPLES,
        baseline=folders["plain"],
        output=tmp_path,
        data_dir=data_dir,
    )["attention"]
    rows = numbers(path)
    mass = {run: [] for run in ("prompts", "plain")}
    for row in rows:
        assert row["examples"] == str(EXAMPLES)
        mass[row["run"]].append(float(row["mass_mean"]))
    assert not any(mass["plain"])
    assert all(0 < share < 1 for share in mass["prompts"])
    assert {row["task"] for row in rows} == set(PLAIN.mixture.split(","))


def test_a_sweep_has_curves_of_several_runs(folders, tmp_path):
    runs = []
    for d_r, d_c, score in ((2, 4, 60.0), (2, 8, 70.0), (4, 8, 90.0)):
        options = {"d_r": d_r, "d_c": d_c}
        run = str(tmp_path / f"{d_r}x{d_c}")
        config = RUNS["grid"].replace(conditioner_options=options)
        (tmp_path / f"{d_r}x{d_c}").mkdir()
        (tmp_path / f"{d_r}x{d_c}" / "config.json").write_text(config.to_json())
        Results(run).add(1, {"nano/sentiment": {"accuracy": score}}, "greedy", 0)
        runs.append(run)
    (path,) = analyze(runs, output=tmp_path)["sweep"]
    rows = {(row["option"], row["value"]): row for row in numbers(path)}
    assert len(rows) == 4
    assert rows["hypergrid d_r", "2"]["mean"] == "65"
    assert rows["hypergrid d_c", "8"]["max"] == "90"
    assert rows["hypergrid d_c", "8"]["min"] == "70"
    with pytest.raises(ValueError, match="no option that is a number differs"):
        analyze([runs[0], runs[0] + "/"], output=tmp_path)


def test_what_cannot_be_drawn_is_said_at_once(folders):
    with pytest.raises(ValueError, match="did you mean 'grids'"):
        analyze(folders["grid"], figures=["grid"])
    with pytest.raises(ValueError) as error:
        analyze(folders["decoder"], figures=["attention"])
    assert "hyperdecoder" in str(error.value)
    assert str(error.value).endswith(
        "expected one of those it has: input-embeddings, weight-similarity"
    )
    with pytest.raises(ValueError, match="the method none has none of the figures"):
        analyze(folders["plain"])
    with pytest.raises(ValueError, match="names 1 folders for sweep"):
        analyze(folders["grid"], figures=["sweep"])
    with pytest.raises(ValueError, match="expected with figure 'attention'"):
        analyze(
            folders["decoder"],
            figures=["weight-similarity"],
            baseline=folders["plain"],
        )
