"""Adversarial and abductive NLI, as the public code of Hyperdecoders writes them."""

from tfds_tasks.formats import classification
from tfds_tasks.registry import register
from tfds_tasks.scores import accuracy
from tfds_tasks.task import Task

INFERENCE = ("entailment", "neutral", "contradiction")
NUMBERS = ("0", "1", "2")  # of the better hypothesis; 0 does not occur

register(
    Task(
        name="anli",
        source=tuple(f"anli/{round}:0.1.0" for round in ("r1", "r2", "r3")),
        format=classification(
            "anli", {"premise": "context", "hypothesis": "hypothesis"}, INFERENCE
        ),
        classes=INFERENCE,
        metrics=(accuracy,),
    )
)
register(
    Task(
        name="art",
        source="art:1.0.0",
        format=classification(
            "art",
            {
                "observation 1": "observation_1",
                "observation 2": "observation_2",
                "hypothesis 1": "hypothesis_1",
                "hypothesis 2": "hypothesis_2",
            },
            NUMBERS,
        ),
        classes=NUMBERS,
        metrics=(accuracy,),
        splits={"train": "train", "validation": "validation"},
        divide="train",
    )
)
