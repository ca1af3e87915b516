"""What a bag of words makes of the nano tasks: a table of scores on validation rows.

    python -m tfds_tasks.nano.bag_of_words

Counts of the words of the input, then logistic regression on the answer; for
`similarity` linear regression on the number, scored by Pearson's correlation.
"""

import numpy as np
from absl import app
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from tfds_tasks.nano import families
from tfds_tasks.nano.forms import TASKS, to_text

ROWS = 5000  # to train on, at most


def texts(task: str, split: str) -> tuple[list[str], list[str]]:
    """Returns the inputs and the targets of all rows of a split."""
    pairs = [to_text(task, row) for row in families.rows(task, split)]
    inputs, targets = zip(*pairs, strict=True)
    return list(inputs), list(targets)


def score(task: str) -> tuple[float, float]:
    """Scores a task, in percent: (the score, what a constant answer or a coin gets)."""
    inputs, targets = texts(task, "train")
    held_out, right = texts(task, "validation")
    number = task == "similarity"
    learner = Ridge() if number else LogisticRegression(max_iter=1000)
    words = CountVectorizer(token_pattern=r"\S+")
    model = make_pipeline(words, learner)
    if number:
        model.fit(inputs[:ROWS], np.array(targets[:ROWS], float))
        predicted = model.predict(held_out)
        return 100 * np.corrcoef(predicted, np.array(right, float))[0, 1], 0.0
    model.fit(inputs[:ROWS], targets[:ROWS])
    accuracy = np.mean(model.predict(held_out) == np.array(right))
    return 100 * accuracy, 100 * _chance(task, right)


def _chance(task: str, right: list[str]) -> float:
    """The most frequent answer's share; a coin between the two of a coreference."""
    if task == "coreference":
        return 1 / 2
    return max(map(right.count, right)) / len(right)


def main(argv: list[str]) -> None:
    """Prints the table."""
    del argv
    print(f"{'task':20}{'train rows':>12}{'bag of words':>14}{'chance':>9}")
    for task in TASKS:
        reached, chance = score(task)
        rows = len(families.rows(task, "train"))
        print(f"{task:20}{rows:12,}{reached:14.1f}{chance:9.1f}")


if __name__ == "__main__":
    app.run(main)
