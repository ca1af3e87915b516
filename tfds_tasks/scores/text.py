"""Summaries and translations: ROUGE and BLEU.

>>> scores = rouge(["the cat sat . it slept"], ["the cat sat . it ran"])
>>> {name: round(value, 1) for name, value in scores.items()}
{'rouge1': 80.0, 'rouge2': 75.0, 'rougeLsum': 80.0}
>>> round(bleu(["That is very good."], ["That is very good."])["bleu"], 1)
100.0
"""

import functools
from collections.abc import Sequence

import numpy as np
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU

from tfds_tasks.scores.metrics import Examples, metric

ROUGE = ("rouge1", "rouge2", "rougeLsum")


@metric
def rouge(targets: list, predictions: list, examples: Examples) -> dict[str, float]:
    """Scores the mean F of ROUGE-1, -2 and -L (of summaries, over their lines).

    T5 reports the median of 1,000 random resamples; this is the mean they vary about,
    the same on every call.
    """
    pairs = rouge_per_pair(targets, predictions)
    return {name: 100 * np.mean([pair[name][2] for pair in pairs]) for name in ROUGE}


def rouge_per_pair(
    targets: list, predictions: list, names: Sequence[str] = ROUGE
) -> list[dict[str, tuple[float, float, float]]]:
    """Scores each pair of texts: [{name: (precision, recall, F)}], from 0 to 1."""
    scorer = _scorer(tuple(names))
    return [
        {
            name: tuple(score)
            for name, score in scorer.score(_lines(target), _lines(prediction)).items()
        }
        for target, prediction in zip(targets, predictions, strict=True)
    ]


@functools.cache
def _scorer(names: tuple[str, ...]) -> RougeScorer:
    return RougeScorer(names)


def _lines(text: str) -> str:
    """A line for each sentence, which ROUGE-Lsum takes apart; as T5 does it."""
    return text.replace(" . ", " .\n")


@metric
def bleu(targets: list, predictions: list, examples: Examples) -> dict[str, float]:
    """Scores BLEU of the whole corpus, one reference each, with "intl" tokens."""
    # `force` only silences a warning that the text may be tokenized already.
    scorer = BLEU(tokenize="intl", smooth_method="exp", force=True)
    return {"bleu": scorer.corpus_score(list(predictions), [list(targets)]).score}
