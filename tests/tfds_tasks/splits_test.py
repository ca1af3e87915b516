"""Splits of the papers: sizes, no row in two parts, none lost."""

import numpy as np
import pytest

from tests.conftest import shared_path
from tfds_tasks import get_task, splits

# Rows of GLUE's own splits, as TFDS has them; QQP's are Hugging Face's, which the
# table was made with: three fewer than TFDS's.
GLUE = {
    "cola": {"train": 8551, "validation": 1043},
    "sst2": {"train": 67349, "validation": 872},
    "stsb": {"train": 5749, "validation": 1500},
    "mrpc": {"train": 3668, "validation": 408},
    "qqp": {"train": 363846, "validation": 40430},
    "mnli": {
        "train": 392702,
        "validation_matched": 9815,
        "validation_mismatched": 9832,
    },
    "qnli": {"train": 104743, "validation": 5463},
    "rte": {"train": 2490, "validation": 277},
}
TABLE_10 = {
    "cola": (8551, 521, 522),
    "sst2": (66349, 1000, 872),
    "stsb": (5749, 750, 750),
    "mrpc": (3668, 204, 204),
    "qqp": (362846, 1000, 40430),
    "mnli": (392702, 9832, 9815),
    "qnli": (103743, 1000, 5463),
    "rte": (2490, 138, 139),
}


@pytest.mark.parametrize("name", TABLE_10)
def test_sizes_of_hyperdecoders_table_10(name):
    parts = get_task(f"glue/{name}", splits="hyperdecoders").parts
    got = tuple(
        parts[split].size(GLUE[name][parts[split].split])
        for split in ("train", "validation", "test")
    )
    assert got == TABLE_10[name]


def test_hyperformer_takes_mnli_out_of_training():
    parts = get_task("glue/mnli", splits="hyperformer").parts
    assert parts["train"].size(392702) == 391702
    assert parts["validation"].size(392702) == 1000
    assert parts["test"].split == "validation_matched"


@pytest.mark.parametrize("rows", [1, 2, 277, 2490])
@pytest.mark.parametrize(
    "one, other",
    [
        (splits.Part("s", half=0), splits.Part("s", half=1)),
        (splits.Part("s", stop=1000), splits.Part("s", start=1000)),
    ],
)
def test_two_parts_are_disjoint_and_whole(one, other, rows):
    first, second = (part.mask(rows, "glue/x", 42) for part in (one, other))
    assert not (first & second).any()
    assert (first | second).all()
    assert first.sum() == one.size(rows) and second.sum() == other.size(rows)


def test_another_seed_divides_otherwise():
    part = splits.Part("validation", half=0)
    masks = [part.mask(277, "glue/rte", seed) for seed in (1, 1, 2)]
    assert (masks[0] == masks[1]).all()
    assert (masks[0] != masks[2]).any()
    assert (masks[0] != part.mask(277, "glue/mrpc", 1)).any()


@pytest.fixture(scope="module")
def data_dir():
    return str(shared_path("data/tfds"))


def rows_of(task, split, data_dir):
    indices = task.rows(split, data_dir).map(lambda index, row: index)
    batches = indices.batch(4096).as_numpy_iterator()
    return {int(index) for batch in batches for index in batch}


@pytest.mark.parametrize("style", ["hyperformer", "hyperdecoders"])
def test_rows_of_real_data_are_divided(style, data_dir):
    rte = get_task("glue/rte", splits=style)
    validation, test = (rows_of(rte, s, data_dir) for s in ("validation", "test"))
    assert (len(validation), len(test)) == (138, 139)
    assert not validation & test
    assert rte.num_examples("test", data_dir) == 139


@pytest.fixture(scope="module")
def held_out(data_dir):
    """The rows of SST-2's training set that are for validation."""
    sst2 = get_task("glue/sst2", splits="hyperformer")
    return rows_of(sst2, "validation", data_dir)


@pytest.mark.slow
def test_rows_of_real_data_are_held_out(held_out, data_dir):
    sst2 = get_task("glue/sst2", splits="hyperformer")
    train = rows_of(sst2, "train", data_dir)
    assert (len(held_out), len(train)) == (1000, 66349)
    assert not held_out & train
    # The other paper's are the same rows: not read again.
    assert get_task("glue/sst2", splits="hyperdecoders").parts == sst2.parts


@pytest.mark.slow
def test_low_resource_rows_are_some_of_the_training_rows(held_out, data_dir):
    def kept(**style):
        return rows_of(get_task("glue/cola", **style), "train", data_dir)

    hundred = kept(rows=100, seed=1)
    assert len(hundred) == 100
    assert hundred == kept(rows=100, seed=1)
    assert hundred < kept(rows=500, seed=1)
    assert hundred != kept(rows=100, seed=2)
    assert len(rows_of(get_task("glue/cola", rows=9), "validation", data_dir)) == 1043

    sst2 = get_task("glue/sst2", splits="hyperformer", rows=100)
    assert not rows_of(sst2, "train", data_dir) & held_out
    assert sst2.num_examples("train", data_dir) == 100
    few = get_task("super_glue/copa", rows=10**6)
    assert few.num_examples("train", data_dir) == 400


def test_labels_of_rows_are_not_sorted_by_the_division(data_dir):
    """Both halves have both labels in about the same share."""
    rte = get_task("glue/rte", splits="hyperformer")
    for split in ("validation", "test"):
        labels = [int(row["label"]) for _, row in rte.rows(split, data_dir)]
        assert 0.35 < np.mean(labels) < 0.65


@pytest.mark.parametrize(
    "style, words",
    [
        ({"splits": "mine"}, "splits='mine', expected one of t5"),
        ({"labels": "letters"}, "labels='letters', expected one of words, digits"),
        ({"rows": 0}, "rows=0"),
        ({"prefix": "no"}, "prefix='no'"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_styles(style, words):
    with pytest.raises(ValueError, match=words):
        get_task("glue/rte", **style)


def test_a_split_that_is_not_there(data_dir):
    with pytest.raises(ValueError, match=r"glue/rte: split 'dev' is unknown.*train"):
        get_task("glue/rte").num_rows("dev", data_dir)
