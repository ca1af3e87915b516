"""Decoding on a cache equals decoding without one, row by row."""

import contextlib
import functools

import numpy as np
import pytest
import tensorflow as tf

from hypertf.t5 import beam, decoding
from hypertf.testing.case import eagerly
from tests.helpers import V1_1, relative_error, rows, tiny_model

LENGTH = 7


@pytest.fixture(scope="module", params=[{}, V1_1], ids=["v1_0", "v1_1"])
def model(request):
    return tiny_model(seed=3, num_encoder_layers=1, **request.param)


def inputs(lengths=(4, 9, 6, 2), width=9):
    return {"encoder_tokens": rows(lengths, width)}


@functools.cache
def forward(model):
    return tf.function(lambda batch: tf.nn.log_softmax(model(batch)), autograph=False)


def uncached_log_probs(model, batch, ids):
    """Log probabilities of what comes after ids [batch, n], by whole forward passes."""
    n = ids.shape[1]
    decoder_tokens = np.pad(ids, ((0, 0), (1, LENGTH - n)))
    return forward(model)({**batch, "decoder_tokens": decoder_tokens})[:, n].numpy()


def greedy(model, batch, least=0):
    """Greedy decoding without a cache, as slow and plain as can be."""
    ids = np.zeros((len(batch["encoder_tokens"]), 0), "int32")
    done = np.zeros(len(ids), bool)
    score = np.zeros(len(ids))
    for n in range(1, LENGTH + 1):
        log_probs = uncached_log_probs(model, batch, ids)
        if n < least:
            log_probs[:, 1] = -np.inf
        token = log_probs.argmax(-1)
        score += np.where(done, 0, log_probs.max(-1))
        token = np.where(done, 0, token)
        ids = np.concatenate([ids, token[:, None].astype("int32")], axis=1)
        done |= token == 1
    return ids, score


def test_greedy_cached_equals_uncached(model):
    ids, scores = model.generate(inputs(), LENGTH, return_scores=True)
    expected, expected_scores = greedy(model, inputs())
    np.testing.assert_array_equal(ids, expected)
    assert relative_error(scores, expected_scores) < 1e-4


def test_greedy_decoding_does_not_end_before_it_may(model):
    how = {"min_length": LENGTH - 1, "return_scores": True}
    ids, scores = model.generate(inputs(), LENGTH, **how)
    expected, expected_scores = greedy(model, inputs(), LENGTH - 1)
    np.testing.assert_array_equal(ids, expected)
    assert relative_error(scores, expected_scores) < 1e-4
    assert not (ids.numpy()[:, : LENGTH - 2] == 1).any()


def test_outputs_end(model):
    """Rows that reach the end token are 0 after it, and at least one does."""
    ids = model.generate(inputs(), LENGTH).numpy()
    after_end = np.cumsum(ids == 1, axis=1) - (ids == 1) > 0
    assert not ids[after_end].any()


@pytest.mark.parametrize("beam_size", [1, 3])
def test_rows_do_not_depend_on_batch_mates_or_padding(model, beam_size):
    how = {"beam_size": beam_size, "num_sequences": beam_size}
    together = model.generate(inputs(), LENGTH, **how)
    for i, row in enumerate(inputs()["encoder_tokens"]):
        widened = np.pad(row[None], ((0, 0), (0, 7)))
        alone = model.generate({"encoder_tokens": widened}, LENGTH, **how)
        np.testing.assert_array_equal(alone[0], together[i])


@functools.cache
def beam_model():
    return tiny_model(seed=3, num_encoder_layers=1, num_decoder_layers=1)


