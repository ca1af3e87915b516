"""Every declaration fits its TFDS builder, T5's rates and the papers' splits."""

import json

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tests.conftest import shared_path
from tfds_tasks import art, get_task, task_names
from tfds_tasks.scores import Labels

TASKS = [name for name in task_names() if not name.startswith("nano/")]
MRQA = [name for name in TASKS if name.startswith("mrqa/")]
MIXTURES = json.loads(shared_path("goldens/t5_mixtures.json").read_text())
RATES = {
    name: rate
    for mixture in ("glue_v002_proportional", "super_glue_v102_proportional")
    for name, rate in MIXTURES["fixed_rate_mixtures"][mixture]["rates"].items()
    if not name.endswith("_simple_eval")  # T5's second name of one that also trains
}
assert art.Art.name == "art"  # importing it has registered the builder


def builders(task):
    sources = [task.source] if isinstance(task.source, str) else task.source
    return [tfds.builder(source, data_dir="/nowhere") for source in sources]


def rows_of(builder):
    """tf.data without rows, but with the types that TFDS gives them."""
    spec = builder.info.features.get_tensor_spec()
    data = tf.data.Dataset.from_generator(lambda: iter(()), output_signature=spec)
    return data.enumerate()


@pytest.mark.parametrize("name", TASKS)
def test_the_format_reads_the_features_of_the_builder(name):
    task = get_task(name)
    for builder in builders(task):
        for split in ("train", "validation") if task.train_format else ("train",):
            spec = task.format_rows(rows_of(builder), split).element_spec
            assert spec["inputs"] == spec["targets"] == tf.TensorSpec([], tf.string)
            assert spec["index"] == tf.TensorSpec([], tf.int64)


@pytest.mark.parametrize("name", TASKS)
def test_the_source_names_the_version_that_tfds_has(name):
    task = get_task(name)
    sources = [task.source] if isinstance(task.source, str) else task.source
    for source, builder in zip(sources, builders(task), strict=True):
        assert source.split(":")[1] == str(builder.version)


@pytest.mark.parametrize("name", TASKS)
def test_classes_are_as_many_as_the_labels_of_tfds(name):
    task = get_task(name)
    for builder in builders(task):
        label = [k for k in ("label", "label-coarse") if k in builder.info.features]
        feature = builder.info.features[label[0]] if label else None
        if task.classes and isinstance(feature, tfds.features.ClassLabel):
            assert len(task.classes) == feature.num_classes


@pytest.mark.parametrize("name", TASKS)
def test_a_task_without_a_reader_has_labels_to_read(name):
    task = get_task(name)
    assert task.reader or Labels(task.labels).classes


def test_only_the_diagnostic_sets_have_no_score():
    unscored = [name for name in task_names() if not get_task(name).is_scored]
    assert unscored == ["glue/ax", "super_glue/axb", "super_glue/axg"]
    for name in unscored:
        example = {"inputs": "x", "targets": "<unk>", "idx": 0}
        assert get_task(name).score([example], ["entailment"]) == {}


@pytest.mark.parametrize("name", MRQA)
def test_splits_of_mrqa_are_those_of_the_builder(name):
    task = get_task(name)
    (builder,) = builders(task)
    assert set(task.splits.values()) == set(builder.builder_config.data_urls)
    assert "validation" in task.splits  # the papers' name for what is evaluated on


def test_mrqa_has_six_sets_to_train_on_and_six_to_evaluate_on():
    trained = [name for name in MRQA if "train" in get_task(name).splits]
    assert (len(MRQA), len(trained)) == (12, 6)


@pytest.mark.parametrize("name", RATES)
def test_rates_are_those_of_t5(name):
    assert get_task(name).rate == RATES[name]


def test_coreference_and_entailment_tasks_share_an_id():
    shared = {n: get_task(n).identity for n in TASKS if get_task(n).shares}
    assert shared == {
        "dpr": "super_glue/wsc",
        "glue/wnli_simple": "super_glue/wsc",
        "super_glue/axb": "super_glue/rte",
        "super_glue/axg": "super_glue/rte",
        "glue/ax": "glue/mnli",
        "glue/mnli_matched": "glue/mnli",
        "glue/mnli_mismatched": "glue/mnli",
    }


# HyperFormer, section 3.2; rows of validation and test in TFDS, None where absent;
# then the rows that it validates and tests on.
HYPERFORMER = {
    "super_glue/cb": ((56, 250), (28, 28)),
    "super_glue/boolq": ((3270, 3245), (1635, 1635)),
    "trec": ((None, 500), (250, 250)),
    "imdb": ((None, 25000), (12500, 12500)),
    "yelp_polarity": ((None, 38000), (19000, 19000)),
    "scitail": ((1304, 2126), (1304, 2126)),
    "paws": ((8000, 8000), (8000, 8000)),
}


@pytest.mark.parametrize("name", HYPERFORMER)
def test_transfer_sets_are_divided_as_in_hyperformer(name):
    (validation, test), expected = HYPERFORMER[name]
    rows = {"validation": validation, "test": test}
    parts = get_task(name, splits="hyperformer").parts
    assert expected == tuple(
        parts[split].size(rows[parts[split].split]) for split in rows
    )
    if "validation" not in get_task(name).splits:  # two halves, not one twice
        assert parts["validation"].half != parts["test"].half


def test_abductive_nli_has_the_sizes_of_hyperdecoders_table_12():
    rows = {"train": 169654, "validation": 1532}
    parts = get_task("art", splits="hyperdecoders").parts
    sizes = {split: part.size(rows[part.split]) for split, part in parts.items()}
    assert sizes == {"train": 168654, "validation": 1000, "test": 1532}


def test_adversarial_nli_is_its_three_rounds_end_to_end():
    names = [b.builder_config.name for b in builders(get_task("anli"))]
    assert names == ["r1", "r2", "r3"]
    parts = get_task("anli", splits="hyperdecoders").parts
    assert {s: p.whole and p.split for s, p in parts.items()} == {
        s: s for s in ("train", "validation", "test")
    }


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("splits", ["t5", "hyperformer", "hyperdecoders"])
def test_every_task_can_be_divided_in_every_style(name, splits):
    task = get_task(name, splits=splits)
    assert {part.split for part in task.parts.values()} <= set(task.splits.values())
