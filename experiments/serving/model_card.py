"""What the model card beside an export says of its tasks; it may be absent or short."""

import json
import os
from collections.abc import Iterable, Mapping

from experiments.serving.errors import invalid, shown

FILE = os.path.join("assets.extra", "model_card.json")


class ModelCard:
    """The tasks of a model, as far as its card tells them.

    Args:
        content: of the file, or None.
    """

    def __init__(self, content: object = None) -> None:
        self.content = content if isinstance(content, dict) else {}
        tasks = self.content.get("tasks")
        tasks = tasks if isinstance(tasks, list) else []
        named = [t for t in tasks if isinstance(t, dict)]
        # A card that has one task wrong does not decide which are known.
        whole = all(isinstance(t.get("name"), str) for t in named)
        whole = whole and len(named) == len(tasks)
        self.tasks = {t["name"]: t for t in named} if whole else {}

    def check_tasks(self, asked: Iterable[bytes], signature: str) -> None:
        """Refuses tasks that the model does not know, or that it cannot classify."""
        if not self.tasks:
            return
        for task in set(asked):
            entry = self.tasks.get(task.decode("utf-8", "replace"))
            if entry is None:
                raise invalid(
                    f"task {shown(task)} is unknown, expected one of "
                    f"{', '.join(self.tasks)}"
                )
            if signature == "classify" and "labels" in entry and not entry["labels"]:
                labelled = [n for n, t in self.tasks.items() if t.get("labels")]
                raise invalid(
                    f"task {shown(task)} has no labels to classify, expected one of "
                    f"{', '.join(labelled)}"
                )


def read_card(folder: str | os.PathLike) -> ModelCard:
    """Reads the card of a version's folder; an empty one where there is none."""
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            return ModelCard(json.load(file))
    except (OSError, ValueError):
        return ModelCard()


def page_data(name: str, version: int, card: ModelCard, signatures: Mapping) -> dict:
    """Returns what the page needs to know of a model.

    Args:
        name: of the model.
        version: that is served.
        card: of that version.
        signatures: by their names, with `inputs` and `outputs`.
    """
    return {
        "model": name,
        "version": version,
        "card": card.content,
        "tasks": list(card.tasks.values()),
        "signatures": {
            key: {"inputs": list(signature.inputs), "outputs": list(signature.outputs)}
            for key, signature in signatures.items()
        },
    }
