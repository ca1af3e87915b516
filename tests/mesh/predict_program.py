"""Generates and scores on meshes and on one device; prints how they differ, as JSON.

    python -m tests.mesh.predict_program batch:2,model:2/model:4 none,hypergrid

Apart from pytest, because devices are divided before TensorFlow starts. With the
environment variables of `hypertf.mesh.devices` it is one of several processes, which
have four devices together.
"""

import json
import sys

import keras
import numpy as np
from tensorflow.experimental import dtensor
from tensorflow.python.eager import context  # can forget what it looked up

import hypertf
from hypertf.mesh import devices, filling, parse_layout, parse_shape
from hypertf.mesh.predictor import MeshPredictor
from hypertf.t5 import named_weights
from hypertf.t5.decoding import END
from hypertf.t5.inputs import OF_ENCODER, only
from tests.mesh.step_program import CONFIG, DEVICES, TASKS, away, make_model

LENGTH = 6
WAYS = {"greedy": {}, "beam": {"beam_size": 3}}
MANY = 4  # predictors of one model; DTensor goes wrong with the second already


def make_batch():
    """Inputs of mixed tasks with padding, and two choices of targets for each."""
    rng = np.random.default_rng(3)
    inputs = rng.integers(2, CONFIG.vocab_size, (4, 6), "int32")
    targets = rng.integers(2, CONFIG.vocab_size, (4, 2, 4), "int32")
    inputs[::2, 4:], targets[:, 1, 2:] = 0, 0
    return {
        "encoder_tokens": inputs,
        "targets": targets,
        "task_ids": np.arange(4, dtype="int32") % TASKS,
    }


def let_rows_end(model):
    """Makes rows end early: the token that fewest of them write becomes the end."""
    model.shared.embedding.assign(0.05 * model.shared.embedding)  # or rows are alike
    written = np.asarray(model.generate(only(make_batch(), OF_ENCODER), LENGTH))
    rows = {token: (written == token).any(axis=1).sum() for token in set(written.flat)}
    token = min(rows, key=lambda token: (rows[token], token))
    embedding = model.shared.embedding.numpy()
    embedding[[END, token]] = embedding[[token, END]]
    model.shared.embedding.assign(embedding)


def compare(model, mesh):
    """How far a mesh is from one device, and what its devices hold of the weights."""
    batch, found, weights = make_batch(), {}, None
    inputs = only(batch, OF_ENCODER)
    for way, options in WAYS.items():
        predictor = MeshPredictor(
            model, mesh, parse_layout(), LENGTH, weights=weights, **options
        )
        if weights is None:
            weights = predictor.weights
            for name, variable in named_weights(model).items():
                filling.assign(weights[name], np.asarray(variable))
            scores = predictor.score(batch).numpy()
            found["score"] = away(scores, model.score(batch).numpy())
        ids, scores = (x.numpy() for x in predictor.write(batch))
        expected, their_scores = model.generate(
            inputs, LENGTH, return_scores=True, **options
        )
        found[way] = bool(np.array_equal(ids, expected))
        found[f"{way} score"] = away(scores, their_scores.numpy())
        found[f"{way} lengths"] = (ids > 0).sum(axis=1).tolist()
    found["held"] = devices.bytes_by_device(weights.values())
    return found


def many_alike(model, mesh):
    """Whether predictors write what those like them do, the first of them once more.

    Their loops lie where those of earlier ones did, and are looked up anew at the end.
    """
    weights = devices.distribute(model, parse_layout(), mesh)
    batch, made, written = only(make_batch(), OF_ENCODER), [], []
    for number in range(MANY):
        options = {"weights": weights, "beam_size": 2 + number % 2}
        made.append(MeshPredictor(model, mesh, parse_layout(), LENGTH, **options))
        written.append(made[-1].write(batch)[1].numpy())
    context.context().clear_kernel_cache()
    written += [predictor.write(batch)[1].numpy() for predictor in made[:2]]
    return all(
        np.array_equal(scores, written[number % 2])
        for number, scores in enumerate(written)
    )


def main(shapes, methods):
    devices.start(virtual_cpus=DEVICES // dtensor.num_clients())
    keras.utils.set_random_seed(0)  # all processes start alike
    names = hypertf.conditioning.names() if methods == "all" else methods.split(",")
    meshes = {s: devices.create_mesh(parse_shape(s)) for s in shapes.split("/")}
    results = {}
    for method in names:
        model = make_model(method)
        let_rows_end(model)
        for shape, mesh in meshes.items():
            found = results[f"{shape} {method}"] = compare(model, mesh)
            print(shape, method, found, file=sys.stderr, flush=True)
    results["many alike"] = many_alike(model, mesh)
    try:
        MeshPredictor(model, mesh, parse_layout(), LENGTH, temperature=0.5)
    except ValueError as error:
        results["sampling"] = str(error)
    for mesh in meshes.values():
        dtensor.barrier(mesh)  # or a process that is done first would hang up
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
