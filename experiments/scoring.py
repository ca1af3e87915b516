"""A run's model on the examples of its tasks: predictions and scores."""

import functools
import math

import numpy as np
import tensorflow as tf
from absl import logging

import hypertf
from experiments import build
from hypertf.training import Predictor, RunFolder
from tfds_tasks.batches import tokens
from tfds_tasks.scores import best_over_chunks


class Scorer:
    """Holds the model and the examples, so that checkpoints follow one another.

    Args:
        config: the run's `Config`; its `decoding` decides how answers are found.
        tasks: names of those to score, all that have the split if empty.
    """

    def __init__(
        self,
        config,
        strategy=None,
        split="validation",
        tasks=(),
        batch_size=64,
        data_dir=None,
    ):
        self.config, self.split, self.data_dir = config, split, data_dir
        self.batch_size = batch_size
        mixture, self.vocabulary = (
            build.make_mixture(config),
            build.make_vocabulary(config),
        )
        names = tasks or [t.name for t in mixture.tasks if split in t.parts]
        without = [
            t.name for t in mixture.tasks if t.name in names and split not in t.parts
        ]
        if without or not names:
            whose = ", ".join(without) or config.mixture
            raise ValueError(f"split={split!r}: not a split of {whose}")
        self.mixture = mixture.only(names)
        self.examples = self.mixture.examples(
            split,
            vocabulary=self.vocabulary,
            inputs_length=config.inputs_length,
            data_dir=data_dir,
        )
        strategy = strategy or tf.distribute.get_strategy()
        with strategy.scope():
            self.model = build.make_model(config, mixture)
        options = {"beam_size": config.beam_size} if config.decoding == "beam" else {}
        self._predictor = Predictor(
            self.model, config.targets_length, strategy, **options
        )

    @property
    def how(self):
        """How answers are found, as text."""
        if self.config.decoding == "beam":
            return f"beam {self.config.beam_size}"
        return self.config.decoding

    def load(self, model_dir, step):
        """Fills the model from a checkpoint of a run."""
        hypertf.checkpoints.load(
            self.model, RunFolder(model_dir, writes=False).prefix(step)
        )

    def score(self):
        """{task: {metric: percent}} and {task: texts}, one text for each example."""
        texts = self.predict()
        scores = {}
        for task in self.mixture.tasks:
            examples, written = self.examples[task.name], texts[task.name]
            found = task.score(*self._answers(task, examples, written))
            scores[task.name] = defined(task.name, found)
        return scores, {
            name: [text for text, _ in rows] for name, rows in texts.items()
        }

    def predict(self):
        """{task: [(text, log probability)]}.

        With rank, tasks that have labels get the likeliest one; the others have no
        list to choose from, and write.
        """
        ranked = [t for t in self.mixture.tasks if self._is_ranked(t)]
        found = {task.name: self._rank(task) for task in ranked}
        written = [t for t in self.mixture.tasks if not self._is_ranked(t)]
        if written:
            found |= self._write(self.mixture.only([t.name for t in written]))
        return found

    def answer(self, inputs, tasks):
        """{task: what is written for each of the input texts}."""
        texts = [text for _ in tasks for text in inputs]
        task_ids = np.repeat([self.mixture.task_id(t) for t in tasks], len(inputs))
        texts += [""] * (-len(texts) % self.batch_size)  # a shape that is compiled
        task_ids = np.resize(task_ids.astype("int32"), len(texts))
        ids = tokens(texts, self.vocabulary, self.config.inputs_length)
        written = []
        for start in range(0, len(texts), self.batch_size):
            rows = slice(start, start + self.batch_size)
            batch = {"encoder_tokens": ids[rows], "task_ids": task_ids[rows]}
            written += self.vocabulary.texts(self._predictor.write(batch)[0])
        return {
            task: written[i * len(inputs) : (i + 1) * len(inputs)]
            for i, task in enumerate(tasks)
        }

    def _is_ranked(self, task):
        return self.config.decoding == "rank" and task.labels is not None

    def _write(self, mixture):
        make, total = self._dataset(mixture)
        ids, scores = self._predictor.generate(make, total)
        texts = self.vocabulary.texts(ids)
        rows, start = {}, 0
        for task in mixture.tasks:
            stop = start + len(self.examples[task.name])
            rows[task.name] = list(
                zip(texts[start:stop], scores[start:stop].tolist(), strict=True)
            )
            start = stop
        if start != len(texts):
            raise RuntimeError(f"{len(texts)} predictions for {start} examples")
        return rows

    def _rank(self, task):
        make, total = self._dataset(self.mixture.only([task.name]))
        length = self.config.targets_length
        choices = tokens(list(task.labels), self.vocabulary, length).numpy()
        scores = self._predictor.rank(make, choices, total, task.name)
        best = scores.argmax(axis=1)
        likeliest = np.take_along_axis(scores, best[:, None], axis=1)[:, 0]
        words = [task.labels[i] for i in best]
        return list(zip(words, likeliest.tolist(), strict=True))

    def _dataset(self, mixture):
        count = sum(len(self.examples[task.name]) for task in mixture.tasks)
        make = functools.partial(
            mixture.dataset,
            self.split,
            endless=False,
            vocabulary=self.vocabulary,
            batch_size=self.batch_size,
            inputs_length=self.config.inputs_length,
            targets_length=self.config.targets_length,
            data_dir=self.data_dir,
            check_lengths=False,
        )
        return make, -(-count // self.batch_size)

    def _answers(self, task, examples, written):
        """Chunks of one text give one answer: the likeliest that is not empty."""
        texts, scores = zip(*written, strict=True)
        if task.chunks is None:
            return examples, list(texts)
        return best_over_chunks(examples, list(texts), list(scores))


def defined(task, metrics):
    """Counts what is undefined as 0, such as a correlation with equal predictions.

    It would leave averages undefined too, and no checkpoint would be the best.

    >>> defined("glue/stsb", {"pearson_corrcoef": float("nan")})
    {'pearson_corrcoef': 0.0}
    """
    undefined = [name for name, value in metrics.items() if math.isnan(value)]
    if undefined:
        logging.warning("%s: %s is undefined, counted as 0", task, undefined)
    return {**metrics, **dict.fromkeys(undefined, 0.0)}
