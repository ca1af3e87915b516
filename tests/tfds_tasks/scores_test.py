"""Text is read and scored as T5 does it, task by task and function by function."""

import doctest
import json
import logging
import math
import warnings

import pytest

from tests.conftest import shared_path
from tfds_tasks import scores
from tfds_tasks.scores import averages, metrics, qa, readers, text

GOLDEN = shared_path("goldens/t5_metrics")
CASES = json.loads((GOLDEN / "task_metrics.json").read_text())
FUNCTIONS = json.loads((GOLDEN / "functions.json").read_text())
CLASSES = json.loads(shared_path("goldens/t5_text/label_classes.json").read_text())
CORRELATIONS = (scores.pearson_corrcoef, scores.spearman_corrcoef)


def labels(name, *metrics):
    return scores.Labels(CLASSES[name]), metrics


# Our name: reader, metrics.
TASKS = {
    "glue/cola": labels("glue/cola", scores.matthews_corrcoef),
    "glue/sst2": labels("glue/sst2", scores.accuracy),
    "glue/mrpc": labels("glue/mrpc", scores.f1, scores.accuracy),
    "glue/qqp": labels("glue/qqp", scores.f1, scores.accuracy),
    "glue/stsb": (scores.Number(), CORRELATIONS),
    "glue/mnli": labels("glue/mnli", scores.accuracy),
    "glue/mnli_matched": labels("glue/mnli_matched", scores.accuracy),
    "glue/mnli_mismatched": labels("glue/mnli_mismatched", scores.accuracy),
    "glue/qnli": labels("glue/qnli", scores.accuracy),
    "glue/rte": labels("glue/rte", scores.accuracy),
    "glue/wnli": labels("glue/wnli", scores.accuracy),
    "glue/wnli_simple": (scores.Referent(), (scores.accuracy,)),
    "glue/ax": labels("glue/ax"),
    "super_glue/boolq": labels("super_glue/boolq", scores.accuracy),
    "super_glue/cb": labels("super_glue/cb", scores.mean_3class_f1, scores.accuracy),
    "super_glue/copa": labels("super_glue/copa", scores.accuracy),
    "super_glue/multirc": labels("super_glue/multirc", scores.multirc),
    "super_glue/record": (scores.Answers(), (scores.record,)),
    "super_glue/rte": labels("super_glue/rte", scores.accuracy),
    "super_glue/wic": labels("super_glue/wic", scores.accuracy),
    "super_glue/wsc": (scores.Referent(), (scores.accuracy,)),
    "super_glue/axb": labels("super_glue/axb"),
    "super_glue/axg": labels("super_glue/axg"),
    "dpr": (scores.Text(), (scores.accuracy,)),
    "squad": (scores.Answers(), (scores.squad,)),
    "squad_span": (scores.Spans(), (scores.squad,)),
    "wmt16_enro": (scores.Text(), (scores.bleu,)),
}
ALL_METRICS = sorted(
    {m for _, used in TASKS.values() for m in used} | {scores.rouge, scores.trivia_qa},
    key=lambda m: m.__name__,
)


def our_name(golden):
    """ "super_glue_cb_v102" to "super_glue/cb"."""
    variants = {
        "super_glue_wsc_v102_simple_eval": "super_glue/wsc",
        "glue_wnli_v002_simple_eval": "glue/wnli_simple",
        "squad_v010_allanswers_span": "squad_span",
    }
    name = golden.partition("_v")[0]
    for benchmark in ("super_glue", "glue"):
        if name.startswith(f"{benchmark}_"):
            name = f"{benchmark}/{name.removeprefix(f'{benchmark}_')}"
            break
    return variants.get(golden, name)


