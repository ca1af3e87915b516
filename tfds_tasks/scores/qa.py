"""Question answering: SQuAD, TriviaQA and MRQA, ReCoRD, MultiRC.

An answer is held against all accepted answers, and the best match counts.

>>> squad([["the Eiffel Tower", "Paris"]], ["Eiffel tower!"])
{'em': 100.0, 'f1': 100.0}
>>> trivia_qa([["ada lovelace"]], ["Ada-Lovelace"])
{'em': 100.0, 'f1': 100.0}
"""

import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from tfds_tasks.scores.metrics import Examples, check_sizes, f1, metric
from tfds_tasks.scores.readers import Example

TRIVIA_QA_PUNCTUATION = string.punctuation + "\u2018\u2019\u00b4"
ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize_squad(text: str) -> str:
    """Drops case, punctuation, articles and extra space.

    >>> normalize_squad("The Cat's  well-known hat!")
    'cats wellknown hat'
    """
    return _normalize(text, str.maketrans("", "", string.punctuation))


def normalize_trivia_qa(text: str) -> str:
    """Normalizes as `normalize_squad`, but punctuation, and more of it, parts words.

    >>> normalize_trivia_qa("The Cat's  well-known hat!")
    'cat s well known hat'
    """
    return _normalize(text, dict.fromkeys(map(ord, TRIVIA_QA_PUNCTUATION), " "))


def _normalize(text: str, punctuation: dict[int, str | None]) -> str:
    text = ARTICLES.sub(" ", text.lower().translate(punctuation))
    return " ".join(text.split())


@metric
def squad(targets: list, predictions: list, examples: Examples) -> dict[str, float]:
    """Scores exact match and F1 of words against lists of answers; MRQA's score too."""
    return _best_of_answers(targets, predictions, normalize_squad)


@metric
def trivia_qa(targets: list, predictions: list, examples: Examples) -> dict[str, float]:
    """Scores exact match and F1 as `squad`, with TriviaQA's way to normalize."""
    return _best_of_answers(targets, predictions, normalize_trivia_qa)


@metric
def record(targets: list, predictions: list, examples: Examples) -> dict[str, float]:
    """Scores as `squad`, once for each query: its first example counts."""
    first = {}
    for i, example in enumerate(examples):
        first.setdefault((example["idx/passage"], example["idx/query"]), i)
    chosen = first.values()
    return squad([targets[i] for i in chosen], [predictions[i] for i in chosen])


@metric
def multirc(targets: list, predictions: list, examples: Examples) -> dict[str, float]:
    """Scores F1 over all answers, and the share of questions answered all right."""
    right = defaultdict(list)
    for target, prediction, example in zip(targets, predictions, examples, strict=True):
        right[example["idx/question"]].append(target == prediction)
    exact = [all(answers) for answers in right.values()]
    return {**f1(targets, predictions), "exact_match": 100 * np.mean(exact)}


def best_over_chunks(
    examples: Sequence[Example],
    predictions: Sequence[str],
    log_likelihoods: Sequence[float],
) -> tuple[list[Example], list[str]]:
    """Chooses one prediction for each question whose context was read in chunks.

    Args:
        examples: one per chunk; chunks of a question have the same `example["id"]`.
        predictions: what was written for each chunk; empty where it has no answer.
        log_likelihoods: of the predictions.

    Returns:
        The first example of each question and its likeliest prediction that is not
        empty ("" if all are), in the order in which questions first appear.

    >>> chunks = [{"id": "q1"}, {"id": "q1"}, {"id": "q1"}, {"id": "q2"}]
    >>> best_over_chunks(chunks, ["", "1931", "1932", ""], [-0.1, -2.0, -1.0, -0.5])
    ([{'id': 'q1'}, {'id': 'q2'}], ['1932', ''])
    """
    check_sizes(predictions, examples=examples, log_likelihoods=log_likelihoods)
    first, best = {}, {}
    for example, text, score in zip(
        examples, predictions, log_likelihoods, strict=True
    ):
        question = example["id"]
        first.setdefault(question, example)
        kept = best.setdefault(question, ("", -np.inf))
        # An answer is better than none; a likelihood that is NaN beats nothing.
        if text.strip() and (not kept[0] or score > kept[1]):
            best[question] = (text, -np.inf if np.isnan(score) else score)
    return list(first.values()), [text for text, _ in best.values()]


def _best_of_answers(
    targets: list, predictions: list, normalize: Callable[[str], str]
) -> dict[str, float]:
    exact, overlap = [], []
    for answers, prediction in zip(targets, predictions, strict=True):
        answers, prediction = [normalize(a) for a in answers], normalize(prediction)
        exact.append(prediction in answers)
        overlap.append(max((_f1(a, prediction) for a in answers), default=0.0))
    return {"em": 100 * np.mean(exact), "f1": 100 * np.mean(overlap)}


def _f1(answer: str, prediction: str) -> float:
    """F1 of the words, as bags; 0 if no word is common, also where both are empty."""
    answer, prediction = answer.split(), prediction.split()
    common = (Counter(answer) & Counter(prediction)).total()
    return 2 * common / (len(answer) + len(prediction)) if common else 0.0
