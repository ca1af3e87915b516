"""Answers requests from SavedModels with TensorFlow alone: what a server has.

    python reader.py requests.json answers.json

requests.json: `{"blocked": [package], "text": bool, "requests": [{"folder",
"signature", "inputs": {name: list}}]}`. A blocked package cannot be imported. `text`
loads the ops of tensorflow-text, whose Python would import Keras.
answers.json: for each request `{"outputs": {name: list}}`, or `{"error": message}`.
Bytes that are no UTF-8 are surrogates in both. It must not import anything of ours.
"""

import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys

TEXT_OPS = "python/ops/_sentencepiece_tokenizer.so"  # in tensorflow_text


class Blocker:
    """Keeps packages from being imported; TensorFlow may still look where Keras is."""

    def __init__(self, packages):
        self.packages = set(packages)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.packages:
            return importlib.machinery.ModuleSpec(name, self, origin="blocked")

    def create_module(self, spec):
        raise ModuleNotFoundError(f"{spec.name} is blocked", name=spec.name)

    def exec_module(self, module):
        raise NotImplementedError


def block(packages):
    """Blocks packages, and makes sure of it."""
    sys.meta_path.insert(0, Blocker(packages))
    for name in packages:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        raise SystemExit(f"{name} can be imported")


def answer(signature, inputs):
    """Runs a signature; lists in, lists out."""
    import tensorflow as tf

    specs = signature.structured_input_signature[1]
    tensors = {}
    for name, value in inputs.items():
        if specs[name].dtype == tf.string:
            value = [text.encode("utf-8", "surrogateescape") for text in value]
        tensors[name] = tf.constant(value, specs[name].dtype)
    try:
        outputs = signature(**tensors)
    except tf.errors.OpError as error:
        return {"error": error.message}
    return {"outputs": {k: as_list(v.numpy()) for k, v in outputs.items()}}


def as_list(array):
    """An array as lists; bytes become str."""
    return _decoded(array.tolist())


def _decoded(value):
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value


def main(source, destination):
    with open(source) as file:
        work = json.load(file)
    block(work["blocked"])
    import tensorflow as tf

    if work["text"]:
        (folder,) = importlib.util.find_spec(
            "tensorflow_text"
        ).submodule_search_locations
        tf.load_op_library(os.path.join(folder, TEXT_OPS))
    loaded, answers = {}, []
    for request in work["requests"]:
        folder = request["folder"]
        if folder not in loaded:
            loaded[folder] = tf.saved_model.load(folder)
        signature = loaded[folder].signatures[request["signature"]]
        answers.append(answer(signature, request["inputs"]))
    with open(destination, "w") as file:
        json.dump(answers, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
