"""The prepared GLUE and SuperGLUE data runs as in a user's hands."""

from collections import Counter

import pytest

from tests.conftest import shared_path
from tfds_tasks import MissingData, get_mixture, get_task, get_vocabulary

# Rows of train, validation and test; labels of train in the order of the classes.
TASKS = {
    "glue/cola": ((8551, 1043, 1063), (2528, 6023)),
    "glue/sst2": ((67349, 872, 1821), (29780, 37569)),
    "glue/mrpc": ((3668, 408, 1725), (1194, 2474)),
    "glue/stsb": ((5749, 1500, 1379), None),
    "glue/rte": ((2490, 277, 3000), (1249, 1241)),
    "glue/wnli": ((635, 71, 146), (323, 312)),
    "super_glue/boolq": ((9427, 3270, 3245), (3553, 5874)),
    "super_glue/cb": ((250, 56, 250), (115, 119, 16)),
    "super_glue/copa": ((400, 100, 500), (195, 205)),
    "super_glue/rte": ((2490, 277, 3000), (1249, 1241)),
    "super_glue/wic": ((5428, 638, 1400), (2714, 2714)),
}
ROWS = {
    "glue/cola": (
        "train",
        "cola sentence: Our friends won't buy this analysis, let alone the next one "
        "we propose.",
        "acceptable",
    ),
    "super_glue/copa": (
        "train",
        "copa choice1: The sun was rising. choice2: The grass was cut. premise: My "
        "body cast a shadow over the grass. question: cause",
        "choice1",
    ),
    "super_glue/wsc": (
        "validation",
        "wsc: Jane gave Joan candy because *she* was hungry.",
        "Joan",
    ),
}


@pytest.fixture(scope="module")
def data_dir():
    return str(shared_path("data/tfds"))


def texts_of(task, split, data_dir, key):
    texts = task.examples(split, data_dir).map(lambda example: example[key])
    batches = texts.batch(1024).as_numpy_iterator()
    return [text.decode() for batch in batches for text in batch]


@pytest.mark.parametrize("name", TASKS)
def test_rows_and_labels(name, data_dir):
    sizes, labels = TASKS[name]
    task = get_task(name)
    got = tuple(task.num_rows(s, data_dir) for s in ("train", "validation", "test"))
    assert got == sizes
    targets = Counter(texts_of(task, "train", data_dir, "targets"))
    assert sum(targets.values()) == sizes[0]
    if labels is not None:
        assert tuple(targets[word] for word in task.classes) == labels
    else:
        assert set(targets) == {f"{fifths / 5:.1f}" for fifths in range(26)}
    test = set(texts_of(task, "test", data_dir, "targets"))
    assert test == ({"<unk>"} if labels else {"-1.0"})


def test_wsc_trains_on_its_true_rows(data_dir):
    wsc = get_task("super_glue/wsc")
    assert wsc.num_rows("train", data_dir) == 554
    assert wsc.num_examples("train", data_dir) == 259
    assert wsc.num_examples("validation", data_dir) == 104


@pytest.mark.parametrize("name", ROWS)
def test_known_rows(name, data_dir):
    split, inputs, targets = ROWS[name]
    task = get_task(name)
    texts = zip(
        texts_of(task, split, data_dir, "inputs"),
        texts_of(task, split, data_dir, "targets"),
        strict=True,
    )
    assert (inputs, targets) in set(texts)


def test_targets_of_validation_score_full_marks(data_dir):
    for name in ("glue/rte", "glue/stsb", "glue/cola", "super_glue/cb"):
        task = get_task(name)
        examples = [
            {k: v.decode() if isinstance(v, bytes) else v for k, v in e.items()}
            for e in task.examples("validation", data_dir).as_numpy_iterator()
        ]
        scores = task.score(examples, [e["targets"] for e in examples])
        assert scores and min(scores.values()) == pytest.approx(100.0)
        if task.classes is not None:
            wrong = task.score(examples, ["banana"] * len(examples))
            assert max(wrong.values()) == 0


def test_a_mixture_of_real_tasks(data_dir):
    mixture = get_mixture("glue/rte,glue/mrpc,super_glue/wsc,super_glue/boolq")
    vocabulary = get_vocabulary(str(shared_path("data/vocab/spiece.model")))
    data = mixture.dataset(
        vocabulary=vocabulary, batch_size=32, inputs_length=128, data_dir=data_dir
    )
    for batch in data.take(3).as_numpy_iterator():
        texts = vocabulary.texts(batch["encoder_tokens"])
        prefixes = ("rte sentence1:", "mrpc sentence1:", "wsc:", "boolq passage:")
        for task, text in zip(batch["task_ids"], texts, strict=True):
            assert text.startswith(prefixes[task])


def test_missing_data_says_how_to_prepare_it(tmp_path):
    command = "python -m tfds_tasks.prepare --source=glue/qqp:2.0.0 --data_dir="
    with pytest.raises(MissingData, match=command):
        get_task("glue/qqp").num_rows("train", str(tmp_path))
    with pytest.raises(MissingData, match=r"glue/cola:2\.0\.0"):
        get_mixture("glue").dataset(
            vocabulary=get_vocabulary("nano"), data_dir=str(tmp_path)
        )
