"""The card of an export: what the model is, for people and for programs."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from hypertf.analysis import parameters
from hypertf.export.served import Form
from hypertf.t5 import T5

JSON, MARKDOWN = "assets.extra/model_card.json", "model_card.md"


def describe(
    name: str,
    version: int,
    model: T5,
    tasks: Sequence[tuple],
    form: Form,
    examples: Mapping[str, Sequence[Mapping[str, str]]],
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """All that is known of an export, as values that JSON takes.

    `more` may have "scores", `{task: {metric: value}}`, which go to the tasks; what
    else it has is kept as it is.
    """
    more = dict(more or {})
    scores = more.pop("scores", {})
    conditioner = model.conditioner
    return {
        "name": name,
        "version": version,
        "method": "none" if conditioner is None else conditioner.method,
        "parameters": parameters(model).total,
        "config": model.config.to_dict(),
        "inputs_length": form.inputs_length,
        "targets_length": form.decoding.max_length,
        "beam_size": form.decoding.beam_size,
        "takes_task": not form.one_task,
        "signatures": list(form.signatures),
        "weights": form.weights,
        "xla": form.xla,
        "tensorflow": tf.__version__,
        "tasks": [
            {
                "name": task.name,
                "labels": list(task.choices) if task.choices else None,
                "template": getattr(task, "template_text", None),
                "examples": [dict(e) for e in examples.get(task.name, ())],
                "scores": dict(scores.get(task.name, {})),
            }
            for task, _ in tasks
        ],
        **more,
    }


def write(folder: str, card: Mapping[str, Any]) -> None:
    """Writes the card into a version's folder, as JSON and as Markdown."""
    for file, text in (
        (JSON, json.dumps(card, indent=1) + "\n"),
        (MARKDOWN, markdown(card)),
    ):
        path = os.path.join(folder, file)
        tf.io.gfile.makedirs(os.path.dirname(path))
        with tf.io.gfile.GFile(path, "w") as out:
            out.write(text)


def read(folder: str) -> dict[str, Any]:
    """Reads the card of a version; {} if it has none."""
    path = os.path.join(folder, JSON)
    if not tf.io.gfile.exists(path):
        return {}
    with tf.io.gfile.GFile(path) as file:
        return json.loads(file.read())


def markdown(card: Mapping[str, Any]) -> str:
    """Writes the card as a page."""
    lines = [
        f"# {card['name']}, version {card['version']}",
        "",
        f"One T5 for {len(card['tasks'])} tasks, told which by `{card['method']}`."
        if card["takes_task"]
        else f"A T5 for the task {card['tasks'][0]['name']}.",
        "",
        f"- {card['parameters']:,} parameters, stored as {card['weights']}",
        f"- texts of at most {card['inputs_length']} tokens (the rest is dropped, and "
        f"`trimmed` says so), answers of at most {card['targets_length']}",
        f"- {_decoding(card['beam_size'])}",
        f"- made with TensorFlow {card['tensorflow']}"
        + ("; needs a server that compiles with XLA" if card["xla"] else ""),
    ]
    for key in ("source", "weights_from", "trained_on", "selection"):
        if card.get(key):
            lines.append(f"- {key.replace('_', ' ')}: {card[key]}")
    lines += ["", "## Tasks", ""]
    lines += ["| task | labels | scores | a text |", "|---|---|---|---|"]
    for task in card["tasks"]:
        labels = ", ".join(task["labels"] or ["(free text)"])
        scores = ", ".join(f"{k} {v:.1f}" for k, v in task["scores"].items())
        text = task["examples"][0]["text"] if task["examples"] else ""
        cells = (task["name"], labels, scores, text)
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join([*lines, "", *_how_to_call(card), ""])


def _decoding(beams: int) -> str:
    return "greedy decoding" if beams == 1 else f"beam search, {beams} beams"


def _cell(text: str) -> str:
    text = text if len(text) <= 120 else text[:117] + "..."
    return text.replace("|", "\\|").replace("\n", " ")


def _how_to_call(card: Mapping[str, Any]) -> list[str]:
    name, task = card["name"], card["tasks"][0]
    text = task["examples"][0]["text"] if task["examples"] else "..."
    row = {"text": text} | ({"task": task["name"]} if card["takes_task"] else {})
    body = json.dumps({"instances": [row]})
    lines = ["## How to call it", "", "Mount the folder that holds the versions:", ""]
    lines += [
        f"    docker run -p 8501:8501 -p 8500:8500 -v $PWD:/models/{name} \\",
        f"        -e MODEL_NAME={name} -e TF_ENABLE_ONEDNN_OPTS=1 \\",
        "        tensorflow/serving --enable_batching \\",
        "        --enable_per_model_batching_parameters",
        f"    curl -d '{body}' http://localhost:8501/v1/models/{name}:predict",
        "",
        "or, with hypertf, `python -m experiments.serve --export_dir=...`.",
        "",
        "Signatures: " + ", ".join(f"`{s}`" for s in card["signatures"]) + ".",
    ]
    return lines
