"""Trains a small T5 from scratch on two cores and asks it what it has learned.

    python -m experiments.quickstart

The problem: numbers in words to numbers in digits, "four hundred and seven" to
"407". A tenth of the numbers is held out and only seen at the end.
"""

import random
import time

import keras
import numpy as np
from absl import app, flags

import hypertf

FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 500, "Training steps.", lower_bound=1)
flags.DEFINE_integer("batch_size", 64, "Examples a step.", lower_bound=1)
flags.DEFINE_integer("seed", 0, "Seed of the weights, the data and the split.")

WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy
eighty ninety
"""
ONES, TENS = WORDS.split()[:20], WORDS.split()[18:]  # TENS[2] is "twenty"
INPUT_LENGTH, TARGET_LENGTH = 48, 5


def in_words(n):
    """407 -> "four hundred and seven"."""
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + (f" {ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        rest = f" and {in_words(n % 100)}" if n % 100 else ""
        return f"{ONES[n // 100]} hundred{rest}"
    rest = n % 1000
    join = " and " if 0 < rest < 100 else " "
    return f"{in_words(n // 1000)} thousand" + (join + in_words(rest) if rest else "")


def to_ids(text, length):
    """Bytes moved past the special ids 0 to 2, the end token, padding."""
    ids = [byte + 3 for byte in text.encode()][: length - 1]
    return [*ids, 1, *[0] * (length - 1 - len(ids))]


def to_text(ids):
    ids = list(ids)
    ids = ids[: ids.index(1)] if 1 in ids else ids
    return bytes(int(i) - 3 for i in ids if 3 <= i < 259).decode(errors="replace")


def encode(numbers):
    inputs = np.array([to_ids(in_words(n), INPUT_LENGTH) for n in numbers])
    targets = np.array([to_ids(str(n), TARGET_LENGTH) for n in numbers])
    return inputs, targets


class Numbers(keras.utils.PyDataset):
    """Batches drawn at random; as many of each length as of any other."""

    def __init__(self, numbers, steps, batch_size, seed):
        super().__init__()
        self.steps, self.batch_size, self.seed = steps, batch_size, seed
        self.inputs, self.targets = encode(numbers)
        digits = np.array([len(str(n)) for n in numbers])
        weights = 1.0 / np.bincount(digits)[digits]
        self.weights = weights / weights.sum()

    def __len__(self):
        return self.steps

    def __getitem__(self, step):
        rng = np.random.default_rng((self.seed, step))
        rows = rng.choice(len(self.weights), self.batch_size, p=self.weights)
        targets = self.targets[rows]
        batch = {
            "encoder_tokens": self.inputs[rows],
            "decoder_tokens": np.pad(targets, ((0, 0), (1, 0)))[:, :-1],
        }
        return batch, targets


def split(seed):
    """Numbers to train on, and a tenth that is held out."""
    numbers = list(range(10000))
    random.Random(seed).shuffle(numbers)
    return sorted(numbers[1000:]), sorted(numbers[:1000])


def answers(model, numbers):
    ids = model.generate({"encoder_tokens": encode(numbers)[0]}, TARGET_LENGTH)
    return [to_text(row) for row in ids.numpy()]


def show(model, held_out):
    """The share of held-out numbers that is right, and some of them."""
    written = answers(model, held_out)
    right = np.mean([text == str(n) for text, n in zip(written, held_out, strict=True)])
    print(f"\n{right:.1%} of {len(held_out)} numbers it has never seen are right:\n")
    for i in range(0, len(held_out), len(held_out) // 8):
        print(f"  {in_words(held_out[i]):50s} {written[i]}")
    return right


def main(argv):
    del argv
    keras.utils.set_random_seed(FLAGS.seed)
    config = hypertf.T5Config.from_name("t5-nano", vocab_size=384)
    model = hypertf.T5(config)
    print(f"t5-nano, {model.count_params():,} parameters, {FLAGS.steps} steps")
    model.compile(
        optimizer=hypertf.Adafactor(learning_rate=0.01),
        loss=hypertf.training.T5Loss(normalization="tokens"),
        jit_compile=False,
    )
    train, held_out = split(FLAGS.seed)
    start = time.time()
    model.fit(Numbers(train, FLAGS.steps, FLAGS.batch_size, FLAGS.seed))
    print(f"trained in {time.time() - start:.0f} s")
    show(model, held_out)


if __name__ == "__main__":
    app.run(main)
