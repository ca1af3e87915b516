"""The report of runs holds the numbers that their folders hold."""

import io
import json
import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest

import hypertf
from experiments import paper_scores, run_plots, run_report
from experiments.configs import get_config, papers
from tests.conftest import ROOT
from tfds_tasks import get_mixture

TASKS = get_mixture("nano").identities
A, B = "nano/acceptability", "nano/paraphrase"
# Means over tasks 55, 70 and 67.5; A is best at 200, B at 300.
PLAIN = {
    100: {A: {"accuracy": 60.0}, B: {"f1": 40.0, "accuracy": 60.0}},
    200: {A: {"accuracy": 80.0}, B: {"f1": 50.0, "accuracy": 70.0}},
    300: {A: {"accuracy": 70.0}, B: {"f1": 60.0, "accuracy": 70.0}},
}
METHOD = {300: {A: {"accuracy": 90.5}, B: {"f1": 81.0, "accuracy": 84.0}}}


def write_run(
    folder, config="nano", scores=None, loss=2.0, records=12, measured=None, **changes
):
    """A model_dir as train and evaluate leave it."""
    (folder / "eval").mkdir(parents=True)
    config = get_config(config).replace(**{"steps": 1234, **changes})
    (folder / "config.json").write_text(config.to_json())
    with open(folder / "train.jsonl", "w") as file:
        for i in range(records):
            record = {
                "step": 25 * (i + 1),
                "loss": loss / (i + 1),
                "examples_per_second": 640.0 if i else 6.4,
                "seconds_per_step": 0.1 if i else 10.0,  # the first one compiles
                "learning_rate": 0.01,
                "task_loss": {t: loss / (i + k + 1) for k, t in enumerate(TASKS)},
                "task_examples": dict.fromkeys(TASKS, 100),
                **(measured or {}),
            }
            file.write(json.dumps(record) + "\n")
    if scores:
        steps = {
            step: {"scores": s, "how": "greedy", "seconds": 1.0}
            for step, s in scores.items()
        }
        text = json.dumps({"split": "validation", "steps": steps})
        (folder / "eval/validation.json").write_text(text)
    return str(folder)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """A plain run and a method's, reported together: text, folder of the report."""
    folder = tmp_path_factory.mktemp("runs")
    row = papers.Row(
        "A paper, Table 7", {A: {"score": 91.0}, B: {"score": 80.0}}, {"glue": 88.0}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(papers.ROWS, "invented", row)
        runs = [
            write_run(folder / "plain", scores=PLAIN),
            write_run(
                folder / "method",
                "nano_hyperprompt_global",
                METHOD,
                loss=1.0,
                measured={"share_waited": 0.0123},
                paper="invented",
                conditioner_options={"encoder_length": 4},
            ),
        ]
        text, path = run_report.write(runs)
    assert path == str(folder / "plain/report/report.md")
    assert (folder / "plain/report/report.md").read_text() == text
    return text, folder / "plain/report"


def lines_of(text, *first):
    """Cells of the table rows that begin so."""
    rows = [[c.strip() for c in x.split("|")[1:-1]] for x in text.splitlines()]
    return [row for row in rows if row[: len(first)] == list(first)]


def test_the_table_of_runs(two_runs):
    text, _ = two_runs
    assert lines_of(text, "") == [["", "plain", "method"]]
    for fact, plain, method in (
        ("model", "t5-nano", "t5-nano"),
        ("conditioner", "none", "hyperprompt-global"),
        ("options", "default", "encoder_length=4"),
        ("mixture", "nano (11 tasks)", "nano (11 tasks)"),
        ("steps", "300 of 1,234", "300 of 1,234"),
        ("batch size", "64", "64"),
        ("learning rate", "0.015, linear (adafactor)", "0.015, linear (adafactor)"),
        ("seed", "0", "0"),
        ("seconds per step (median)", "0.1", "0.1"),
        ("examples a second (median)", "640", "640"),
        ("minutes of training", "4.6", "4.6"),  # 25 steps of 10 s, 275 of 0.1 s
        ("waiting for data", "", "1.2% of the time"),
        ("last loss", "0.1667", "0.0833"),  # 2 / 12, 1 / 12
    ):
        assert lines_of(text, fact) == [[fact, plain, method]]


def test_parameters_are_those_of_the_model(two_runs):
    text, _ = two_runs
    config = hypertf.T5Config.from_name("t5-nano")
    method = hypertf.conditioning.create(
        "hyperprompt-global", config, 11, encoder_length=4
    )
    plain = hypertf.T5(config).count_params()
    both = hypertf.T5(config, conditioner=method).count_params()
    for fact in ("parameters", "of them trained"):
        assert lines_of(text, fact) == [[fact, f"{plain:,}", f"{both:,}"]]
    times = lines_of(text, "times the plain T5")[0]
    assert times[1:] == ["1.0000x", f"{both / plain:.4f}x"]


def test_scores_at_the_best_checkpoint_beside_the_paper(two_runs):
    text, _ = two_runs
    headings = ["task", "metric", "plain", "method", "paper [1]", "method - paper"]
    assert lines_of(text, "task", "metric") == [[*headings, "method - plain"]]
    for row in (
        # A task of one metric has the paper's "score" beside that metric.
        [A, "accuracy", "80.00", "90.50", "91.00", "-0.50", "+10.50"],
        [B, "f1", "50.00", "81.00", "", "", "+31.00"],
        [B, "accuracy", "70.00", "84.00", "", "", "+14.00"],
        [B, "mean", "", "82.50", "80.00", "+2.50", ""],
        ["mean over tasks", "", "70.00", "86.50", "", "", "+16.50"],
    ):
        assert lines_of(text, *row[:2]) == [row]
    assert "[1] A paper, Table 7; row `invented`" in text
    assert lines_of(text, "Average GLUE Score")[0][4] == "88.00"


def test_both_ways_to_choose_the_best(two_runs):
    text, _ = two_runs
    assert lines_of(text, "plain", "best single checkpoint")[0][2:] == ["200", "70.00"]
    # A at 200 is 80; B at 300 is the mean of 60 and 70.
    assert lines_of(text, "plain", "best of each task")[0][2:] == ["", "72.50"]
    assert lines_of(text, B, "65.00") == [[B, "65.00", "300", "82.50", "300"]]
    assert lines_of(text, A, "80.00") == [[A, "80.00", "200", "90.50", "300"]]


def test_figures_are_there_and_drawn(two_runs):
    text, folder = two_runs
    for name in ("loss.png", "task_loss.png", "scores.png"):
        assert f"]({name})" in text
        image = matplotlib.image.imread(folder / name)
        assert image.shape[0] > 400 and image.shape[1] > 700
        for colour in run_plots.COLOURS[:2]:
            assert has_colour(image, colour), f"{name} has no line of {colour}"


def has_colour(image, colour):
    wanted = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return (np.abs(image[..., :3] - wanted).max(axis=-1) < 0.01).sum() > 50


def test_one_checkpoint_is_drawn_as_bars(tmp_path):
    runs = run_report.read_runs(
        [write_run(tmp_path / "a", scores=METHOD)], "validation"
    )
    image = matplotlib.image.imread(io.BytesIO(run_plots.scores(runs, "validation")))
    blue = [int(run_plots.COLOURS[0][i : i + 2], 16) / 255 for i in (1, 3, 5)]
    filled = (np.abs(image[..., :3] - blue).max(axis=-1) < 0.01).mean()
    assert filled > 0.1


def test_a_run_that_is_not_scored_gets_its_curves(tmp_path):
    folder = write_run(tmp_path / "run")
    text, _ = run_report.write([folder], str(tmp_path / "out"))
    command = f"python -m experiments.evaluate --model_dir={folder} --split=validation"
    assert command in text
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["loss.png", "report.md", "task_loss.png"]
    assert "scores.png" not in text


def test_what_is_missing_is_named_with_what_makes_it(tmp_path):
    def complaint(*folders):
        with pytest.raises(ValueError) as error:
            run_report.write([str(folder) for folder in folders])
        return str(error.value)

    absent = tmp_path / "absent"
    made_by = f"python -m experiments.train --model_dir={absent}"
    assert f"{absent} is absent" in complaint(absent) and made_by in complaint(absent)
    absent.mkdir()
    assert "no config.json" in complaint(absent) and made_by in complaint(absent)
    (absent / "config.json").write_text(get_config("nano").to_json())
    assert "has no log" in complaint(absent) and made_by in complaint(absent)
    run = write_run(tmp_path / "run", paper="hyperprompt_bas_global")
    assert "did you mean hyperprompt_base_global" in complaint(run)
    assert "more than once" in complaint(run, run)
    assert "0 folders" in complaint()


def test_folders_of_the_same_name_are_told_apart(tmp_path):
    folders = [write_run(tmp_path / x / "run", scores=METHOD) for x in ("a", "b")]
    runs = run_report.read_runs(folders, "validation")
    assert [run.name for run in runs] == folders


def test_mnli_beside_papers_that_print_one_number():
    row = papers.Row("A paper", {"glue/mnli": {"accuracy": 80.0}})
    halves = {
        "glue/mnli_matched": {"accuracy": 84.0},
        "glue/mnli_mismatched": {"accuracy": 85.0},
    }
    cells = paper_scores.task_cells(halves, row)
    assert cells["glue/mnli", "accuracy of both halves"] == (84.5, 80.0)
    whole = {"glue/mnli": {"accuracy": 83.0}}
    assert paper_scores.task_cells(whole, row) == {
        ("glue/mnli", "accuracy"): (83.0, 80.0)
    }


@pytest.mark.parametrize(
    ("name", "averages"),
    [
        ("hyperformer_plus_plus_base", ["GLUE, mean over metrics"]),
        ("hyperdecoder_large_glue", ["Average GLUE Score"]),
        ("hyperdecoder_base_mrqa", ["MRQA average", "MRQA average, out of domain"]),
        (
            "hyperdecoder_base_sum_nli",
            ["summarization average", "NLI average", "summarization and NLI average"],
        ),
        ("hyperprompt_base_global", ["Average GLUE Score"]),
        ("hyperprompt_base_decoder_only", ["Average SuperGLUE Score"]),
    ],
)
def test_averages_are_formed_as_the_paper_forms_them(name, averages):
    """If our scores were the paper's, so would be our averages."""
    row = papers.get_row(name)
    cells = paper_scores.average_cells(row.scores, row)
    for average in averages:
        ours, printed = cells[average, ""]
        assert ours == pytest.approx(printed, abs=0.06), average


def run_program(*arguments):
    command = [sys.executable, "-m", "experiments.report", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_program(tmp_path):
    folder = write_run(tmp_path / "run", scores=PLAIN)
    result = run_program(f"--model_dir={folder}", f"--output={tmp_path}/out")
    assert result.returncode == 0, result.stderr
    assert "| mean over tasks |  | 70.00 |" in result.stdout
    assert f"written to {tmp_path}/out/report.md" in result.stdout
    assert (tmp_path / "out/scores.png").exists()
    result = run_program("--table=parameters", f"--model_dir={folder}")
    assert result.returncode and "both given" in result.stdout + result.stderr
    result = run_program(f"--model_dir={tmp_path}/absent")
    assert result.returncode and "Traceback" not in result.stderr
    assert "experiments.train --model_dir" in result.stderr
