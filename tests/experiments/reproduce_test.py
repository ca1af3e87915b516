"""A number of a table leads to its commands, its runs and the table beside ours."""

import csv
import json
import re

import pytest

from experiments import reproduce
from experiments.configs import get_config, get_row, row_names
from experiments.configs.items import ITEMS, get_item, item_runs
from experiments.reports.seeds import Summary, p_value
from experiments.runs import nano_scale
from experiments.runs.components import make_mixture, t5_config
from hypertf import conditioning

ITEM = "hyperprompt/table5"
ROWS = ("hyperprompt_base_encoder_only", "hyperprompt_base_mtl")
NUMBERS = {
    "hypergrid": (range(1, 8), range(1, 9)),
    "hyperprompt": (range(1, 12), range(1, 5)),
    "hyperformer": (range(1, 8), range(1, 4)),
    "hyperdecoders": (range(1, 17), range(1, 5)),
}


def test_every_table_and_figure_is_there():
    expected = {
        f"{paper}/{kind}{number}"
        for paper, both in NUMBERS.items()
        for kind, numbers in zip(("table", "figure"), both, strict=True)
        for number in numbers
    }
    slides = {f"hypergrid_slides/table{n}" for n in (5, 6)}
    assert set(ITEMS) == expected | slides


def test_an_item_has_rows_or_says_why_not():
    for item in ITEMS.values():
        assert bool(item.instead) or item.rows, item.key
        assert bool(item.instead) != item.can_run


def test_every_row_is_in_an_item():
    shown = {row.name for item in ITEMS.values() for row in item.rows}
    assert set(row_names()) == shown


def test_a_table_needs_the_runs_of_the_tasks_that_it_prints():
    runs = item_runs(get_item("hypergrid/table2").rows[0])
    assert len(runs) == 8
    assert all(name.startswith("hypergrid_base_multi_model_super") for name in runs)


def test_the_list_has_a_line_for_each():
    lines = reproduce.list_text().splitlines()
    assert len(lines) == 1 + len(ITEMS)
    (line,) = [x for x in lines if x.startswith("hyperprompt/table5 ")]
    assert "t5.1.1-base" in line and "300,000 steps" in line


def test_every_row_can_be_made_at_nano_scale():
    made = set()
    for name in row_names():
        row = get_row(name)
        if row.starts_from and not row.takes_encoder:  # a run of other tasks
            continue
        for config in nano_scale.nano_runs(get_row(name)).values():
            key = config.conditioner, *config.conditioner_options.items()
            if key not in made:
                made.add(key)
                tasks = make_mixture(config).num_tasks
                method, options = config.conditioner, config.conditioner_options
                conditioning.create(method, t5_config(config), tasks, **options)


@pytest.mark.parametrize("scale", ["full", "nano"])
def test_prints_the_commands(scale):
    text = reproduce.commands(ITEM, scale=scale, seeds=2)
    trained = re.findall(r"experiments.train (.*) --model_dir=(\S+)", text)
    assert len(trained) == 2 * len(get_item(ITEM).rows) + (scale == "nano")
    assert len({folder for _, folder in trained}) == len(trained)
    assert any("--seed=1" in given for given, _ in trained)


def test_runs_that_start_from_another_items_run():
    item, rows = "hyperformer/table2", ["hyperformer_plus_plus_base_transfer_4_rows"]
    text = reproduce.commands(item, rows=rows, seeds=2, init="/t5")
    trained = re.findall(r"experiments.train (.*) --model_dir=(\S+)", text)
    (source, at), *others = trained
    assert source == "--config=hyperformer_plus_plus_base --init=/t5"
    assert len(others) == 2 * 7
    assert all(f"--init={at}" in given for given, _ in others)
    config = get_config(f"{rows[0]}_paws")
    assert (config.train_rows, config.mixture) == (4, "paws")
    assert config.init_tasks == {"paws": "glue/qqp"}
    with pytest.raises(ValueError, match="starts from a run of other tasks"):
        reproduce.commands(item, scale="nano")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"item": "hyperprompt/table55"}, "did you mean 'hyperprompt/table5'"),
        ({"item": "hyperprompt/figure2"}, "is not run: an architecture diagram"),
        ({"scale": "tiny"}, "scale='tiny', expected one of full, nano"),
        ({"seeds": 0}, "seeds=0, expected an integer >= 1"),
        ({"rows": ["mine"]}, "'mine' is no row of hyperprompt/table5"),
        ({"init": {"t5-small": "/a"}}, "no path for t5.1.1-base"),
        ({"init": None}, "start from pretrained weights; expected their path"),
    ],
)
def test_bad_input_is_said_before_any_work(change, message, tmp_path):
    options = {"item": ITEM, "output": str(tmp_path)} | change
    with pytest.raises(ValueError, match=re.escape(message)):
        reproduce.reproduce(**options)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One row with two seeds, on one task."""
    folder = tmp_path_factory.mktemp("reproduce")
    options = {"scale": "nano", "seeds": 2, "rows": ROWS[:1], "steps": 1}
    one_task = get_config("nano").replace(mixture="nano/sentiment")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nano_scale, "get_config", lambda name: one_task)
        table = reproduce.reproduce(ITEM, output=folder, **options)
        yield folder, options, table


@pytest.mark.slow
def test_trains_scores_and_tabulates(made):
    folder, _, table = made
    at = folder / ITEM / "nano_1_steps"
    assert table.text == (at / "table.md").read_text()
    cells = json.loads((at / "table.json").read_text())["cells"]
    assert cells == table.cells
    with open(at / "table.csv") as file:
        assert len(list(csv.DictReader(file))) == len(cells)
    (mean,) = [
        c for c in cells if c["row"] == ROWS[0] and c["task"] == "mean over tasks"
    ]
    assert mean["runs"] == 2 and mean["deviation"] is not None
    papers = [c["paper"] for c in cells if c["row"] == ROWS[0] and c["paper"]]
    assert papers == [86.6, 76.5]


@pytest.mark.slow
def test_goes_on_where_it_was_stopped(made, capsys):
    folder, options, table = made
    capsys.readouterr()
    again = reproduce.reproduce(ITEM, output=folder, **options)
    assert again.text == table.text
    assert "training" not in capsys.readouterr().out


def test_summaries_of_seeds():
    assert Summary.of([1.0, 3.0]) == Summary(2.0, pytest.approx(2**0.5), 2)
    assert Summary.of([1.0]).deviation is None
    assert p_value([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == pytest.approx(1.0)
