"""A run's model on the examples of its tasks: what it answers, and how that scores."""

import functools
import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from absl import logging

import hypertf
from experiments.runs import components, transfer
from experiments.runs.config import Config
from experiments.runs.on_mesh import Asked
from hypertf.conditioning.task_tables import fill_untrained, task_tables
from hypertf.training import Predictor, RunFolder
from tfds_tasks import Mixture, Task, buckets
from tfds_tasks.batches import tokens
from tfds_tasks.scores import best_over_chunks

# Targets of rows whose label is hidden, as of the benchmarks' test sets.
HIDDEN = ("", "<unk>", "-1", "-1.0")


class Scorer:
    """Holds the model and the examples, so that checkpoints follow one another.

    Args:
        config: the run's `Config`; its `decoding` decides how a model answers.
        strategy: of the devices to run on.
        split: of the tasks.
        tasks: names of those to score, all that have the split if empty.
        batch_size: examples at a time.
        data_dir: folder of the TFDS data.
        asked: the mesh to split the model over, instead of a strategy.
    """

    def __init__(
        self,
        config: Config,
        strategy: tf.distribute.Strategy | None = None,
        split: str = "validation",
        tasks: Sequence[str] = (),
        batch_size: int = 64,
        data_dir: str | None = None,
        asked: Asked | None = None,
    ) -> None:
        self._asked, self.mesh = asked, None
        if asked is not None:
            self.mesh = asked.start()
            # How training runs blocks; their weights are the same.
            config = config.replace(rematerialize=False, loop_layers=False)
        self.config, self.split = config, split
        self.batch_size = batch_size
        mixture = components.make_mixture(config)
        self.vocabulary = components.make_vocabulary(config)
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
        self._strategy = strategy or tf.distribute.get_strategy()
        # What is split over a mesh is never made whole.
        scope = hypertf.t5.Unallocated() if asked else self._strategy.scope()
        with scope:
            self.model = self._make_model(config, mixture)
        if asked is not None:
            asked.plan(config, self.model, batch_size)
        self.untrained = self._untrained(mixture)
        self._predictors, self._known_parts = {}, {}
        self._predictor = self._make_predictor({})

    @property
    def how(self) -> str:
        """How the model answers, as text."""
        if self.config.decoding == "beam":
            return f"beam {self.config.beam_size}"
        return self.config.decoding

    @functools.cached_property
    def unscored(self) -> dict[str, str]:
        """The tasks that get no score, and why."""
        reasons = {}
        for task in self.mixture.tasks:
            if not task.is_scored:
                reasons[task.name] = "for want of a metric"
            elif all(_is_hidden(e) for e in self.examples[task.name]):
                reasons[task.name] = f"as the labels of {self.split} are hidden"
        return reasons

    def _make_model(self, config: Config, mixture: Mixture) -> hypertf.T5:
        return components.make_model(config, mixture)

    def _untrained(self, mixture: Mixture) -> list[int]:
        """Ids whose vectors no task trained, where the method has any."""
        names = transfer.untrained(mixture) if task_tables(self.model) else []
        if names and self._asked is not None:
            words = transfer.untrained_in_words(names)
            raise ValueError(f"{words}; expected no mesh")
        return [mixture.task_id(name) for name in names]

    def load(self, model_dir: str, step: int) -> None:
        """Fills the model from a checkpoint of a run."""
        self._predictor.load(RunFolder(model_dir, writes=False).prefix(step))
        fill_untrained(self.model, self.untrained)

    def score(self) -> tuple[dict[str, dict[str, float]], dict[str, list[str]]]:
        """Returns {task: {metric: percent}} and {task: texts}, a text for each example.

        Tasks in `unscored` have texts only.
        """
        texts = self.predict()
        scores = {}
        for task in self.mixture.tasks:
            if task.name in self.unscored:
                continue
            examples, written = self.examples[task.name], texts[task.name]
            metrics = task.score(*self._answers(task, examples, written))
            scores[task.name] = defined(task.name, metrics)
        return scores, {
            name: [text for text, _ in rows] for name, rows in texts.items()
        }

    def predict(self) -> dict[str, list[tuple[str, float]]]:
        """Answers all examples: {task: [(text, log probability)]}.

        With rank, tasks that are answered by one of their labels get the likeliest;
        the others have no list to choose from, and write.
        """
        ranked = [t for t in self.mixture.tasks if self._is_ranked(t)]
        answers = {task.name: self._rank(task) for task in ranked}
        alike = {}  # tasks by how they are written
        for task in self.mixture.tasks:
            if not self._is_ranked(task):
                own = task.decoding if self.config.decoding == "task" else {}
                alike.setdefault(tuple(sorted(own.items())), []).append(task.name)
        for own, names in alike.items():
            predictor = self._make_predictor(dict(own)) if own else self._predictor
            answers |= self._write(self.mixture.only(names), predictor)
        return answers

    def answer(
        self, inputs: Sequence[str], tasks: Sequence[str]
    ) -> dict[str, list[str]]:
        """Writes an answer to each text as each task: {task: answers}."""
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

    def _make_predictor(self, decoding):
        """One that writes as the run is configured, or by a task's own options."""
        config, options = self.config, {"max_length": self.config.targets_length}
        if config.decoding == "beam":
            options["beam_size"] = config.beam_size
        options |= decoding
        if self._asked is None:
            return Predictor(self.model, strategy=self._strategy, **options)
        key = tuple(sorted(options.items()))
        if key not in self._predictors:  # what it compiled is not made anew
            weights = self._predictor.weights if self._predictors else None
            self._predictors[key] = self._asked.make_predictor(
                self.model, self.mesh, weights=weights, **options
            )
        return self._predictors[key]

    def _is_ranked(self, task):
        return self.config.decoding == "rank" and task.choices is not None

    def _write(self, mixture, predictor):
        def write(make, total):
            ids, scores = predictor.generate(make, total)
            return zip(self.vocabulary.texts(ids), scores.tolist(), strict=True)

        return self._by_parts(mixture, write)

    def _targets(self, task: Task) -> np.ndarray:
        """What a task's choices are as targets, [choices, length]."""
        length = self.config.targets_length
        return tokens(list(task.choices), self.vocabulary, length).numpy()

    def _rank(self, task):
        targets = self._targets(task)

        def rank(make, total):
            scores = self._predictor.rank(make, targets, total, task.name)
            best = scores.argmax(axis=1)
            likeliest = np.take_along_axis(scores, best[:, None], axis=1)[:, 0]
            words = [task.choices[i] for i in best]
            return zip(words, likeliest.tolist(), strict=True)

        return self._by_parts(self.mixture.only([task.name]), rank)[task.name]

    def _by_parts(self, mixture, run):
        """Answers examples of like length together: {task: answers in their order}.

        `run` gives the answers of batches, of a function that makes them and their
        number.
        """
        asked = {task.name: self.examples[task.name] for task in mixture.tasks}
        answers = {name: [None] * len(of_task) for name, of_task in asked.items()}
        for part in self._parts(asked):
            given = run(*self._dataset(mixture, part.of(asked), part.length))
            places = [(n, i) for n in asked for i in part.numbers.get(n, ())]
            for (name, i), answer in zip(places, given, strict=True):
                answers[name][i] = answer
        return answers

    def _parts(self, asked):
        key = tuple(asked)
        if key not in self._known_parts:
            # A mesh takes most of a minute to compile for a length.
            most = buckets.MOST if self._asked is None else 1
            length = self.config.inputs_length
            self._known_parts[key] = buckets.split(asked, self.vocabulary, length, most)
        return self._known_parts[key]

    def _dataset(self, mixture, examples, inputs_length):
        count = sum(map(len, examples.values()))
        make = functools.partial(
            mixture.batches_of,
            examples,
            vocabulary=self.vocabulary,
            batch_size=self.batch_size,
            inputs_length=inputs_length,
            targets_length=self.config.targets_length,
        )
        return make, -(-count // self.batch_size)

    def _answers(self, task, examples, written):
        """Chunks of one text give one answer: the likeliest that is not empty."""
        texts, scores = zip(*written, strict=True)
        if task.chunks is None:
            return examples, list(texts)
        return best_over_chunks(examples, list(texts), list(scores))


def _is_hidden(example):
    return example["targets"] in HIDDEN or example.get("label") == -1


def defined(task: str, metrics: dict[str, float]) -> dict[str, float]:
    """Counts what is undefined as 0, such as a correlation with equal predictions.

    It would leave averages undefined too, and no checkpoint would be the best.

    >>> defined("glue/stsb", {"pearson_corrcoef": float("nan")})
    {'pearson_corrcoef': 0.0}
    """
    undefined = [name for name, value in metrics.items() if math.isnan(value)]
    if undefined:
        logging.warning("%s: %s is undefined, counted as 0", task, undefined)
    return {**metrics, **dict.fromkeys(undefined, 0.0)}
