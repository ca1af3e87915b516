"""Abductive NLI (Bhagavatula et al., 2020) for TFDS, which does not have it."""

import json
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

URL = "https://storage.googleapis.com/ai2-mosaic/public/alphanli/alphanli-train-dev.zip"
SPLITS = {"train": "train", "validation": "dev"}
FEATURES = {
    "observation_1": "obs1",
    "observation_2": "obs2",
    "hypothesis_1": "hyp1",
    "hypothesis_2": "hyp2",
}


class Art(tfds.core.GeneratorBasedBuilder):
    """Two observations, and which of two hypotheses explains them better.

    The label is the number of the hypothesis, 1 or 2; 0 does not occur.
    """

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        texts = {name: tfds.features.Text() for name in FEATURES}
        label = tfds.features.ClassLabel(names=["0", "1", "2"])
        return tfds.core.DatasetInfo(
            builder=self,
            description="Abductive Reasoning in narrative Text: which hypothesis "
            "explains what was observed?",
            homepage="https://leaderboard.allenai.org/anli/submissions/get-started",
            citation="Bhagavatula et al., Abductive Commonsense Reasoning, ICLR 2020",
            features=tfds.features.FeaturesDict({**texts, "label": label}),
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator]:
        folder = dl_manager.download_and_extract(URL)
        return {
            split: self._generate_examples(
                folder / f"{name}.jsonl", folder / f"{name}-labels.lst"
            )
            for split, name in SPLITS.items()
        }

    def _generate_examples(
        self, rows: Path, labels: Path
    ) -> Iterator[tuple[int, dict[str, str]]]:
        """Rows and their labels, line by line in two files."""
        with rows.open() as row_file, labels.open() as label_file:
            for key, (row, label) in enumerate(zip(row_file, label_file, strict=True)):
                row = json.loads(row)
                texts = {name: row[old] for name, old in FEATURES.items()}
                yield key, {**texts, "label": label.strip()}