def number(value):
    """JSON writes numbers that are not finite as "nan" and "inf"."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def their_value(read):
    """What T5 read, without what it carries beside; here that stays in the example."""
    if isinstance(read, dict):
        read = read["value"] if "value" in read else read["answers"]
    return number(read)


def close(expected):
    values = {name: number(value) for name, value in expected.items()}
    return pytest.approx(values, rel=1e-12, abs=1e-12, nan_ok=True)


def read(case):
    """A golden case's examples, and its targets and predictions as we read them."""
    reader, _ = TASKS[our_name(case["task"])]
    examples = [
        {**example, "targets": example["targets_pretokenized"]}
        for example in case["examples"]
    ]
    targets = [reader.target(example) for example in examples]
    pairs = zip(case["predictions"], examples, strict=True)
    return examples, targets, [reader.prediction(*pair) for pair in pairs]


@pytest.fixture(params=CASES, ids=lambda c: f"{our_name(c['task'])}-{c['scenario']}")
def case(request):
    return request.param


def test_texts_are_read_as_t5_reads_them(case):
    _, targets, predictions = read(case)
    assert targets == [their_value(t) for t in case["postprocessed_targets"]]
    if our_name(case["task"]) != "squad_span":  # T5 leaves it unread until it is scored
        theirs = [their_value(p) for p in case["postprocessed_predictions"]]
        assert predictions == pytest.approx(theirs, abs=0, nan_ok=True)


def test_metrics_are_t5s(case):
    examples, targets, predictions = read(case)
    _, used = TASKS[our_name(case["task"])]
    got = {}
    for metric in used:
        got |= metric(targets, predictions, examples)
    assert got == close(case["metrics"])


def test_numbers_are_read_as_t5_reads_them():
    golden = FUNCTIONS["string_to_float"]
    got = [scores.Number().prediction(text, {}) for text in golden["inputs"]]
    assert got == pytest.approx([number(v) for v in golden["outputs"]], nan_ok=True)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("lower_text", lambda text: scores.Text(lower=True).prediction(text, {})),
        ("normalize_squad", qa.normalize_squad),
        ("normalize_trivia_qa", qa.normalize_trivia_qa),
    ],
)
def test_normalized_text_is_t5s(name, function):
    golden = FUNCTIONS[name]
    assert [function(text) for text in golden["inputs"]] == golden["outputs"]


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("trivia_qa", scores.trivia_qa),
        ("rouge_mean", scores.rouge),
        ("f1_score_with_invalid", scores.f1),
        ("mean_3class_f1", scores.mean_3class_f1),
    ],
)
def test_single_functions_are_t5s(name, metric):
    golden = FUNCTIONS[name]
    for example in golden if isinstance(golden, list) else [golden]:
        got = metric(example["targets"], example["predictions"])
        assert got == close(example["metrics"])


def test_rouge_of_each_pair_is_t5s():
    golden = FUNCTIONS["rouge_per_pair"]
    names = list(golden["scores"][0])
    got = text.rouge_per_pair(golden["targets"], golden["predictions"], names)
    assert len(got) == len(golden["scores"])
    for pair, expected in zip(got, golden["scores"], strict=True):
        for name in names:
            assert pair[name] == pytest.approx(expected[name], rel=1e-12), name


def test_sentences_may_change_places_in_a_summary():
    # ROUGE-Lsum looks for each sentence anywhere: all 4 words are there.
    got = scores.rouge(["a b . c d"], ["c d . a b"])
    assert got["rougeLsum"] == pytest.approx(100)
    # Of the bigrams ab, bc, cd and cd, da, ab two of three are common.
    assert got["rouge2"] == pytest.approx(200 / 3)


def test_best_of_several_answers():
    # "in 1932" has 1 of 2 words of "1932", and 2 of 3 of "year 1932 in".
    got = scores.squad([["1932", "year 1932 in"]], ["In the 1932!"])
    assert got == {"em": 0.0, "f1": pytest.approx(80)}
    # A question without known answers scores 0.
    assert scores.squad([[], ["Oslo"]], ["", "oslo"]) == {"em": 50.0, "f1": 50.0}


def test_a_multirc_question_is_right_when_all_its_answers_are():
    examples = [{"idx/question": q} for q in (5, 5, 7, 7)]
    got = scores.multirc([1, 0, 1, 0], [1, 0, 1, -1], examples)
    # The unread answer is a false positive: precision 2/3, recall 1.
    assert got == {"f1": pytest.approx(80), "exact_match": 50.0}


