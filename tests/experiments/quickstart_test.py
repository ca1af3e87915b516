"""The quickstart's data, and the program itself for a few steps."""

import subprocess
import sys

import numpy as np
import pytest

from experiments import quickstart
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (20, "twenty"),
        (42, "forty two"),
        (100, "one hundred"),
        (407, "four hundred and seven"),
        (3007, "three thousand and seven"),
        (9990, "nine thousand nine hundred and ninety"),
    ],
)
def test_numbers_in_words(number, words):
    assert quickstart.in_words(number) == words


def test_words_are_unique_and_fit():
    words = [quickstart.in_words(n) for n in range(10000)]
    assert len(set(words)) == 10000
    assert max(map(len, words)) < quickstart.INPUT_LENGTH


def test_ids_and_back():
    ids = quickstart.to_ids("407", 5)
    assert ids[3] == 1 and ids[4] == 0
    assert quickstart.to_text(ids) == "407"


def test_held_out_numbers_are_not_trained_on():
    train, held_out = quickstart.split(0)
    assert not set(train) & set(held_out)
    assert len(train) + len(held_out) == 10000
    batch, targets = quickstart.Numbers(train, 2, 64, 0)[0]
    assert batch["encoder_tokens"].shape == (64, quickstart.INPUT_LENGTH)
    np.testing.assert_array_equal(batch["decoder_tokens"][:, 1:], targets[:, :-1])
    lengths = (targets > 1).sum(axis=1)
    assert len(set(lengths.tolist())) > 2


def test_the_program_runs():
    command = [sys.executable, "-m", "experiments.quickstart"]
    command += ["--steps=2", "--batch_size=4"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "numbers it has never seen" in result.stdout
