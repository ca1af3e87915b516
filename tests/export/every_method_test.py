"""A SavedModel answers as `model.generate` does: every method, without our code.

All exports are read in one process that can import TensorFlow, but nothing of ours.
"""

import functools

import numpy as np
import pytest

from hypertf.testing.case import eagerly
from tests.conditioning.all_methods_test import METHODS, SAME_FOR_ALL_TASKS
from tests.export.helpers import (
    NAMES,
    TEXTS,
    VOCABULARY,
    batch,
    needs_xla,
    read,
    request,
    save,
    small_model,
    tokens,
    unverified,
)

pytestmark = pytest.mark.slow

ALL = {"none": {}, **METHODS}
GREEDY, BEAM = 1, 2
TEXT, IDS = "serving_default", "tokens"
LENGTH = 4  # of answers
# (baked, beams, signature): two for every method, the rest for some. Text is the same
# ops around the same ids whatever the method, and most of a graph's tracing.
EACH = ((True, GREEDY, IDS), (False, BEAM, IDS))
REST = tuple((bake, beams, TEXT) for bake in (True, False) for beams in (GREEDY, BEAM))
ALL_SIX = ("hyperprompt-share", "hyperdecoder")
OF_TEXT = [(name, *form) for name in ALL_SIX for form in REST]
CASES = [(name, *form) for name in ALL for form in EACH] + OF_TEXT
# Baked and not, greedy and beam, of every method: what `make test-serving` exports.
FORMS = tuple((bake, beams, IDS) for bake in (True, False) for beams in (GREEDY, BEAM))
ALL_CASES = [(name, *form) for name in ALL for form in FORMS] + OF_TEXT
# Tasks in mixed order, two sizes and lengths, an empty text among others and alone.
BATCHES = (
    ([*TEXTS, TEXTS[0]], [NAMES[i] for i in (2, 0, 1, 2, 0, 1)]),
    ([""], [NAMES[1]]),
)


def make_models():
    return {name: small_model(name, ALL[name]) for name in ALL}


def export_all(models, path, cases=CASES):
    """{case: the folder of its export}."""
    folders = {}
    with unverified():
        for number, case in enumerate(cases):
            name, bake, beams, signature = case
            folders[case] = save(
                models[name],
                path / str(number),
                bake=bake,
                beam_size=beams,
                signatures=(signature,),
                targets_length=LENGTH,
            )
    return folders


def read_all(folders, **options):
    """{case: outputs for each batch}, from another process."""
    requests = []
    for case, folder in folders.items():
        for texts, tasks in BATCHES:
            given = {TEXT: {"text": texts}, IDS: {"tokens": tokens(texts)}}[case[-1]]
            requests.append(request(folder, case[-1], task=tasks, **given))
    outputs = iter([answer["outputs"] for answer in read(requests, **options)])
    return {case: [next(outputs) for _ in BATCHES] for case in folders}


@pytest.fixture(scope="module")
def models():
    return make_models()


@pytest.fixture(scope="module")
def folders(models, tmp_path_factory):
    return export_all(models, tmp_path_factory.mktemp("exports"))


@pytest.fixture(scope="module")
def answers(folders):
    return read_all(folders)


def named(case):
    return "-".join(map(str, case))


def written(model, texts, tasks, beams):
    inputs = batch(model, texts, tasks)
    ids, scores = model.generate(inputs, LENGTH, beams, return_scores=True)
    return ids.numpy(), scores.numpy()


def assert_same(outputs, ids, scores):
    if "output_tokens" in outputs:
        np.testing.assert_array_equal(outputs["output_tokens"], ids)
    else:
        assert outputs["output_text"] == VOCABULARY.texts(ids)
    np.testing.assert_allclose(outputs["score"], scores, rtol=1e-4, atol=1e-4)


@functools.cache
def expected(model, beams):
    """What `model.generate` writes for each batch."""
    with eagerly():  # the kit checks that compiled is the same
        return [written(model, texts, tasks, beams) for texts, tasks in BATCHES]


def assert_equals_generate(model, beams, answers):
    for outputs, wanted in zip(answers, expected(model, beams), strict=True):
        assert_same(outputs, *wanted)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_equals_generate(models, answers, case):
    assert_equals_generate(models[case[0]], case[2], answers[case])


@pytest.mark.parametrize("beams", [GREEDY, BEAM])
def test_equals_compiled_generate(models, answers, beams):
    name = ALL_SIX[0]
    compiled = written(models[name], *BATCHES[0], beams)
    found = [case for case in CASES if case[0] == name and case[2] == beams]
    assert len(found) == 3
    for case in found:
        assert_same(answers[case][0], *compiled)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_runs_without_xla(folders, case):
    """Python would run such ops all the same; a server does not."""
    assert not needs_xla(folders[case])


@pytest.mark.parametrize("name", ALL)
def test_answers_differ(answers, name):
    """Without that, being equal would say little."""
    outputs = answers[name, *EACH[0]][0]
    assert len({tuple(row) for row in outputs["output_tokens"]}) > 2
    same = name in {*SAME_FOR_ALL_TASKS, "none"}
    one, other = outputs["score"][0], outputs["score"][-1]  # a text, told two tasks
    assert (abs(one - other) < 1e-4) == same
