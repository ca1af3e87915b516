"""Summaries and translations: ROUGE and BLEU.

>>> scores = rouge(["the cat sat . it slept"], ["the cat sat . it ran"])
>>> {name: round(value, 1) for name, value in scores.items()}
{'rouge1': 80.0, 'rouge2': 75.0, 'rougeLsum': 80.0}
>>> round(bleu(["That is very good."], ["That is very good."])["bleu"], 1)
100.0
"""

import functools

import numpy as np
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU

from tfds_tasks.scores.metrics import metric

ROUGE = ("rouge1", "rouge2", "rougeLsum")


@metric
def rouge(targets, predictions, examples):
    """Mean F of ROUGE-1, -2 and -L (of summaries, over their lines).

    T5 reports the median of 1,000 random resamples; this is the mean they vary about,
    the same on every call.
    """
    pairs = rouge_per_pair(targets, predictions)
    return {name: 100 * np.mean([pair[name][2] for pair in pairs]) for name in ROUGE}


def rouge_per_pair(targets, predictions, names=ROUGE):
    """[{name: (precision, recall, F)}], each from 0 to 1, for each pair of texts."""
    scorer = _scorer(tuple(names))
    return [
        {
            name: tuple(score)
            for name, score in scorer.score(_lines(target), _lines(prediction)).items()
        }
        for target, prediction in zip(targets, predictions, strict=True)
    ]


@functools.cache
def _scorer(names):
    return RougeScorer(names)


def _lines(text):
    """A line for each sentence, which ROUGE-Lsum takes apart; as T5 does it."""
    return text.replace(" . ", " .\n")


@metric
def bleu(targets, predictions, examples):
    """BLEU of the whole corpus, one reference each, sacreBLEU's "intl" tokens."""
    # `force` only silences a warning that the text may be tokenized already.
    scorer = BLEU(tokenize="intl", smooth_method="exp", force=True)
    return {"bleu": scorer.corpus_score(list(predictions), [list(targets)]).score}