def naive_beam(model, tokens, beams, style, penalty, least=0):
    """One row, hypothesis by hypothesis: the search's rules in plain Python."""
    hugging = style.startswith("huggingface")

    def score(log_prob, n):
        return log_prob / (n if hugging else (5 + n) / 6) ** penalty

    live, finished = [((), 0.0)], []
    for n in range(1, LENGTH + 1):
        candidates = []
        for ids, log_prob in live:
            row = np.array(ids, "int32")[None].reshape(1, -1)
            batch = {"encoder_tokens": tokens[None]}
            log_probs = uncached_log_probs(model, batch, row)[0]
            if n < least:
                log_probs[1] = -np.inf
            keep = 2 if style == "t5" else 2 * beams
            for token in np.argsort(-log_probs, kind="stable")[:keep]:
                grown = (*ids, int(token))
                candidates.append((grown, log_prob + float(log_probs[token])))
        candidates.sort(key=lambda c: -c[1])
        candidates = candidates[: 2 * beams]
        for rank, (ids, log_prob) in enumerate(candidates):
            ends = ids[-1] == 1
            if hugging:
                ends = (ends or n == LENGTH) and rank < beams
            if ends:
                finished.append((score(log_prob, n), ids))
        finished = sorted(finished, key=lambda f: -f[0])[:beams]
        live = [c for c in candidates if c[0][-1] != 1][:beams]
        reach = n if style == "huggingface" else LENGTH
        best = score(live[0][1], reach)
        full = len(finished) == beams if hugging else bool(finished)
        if full and finished[-1][0] >= best:
            break
    if not finished:
        finished = [(score(log_prob, LENGTH), ids) for ids, log_prob in live]
    return finished


@pytest.mark.parametrize("style", decoding.BEAM_STYLES)
@pytest.mark.parametrize(("penalty", "least"), [(0.0, 0), (1.2, 0), (0.0, 5)])
def test_beams_equal_a_naive_search(style, penalty, least):
    model, batch = beam_model(), inputs()
    # One penalty with XLA, and one without.
    with eagerly() if penalty else contextlib.nullcontext():
        ids, scores = model.generate(
            batch,
            LENGTH,
            beam_size=3,
            num_sequences=3,
            beam_style=style,
            length_penalty=penalty,
            min_length=least,
            return_scores=True,
        )
    for i, tokens in enumerate(batch["encoder_tokens"]):
        expected = naive_beam(model, tokens, 3, style, penalty, least)
        for j, (score, hypothesis) in enumerate(expected):
            padded = [*hypothesis, *[0] * (LENGTH - len(hypothesis))]
            assert ids[i, j].numpy().tolist() == padded
            np.testing.assert_allclose(scores[i, j], score, rtol=1e-4)


def test_one_beam_is_greedy(model):
    rules = decoding.Options(max_length=LENGTH, beam_size=1)
    batch = {"encoder_tokens": tf.constant(inputs()["encoder_tokens"])}
    ids, _ = beam.search(model, batch, rules)  # eagerly
    greedy_ids = model.generate(inputs(), LENGTH)
    finished = (greedy_ids.numpy() == 1).any(axis=1)
    np.testing.assert_array_equal(ids[:, 0][finished], greedy_ids[finished])


def test_stops_when_all_rows_are_done(monkeypatch):
    """A head that always says the end token takes one step, not `max_length`."""
    model = tiny_model(**V1_1)
    ends = np.zeros((16, 60), "float32")
    ends[:, 1] = 1.0
    model.decoder.logits.kernel.assign(ends)
    model.decoder.rms_norm.scale.assign(np.ones(16))
    steps = []
    step = decoding.Steps.__call__

    def counting(self, tokens, index, caches):
        steps.append(int(index))
        logits, caches = step(self, tokens, index, caches)
        return tf.abs(logits), caches

    monkeypatch.setattr(decoding.Steps, "__call__", counting)
    batch = {"encoder_tokens": tf.constant(inputs()["encoder_tokens"])}
    options = decoding.Options(max_length=50)
    ids, _ = decoding.sample(model, batch, options, None)  # eagerly: steps are seen
    assert steps == [0]
    assert (ids[:, 0, 0] == 1).numpy().all() and not ids[:, 0, 1:].numpy().any()


@functools.cache
def sampling_model():
    return tiny_model(seed=5, num_encoder_layers=1)