def test_record_scores_a_query_once():
    examples = [{"idx/passage": p, "idx/query": q} for p, q in ((0, 0), (0, 0), (1, 0))]
    got = scores.record([["x"], ["x"], ["y"]], ["x", "z", "z"], examples)
    assert got == {"em": 50.0, "f1": 50.0}


LABELLED = [
    name
    for name, (reader, used) in TASKS.items()
    if isinstance(reader, scores.Labels) and scores.accuracy in used
]


@pytest.mark.parametrize("name", LABELLED)
def test_what_is_not_a_label_is_never_right(name):
    reader, _ = TASKS[name]
    examples = [{"targets": label} for label in CLASSES[name]]
    for wrong in ("", "<unk>", "-1", *(f"{label} " for label in CLASSES[name])):
        got = [reader.prediction(wrong, e) for e in examples]
        targets = [reader.target(e) for e in examples]
        assert scores.accuracy(targets, got, examples) == {"accuracy": 0.0}


@pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda m: m.__name__)
@pytest.mark.parametrize(
    ("targets", "predictions", "examples", "message"),
    [
        ([], [], [], "0 predictions"),
        ([1, 0], [1], [{}, {}], "1 predictions for 2 targets"),
        ([1, 0], [1, 0], [{}], "2 predictions for 1 examples"),
    ],
)
def test_wrong_numbers_are_named(metric, targets, predictions, examples, message):
    with pytest.raises(ValueError, match=message):
        metric(targets, predictions, examples)


@pytest.mark.parametrize("metric", CORRELATIONS, ids=lambda m: m.__name__)
@pytest.mark.parametrize(
    "predictions",
    [[2.0, 2.0, 2.0], [1.0, math.nan, 3.0], [-1.0, -1.0, -1.0]],
    ids=["constant", "nan", "unread"],
)
def test_undefined_correlations_are_nan_and_silent(metric, predictions):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (value,) = metric([1.0, 2.0, 3.0], predictions).values()
        (single,) = metric([1.0], [2.0]).values()
    assert math.isnan(value) and math.isnan(single)


def test_a_hat_is_not_somebodys_hat():
    names = {"targets": "Bob's old hat"}
    got = [scores.Referent().prediction(t, names) for t in ("hat", "Bob's hat")]
    assert got == [0, 1]


def test_bleu_parts_punctuation_of_all_scripts():
    spaced, tight = "\u201e it is good now \u201c", "\u201eit is good now\u201c"
    assert scores.bleu([spaced], [tight])["bleu"] == pytest.approx(100)


def test_bleu_says_nothing_of_tokenized_text(caplog, capfd):
    sentences = [f"sentence number {i} ." for i in range(150)]
    with caplog.at_level(logging.DEBUG):
        assert scores.bleu(sentences, sentences)["bleu"] == pytest.approx(100)
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_likeliest_answer_over_chunks():
    chunks = [{"id": name, "chunk": i} for i, name in enumerate("abacab")]
    got = scores.best_over_chunks(
        chunks,
        ["", "north", "east", " ", "west", "south"],
        [-0.1, -3.0, -2.0, -0.1, -1.0, -4.0],
    )
    assert got == ([chunks[0], chunks[1], chunks[3]], ["west", "north", ""])


def test_an_answer_of_unknown_likelihood_is_better_than_none():
    chunks = [{"id": 1}] * 3
    best = scores.best_over_chunks(chunks, ["", "x", "y"], [0.0, math.nan, -9.0])
    assert best == (chunks[:1], ["y"])
    best = scores.best_over_chunks(chunks, ["", "x", ""], [0.0, -math.inf, 0.0])
    assert best == (chunks[:1], ["x"])
    with pytest.raises(ValueError, match="3 predictions for 2 log_likelihoods"):
        scores.best_over_chunks(chunks, ["", "", ""], [0.0, 0.0])


@pytest.mark.parametrize(
    "module",
    [averages, metrics, qa, readers, text],
    ids=lambda module: module.__name__,
)
def test_examples_in_docstrings_run(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
