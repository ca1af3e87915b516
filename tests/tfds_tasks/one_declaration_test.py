"""A task is declared once, and everything that knows tasks knows it."""

import dataclasses

import pytest

from tests.conftest import shared_path
from tfds_tasks import Task, get_mixture, get_task, registry, submission
from tfds_tasks.benchmarks import Choice, File
from tfds_tasks.formats import classification
from tfds_tasks.scores import Number, accuracy, averages, f1

GLUE = get_mixture("glue").tasks
FILES = submission.files("glue") | submission.files("super_glue")
ANSWERS = ("no", "yes")
MADE_UP = Task(
    name="glue/made_up",
    source="glue/made_up:1.0.0",
    format=classification("made_up", ["sentence"], ANSWERS),
    classes=ANSWERS,
    metrics=(f1, accuracy),
    mixture="glue",
    benchmark="glue",
    columns={"f1": "Made up (F1)", "accuracy": "Made up (accuracy)"},
    group="Made up",
    submission=File("MadeUp.tsv", Choice("01"), rows=3),
    rate=100,
)


@pytest.fixture
def made_up(own_registries):
    return registry.register(MADE_UP)


def test_it_is_a_column_of_its_benchmark_and_counts_in_the_average(made_up):
    headings = ["Made up (F1)", "Made up (accuracy)"]
    assert [c.heading for c in averages.columns("glue")][-2:] == headings
    every = [c.heading for c in averages.columns()]
    assert every.index("GLUE RTE") + 1 == every.index(headings[0])
    scores = {}
    for c in averages.columns("glue"):
        scores.setdefault(c.task, {})[c.metric] = 90.0
    made_up_scores = {"f1": 0.0, "accuracy": 0.0}
    scores = {**scores, made_up.name: made_up_scores}
    assert averages.benchmark_averages(scores) == {"glue": pytest.approx(80)}
    assert averages.selection_score(scores) == pytest.approx(80)


def test_it_has_a_file_on_the_server(made_up, tmp_path):
    assert submission.files("glue")[made_up.name] == made_up.submission
    assert "MadeUp.tsv is missing" in submission.check(tmp_path, "glue")
    examples, texts = [{"idx": i} for i in range(3)], ["no", "yes", "no"]
    submission.write(tmp_path, made_up, examples, texts)
    assert (tmp_path / "MadeUp.tsv").read_text().split()[2:] == list("001120")
    sizes = dict.fromkeys(submission.files("glue"), 0)
    problems = submission.check(tmp_path, "glue", {**sizes, made_up.name: 3})
    assert not [problem for problem in problems if problem.startswith("MadeUp")]


def test_it_is_drawn_last_in_its_mixture_so_that_no_other_id_changes(made_up):
    mixture = get_mixture("glue")
    assert mixture.tasks == (*GLUE, made_up)
    assert mixture.task_id(made_up) == mixture.num_tasks - 1
    assert made_up.name in [task.name for task in get_mixture("en_mix").tasks]


def test_only_the_declared_benchmarks_exist(made_up):
    with pytest.raises(ValueError, match="unknown benchmark 'superglue'; nearest: sup"):
        dataclasses.replace(made_up, benchmark="superglue")


def test_a_declaration_that_cannot_work_is_refused(made_up):
    with pytest.raises(ValueError, match="'glue/made_up': classes and reader are both"):
        dataclasses.replace(made_up, classes=None)
    with pytest.raises(ValueError, match="group=None; expected the name that its 2 co"):
        dataclasses.replace(made_up, group=None)
    assert dataclasses.replace(made_up, classes=None, reader=Number()).choices is None


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_as_many_rows_as_the_prepared_test_set(name):
    task, (benchmark, config) = get_task(name), name.split("/")
    shared_path(f"data/tfds/{benchmark}/{config}")  # skips what is not prepared
    data_dir = str(shared_path("data/tfds"))
    assert task.num_rows("test", data_dir) == task.submission.rows