def test_sampling_follows_the_distribution():
    model, batch = sampling_model(), {"encoder_tokens": rows([4], 4)}
    temperature, draws = 3.0, 20000
    ids = model.generate(
        batch, 1, temperature=temperature, num_sequences=draws, seed=1
    ).numpy()
    counts = np.bincount(ids[0, :, 0], minlength=60) / draws
    log_probs = uncached_log_probs(model, batch, np.zeros((1, 0), "int32"))[0]
    expected = np.exp(log_probs / temperature)
    expected /= expected.sum()
    assert np.abs(counts - expected).max() < 4 * np.sqrt(0.25 / draws)


def test_top_k_and_top_p_restrict_the_draw():
    model, batch = sampling_model(), {"encoder_tokens": rows([4], 4)}
    log_probs = uncached_log_probs(model, batch, np.zeros((1, 0), "int32"))[0]
    order = np.argsort(-log_probs)
    ids = model.generate(batch, 1, num_sequences=3000, seed=1, temperature=9.0, top_k=3)
    assert set(ids.numpy().ravel().tolist()) == set(order[:3].tolist())
    logits = tf.tile(tf.constant(log_probs)[None, None], [1, 3000, 1])

    def drawn(**how):
        options = decoding.Options(max_length=1, **how)
        ids = decoding.choose(logits, options, tf.constant(1, tf.int64), 0)
        return set(ids.numpy().ravel().tolist())

    probabilities = np.exp(log_probs / 2.0 - np.log(np.exp(log_probs / 2.0).sum()))
    mass = np.cumsum(probabilities[order])
    nucleus = order[: int(np.searchsorted(mass, 0.7)) + 1]
    assert drawn(temperature=2.0, top_p=0.7) == set(nucleus.tolist())
    assert drawn(temperature=2.0, top_p=1e-6) == {int(order[0])}


def test_sampling_is_repeatable_and_rows_do_not_depend_on_mates(model):
    how = {"temperature": 2.0, "seed": 11}
    ids = model.generate(inputs(), LENGTH, **how)
    np.testing.assert_array_equal(model.generate(inputs(), LENGTH, **how), ids)
    fewer = {"encoder_tokens": inputs()["encoder_tokens"][:2]}
    np.testing.assert_array_equal(model.generate(fewer, LENGTH, **how), ids[:2])
    other = model.generate(inputs(), LENGTH, temperature=2.0, seed=12)
    assert (other.numpy() != ids.numpy()).any()


def test_scores_of_choices_equal_scores_one_by_one(model):
    batch = inputs()
    targets = np.stack([rows([2, 3, 4, 5], 5, seed=s) for s in range(3)], axis=1)
    together = model.score({**batch, "targets": targets})
    assert together.shape == (4, 3)
    for j in range(3):
        alone = model.score({**batch, "targets": targets[:, j]})
        assert relative_error(together[:, j], alone) < 1e-5
    expected = np.zeros(4)
    for t in range(5):
        log_probs = uncached_log_probs(model, batch, targets[:, 0, :t])
        token = targets[:, 0, t]
        expected += np.where(token > 0, log_probs[np.arange(4), token], 0.0)
    assert relative_error(together[:, 0], expected) < 1e-5


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_length", 0),
        ("min_length", 5),
        ("min_length", -1),
        ("beam_size", 0),
        ("beam_size", 2.0),
        ("num_sequences", 2),
        ("temperature", -1.0),
        ("top_k", 5),
        ("top_p", 0.0),
        ("top_p", 0.5),
        ("length_penalty", -0.1),
        ("beam_style", "t6"),
    ],
)
def test_bad_options_are_named(model, option, value):
    how = {"max_length": 4, option: value}
    with pytest.raises(ValueError, match=f"generate: .*{option}="):
        model.generate(inputs(), **how)


def test_beams_and_sampling_exclude_each_other(model):
    with pytest.raises(ValueError, match="beams or sampling, not both"):
        model.generate(inputs(), 4, beam_size=2, temperature=1.0)
