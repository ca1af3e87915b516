"""A task has choices if, and only if, its answers are its labels."""

import pytest
import tensorflow_datasets as tfds

from tests.conftest import shared_path
from tfds_tasks import art, get_task, nano, task_names

assert (art.Art.name, nano.Nano.name) == ("art", "nano")  # TFDS knows them now
CHOOSING = [name for name in task_names() if get_task(name).choices is not None]
WRITING = [name for name in task_names() if get_task(name).choices is None]


def rows(task):
    """A row for each of the labels, made of what the builder says of its features."""
    source = task.source if isinstance(task.source, str) else task.source[0]
    features = tfds.builder(source, data_dir="/nowhere").info.features
    texts = [k for k, v in features.items() if isinstance(v, tfds.features.Text)]
    (label,) = [key for key in ("label", "label-coarse") if key in features]
    for number in range(features[label].num_classes):
        yield {**dict.fromkeys(texts, "words"), label: number}, number


@pytest.mark.parametrize("labels", ["words", "digits"])
@pytest.mark.parametrize("name", CHOOSING)
def test_every_label_of_the_data_is_written_as_its_choice(name, labels):
    task = get_task(name, labels=labels)
    for row, number in rows(task):
        (example,) = task.to_text(row)
        assert example["targets"] == task.choices[number]


def test_tasks_that_are_answered_by_a_name_have_no_choices():
    with_labels = [name for name in WRITING if get_task(name).classes is not None]
    assert with_labels == ["super_glue/record", "super_glue/wsc"]
    assert {"dpr", "glue/stsb", "nano/coreference", "squad"} <= set(WRITING)


@pytest.mark.parametrize(
    "name", ["glue/cola", "glue/wnli", "super_glue/cb", "super_glue/copa"]
)
def test_prepared_validation_sets_are_answered_by_their_choices(name):
    data = get_task(name).examples("validation", str(shared_path("data/tfds")))
    targets = {example["targets"].decode() for example in data.as_numpy_iterator()}
    assert targets <= set(get_task(name).choices)


def test_no_answer_of_wsc_is_one_of_its_labels():
    task = get_task("super_glue/wsc")
    data = task.examples("validation", str(shared_path("data/tfds")))
    targets = {example["targets"].decode() for example in data.as_numpy_iterator()}
    assert not targets & set(task.labels)
