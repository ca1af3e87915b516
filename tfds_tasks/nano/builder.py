"""The TFDS builder "nano": a config for each task, rows from grammars, no download.

    tfds.builder("nano/sentiment").download_and_prepare()

Features are those of the GLUE or SuperGLUE task of the same form. `coreference` has
`referent` besides, the text that the pronoun stands for.
"""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds

from tfds_tasks.nano import families
from tfds_tasks.nano.forms import TASKS

_BINARY = ("False", "True")
# {config: (the task it mirrors, names of the labels)}
_CONFIGS = {
    "acceptability": ("glue/cola", ("unacceptable", "acceptable")),
    "sentiment": ("glue/sst2", ("negative", "positive")),
    "coreference": ("super_glue/wsc.fixed", _BINARY),
    "paraphrase": ("glue/mrpc", ("not_equivalent", "equivalent")),
    "similarity": ("glue/stsb", None),
    "inference": ("glue/mnli", ("entailment", "neutral", "contradiction")),
    "word_in_context": ("super_glue/wic", _BINARY),
    "question_sentence": ("glue/qnli", ("entailment", "not_entailment")),
    "yes_no": ("super_glue/boolq", _BINARY),
    "multi_answer": ("super_glue/multirc", _BINARY),
    "cause_effect": ("super_glue/copa", ("choice1", "choice2")),
}


def _config(task: str) -> tfds.core.BuilderConfig:
    mirrored, _ = _CONFIGS[task]
    description = f"The form of {mirrored} in a language of some 130 words."
    return tfds.core.BuilderConfig(name=task, description=description)


class Nano(tfds.core.GeneratorBasedBuilder):
    """Eleven small tasks, several of which read the same texts."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "Eleven tasks."}  # noqa: RUF012
    BUILDER_CONFIGS = [_config(task) for task in _CONFIGS]  # noqa: RUF012

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Tasks of the forms of GLUE and SuperGLUE, from grammars.",
            features=tfds.features.FeaturesDict(_features(self.builder_config.name)),
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator]:
        del dl_manager
        splits = ("train", "validation", "test")
        return {split: self._generate_examples(split) for split in splits}

    def _generate_examples(self, split: str) -> Iterator[tuple[int, dict[str, Any]]]:
        task = self.builder_config.name
        rows = families.rows(task, split)
        indices = _answer_indices(rows) if task == "multi_answer" else range(len(rows))
        for number, (row, idx) in enumerate(zip(rows, indices, strict=True)):
            yield number, row | {"idx": idx}


def _features(task: str) -> dict[str, Any]:
    _, labels = _CONFIGS[task]
    features = {key: tfds.features.Text() for key in TASKS[task].keys}
    features["label"] = tfds.features.ClassLabel(names=labels) if labels else tf.float32
    features["idx"] = tf.int32
    if task == "coreference":
        spans = ("span1_text", "span2_text", "referent")
        features |= {key: tfds.features.Text() for key in spans}
        features |= {key: tf.int32 for key in ("span1_index", "span2_index")}
    if task == "multi_answer":
        features["idx"] = {key: tf.int32 for key in ("paragraph", "question", "answer")}
    return features


def _answer_indices(rows: list[dict[str, Any]]) -> Iterator[dict[str, int]]:
    """MultiRC's three numbers: answers to one question share the first two."""
    paragraph = question = -1
    previous = {"paragraph": None, "question": None}
    for answer, row in enumerate(rows):
        new = row["paragraph"] != previous["paragraph"]
        paragraph += new
        question += new or row["question"] != previous["question"]
        yield {"paragraph": paragraph, "question": question, "answer": answer}
        previous = row
