"""Warm-up: requests that TF Serving runs before it gives a version to its users.

They lie in `assets.extra/tf_serving_warmup_requests`, a TFRecord of PredictionLog. The
protos are those of tensorflow-serving-api, in the extra `serve`.
"""

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

FILE = "assets.extra/tf_serving_warmup_requests"
MOST = 100  # TF Serving reads 1,000
TEXT = "a text to warm up with"


def write(
    folder: str,
    name: str,
    functions: Mapping[str, Callable],
    tasks: Sequence[tuple],
    examples: Mapping[str, Sequence[Mapping[str, str]]],
    max_batch_size: int,
) -> int:
    """Writes requests for each signature, alone and in a full batch; returns how many.

    `functions` are the signatures by name, as they are saved.

    None are written, and that is said, where tensorflow-serving-api is not installed.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        logging.warning(
            "no warm-up requests: tensorflow-serving-api is not installed "
            "(pip install 'hypertf[serve]')"
        )
        return 0
    path = os.path.join(folder, FILE)
    tf.io.gfile.makedirs(os.path.dirname(path))
    count = 0
    with tf.io.TFRecordWriter(path) as writer:
        for signature, function in functions.items():
            for inputs in _requests(function, tasks, examples, max_batch_size):
                log = prediction_log_pb2.PredictionLog()
                request = log.predict_log.request
                request.model_spec.name = name
                request.model_spec.signature_name = signature
                for key, value in inputs.items():
                    request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
                writer.write(log.SerializeToString())
                count += 1
    return count


def _requests(function, tasks, examples, max_batch_size):
    """Inputs of a signature: an example of each task, and one full batch."""
    given = function.structured_input_signature[0]
    specs = [spec.name for spec in given if spec is not None]  # one task: no `task`
    classify = "labels" in function.structured_outputs
    served = [task for task, _ in tasks if task.choices or not classify]
    texts = {
        task.name: (examples.get(task.name) or [{"text": TEXT}])[0]["text"]
        for task in served
    }
    rows = list(texts.items())[: MOST // 8]
    full = [rows[i % len(rows)] for i in range(max_batch_size)]
    for batch in (*([row] for row in rows), full):
        names, taken = zip(*batch, strict=True)
        values = {
            "text": np.array(taken, object),
            "task": np.array(names, object),
            "tokens": np.ones([len(batch), 8], "int32"),
        }
        yield {key: values[key] for key in specs}


def read(folder: str) -> list[tuple[str, dict[str, np.ndarray]]]:
    """Reads the requests of a SavedModel: (signature, inputs), none if absent."""
    path = os.path.join(folder, FILE)
    if not tf.io.gfile.exists(path):
        return []
    from tensorflow_serving.apis import prediction_log_pb2

    requests = []
    for record in tf.data.TFRecordDataset(path):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        inputs = {k: tf.make_ndarray(v) for k, v in request.inputs.items()}
        requests.append((request.model_spec.signature_name, inputs))
    return requests


def verify(folder: str) -> None:
    """Loads a SavedModel and runs its warm-up requests; raises if an answer is bad."""
    signatures = tf.saved_model.load(folder).signatures
    for signature, inputs in read(folder):
        rows = len(next(iter(inputs.values())))
        tensors = {key: tf.constant(value) for key, value in inputs.items()}
        answers = signatures[signature](**tensors)
        for name, value in answers.items():
            whole = value.shape[0] == rows
            if value.dtype.is_floating:
                whole = whole and np.isfinite(value.numpy()).all()
            if not whole:
                raise RuntimeError(
                    f"export: {signature} answered {name}={value.numpy()!r} to a "
                    f"warm-up request of {rows} rows, expected a finite row for each"
                )
