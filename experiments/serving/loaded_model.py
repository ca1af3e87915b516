"""One version of an export in memory: its signatures, card and warm-up."""

import gc
import os
import threading
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops that exports tokenise with
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from experiments.serving import batching, model_card
from experiments.serving.errors import (
    RequestError,
    invalid,
    shown,
    what_tensorflow_said,
)

WARM_UP = os.path.join("assets.extra", "tf_serving_warmup_requests")
DEFAULT_SIGNATURE = "serving_default"


class Signature:
    """A function of the model that is called with arrays by name.

    Args:
        name: of the signature.
        function: of the SavedModel.
        settings: of its batches; None runs each request by itself.
        turns: how many may run outside of batches.
    """

    def __init__(
        self,
        name: str,
        function: tf.types.experimental.GenericFunction,
        settings: batching.Batching | None,
        turns: threading.Semaphore,
    ) -> None:
        self.name = name
        self.inputs = dict(sorted(function.structured_input_signature[1].items()))
        self.outputs = dict(sorted(function.structured_outputs.items()))
        self._alone, self._turns = function, turns
        self._batched, self.most_rows = None, None
        if settings is not None:
            self.most_rows = settings.most_rows
            if batching.can_be_batched(self.inputs, self.outputs):
                self._batched = batching.batched(
                    function, self.inputs, self.outputs, settings
                )

    @property
    def is_batched(self) -> bool:
        return self._batched is not None

    def check(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Refuses inputs that the signature does not take."""
        for name in self.inputs:
            if name not in arrays:
                raise invalid(f'input "{name}" is missing, {self._expects()}')
        for name, array in arrays.items():
            dtype = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
            self.check_input(name, dtype, array.shape)
        rows = {name: len(array) for name, array in arrays.items() if array.ndim}
        if len(set(rows.values())) > 1:
            counts = ", ".join(f"{name} {count}" for name, count in rows.items())
            raise invalid(f"inputs differ in rows: {counts}, expected the same of each")

    def check_input(self, name: str, dtype: tf.DType, shape: Sequence[int]) -> None:
        """Refuses an input by what it is, whatever its values are."""
        if name not in self.inputs:
            raise invalid(f"input {shown(name)} is unknown, {self._expects()}")
        spec = self.inputs[name]
        if dtype != spec.dtype:
            raise invalid(f'input "{name}" is {dtype.name}, expected {spec.dtype.name}')
        if not spec.shape.is_compatible_with(shape):
            raise invalid(
                f'input "{name}" has shape {shown(list(shape))}, expected '
                f"{spec.shape.as_list()} (None: any)"
            )
        if 0 in shape[:1]:
            raise invalid(f'input "{name}" has no rows, expected at least one')
        if self.most_rows is not None and shape and shape[0] > self.most_rows:
            raise invalid(
                f'input "{name}" has {shape[0]} rows, expected at most '
                f"{self.most_rows} at once"
            )

    def _expects(self):
        return f'expected {", ".join(self.inputs)} for signature "{self.name}"'

    def run(self, arrays: Mapping[str, np.ndarray]) -> tuple[dict, int | None]:
        """Returns the outputs as arrays, and the size of the batch if there was one."""
        tensors = {
            name: tf.constant(arrays[name], spec.dtype)
            for name, spec in self.inputs.items()
        }
        if self._batched is not None:
            try:
                outputs, size = self._batched(**tensors)
                return _to_numpy(outputs), size
            except tf.errors.UnavailableError as error:
                raise RequestError(
                    "RESOURCE_EXHAUSTED",
                    f'the queue of "{self.name}" is full, try again later',
                ) from error
            except tf.errors.OpError:
                pass  # perhaps for another's fault: again, by itself
        return self._run_alone(tensors), None

    def _run_alone(self, tensors):
        with self._turns:
            try:
                return _to_numpy(self._alone(**tensors))
            except tf.errors.InvalidArgumentError as error:
                raise invalid(what_tensorflow_said(error.message)) from error
            except tf.errors.OpError as error:
                said = what_tensorflow_said(error.message)
                raise RequestError("INTERNAL", f"the model failed: {said}") from error


def _to_numpy(tensors):
    return {name: tensor.numpy() for name, tensor in tensors.items()}


class LoadedModel:
    """A SavedModel with its signatures wrapped for serving.

    Args:
        path: folder of the version, `EXPORT/1`.
        batch: whether requests at the same time run together.
        changes: of the batching that the version's file asks for.
    """

    def __init__(self, path: str, *, batch: bool = True, **changes: int | None) -> None:
        self.version = int(os.path.basename(path))
        self.requests = 0  # that use it now; `Versions` counts them
        settings = batching.read_batching(path).changed(**changes)
        turns = threading.Semaphore(settings.num_batch_threads)
        self._loaded = tf.saved_model.load(path)
        self.signatures = {
            name: Signature(name, function, settings if batch else None, turns)
            for name, function in sorted(self._loaded.signatures.items())
        }
        if not self.signatures:
            raise ValueError(f"{path} has no signature, expected {DEFAULT_SIGNATURE}")
        self.card = model_card.read_card(path)
        self.signature_defs = _signature_defs(path)
        self.warm_ups = self._warm_up(os.path.join(path, WARM_UP))

    def signature(self, name: str) -> Signature:
        """Returns the signature of a request, "" being the default."""
        name = name or DEFAULT_SIGNATURE
        if name not in self.signatures:
            raise invalid(
                f"signature_name {shown(name)} is unknown, expected one of "
                f"{', '.join(self.signatures)}"
            )
        return self.signatures[name]

    def predict(
        self, signature: Signature, arrays: Mapping[str, np.ndarray]
    ) -> tuple[dict, int | None]:
        """Checks a request and runs it; returns as `Signature.run` does."""
        signature.check(arrays)
        if "task" in signature.inputs:
            self.card.check_tasks(arrays["task"].flat, signature.name)
        return signature.run(arrays)

    def unload(self) -> None:
        """Gives the memory of the model back."""
        self.signatures, self._loaded = {}, None
        gc.collect()  # a SavedModel is a web of references

    def _warm_up(self, path):
        """Runs the requests that lie beside the model, so that the first is quick."""
        if not os.path.exists(path):
            return 0
        number = 0
        for number, record in enumerate(tf.data.TFRecordDataset(path), start=1):
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            request = log.predict_log.request
            arrays = {k: tf.make_ndarray(v) for k, v in request.inputs.items()}
            try:
                name = request.model_spec.signature_name
                self.predict(self.signature(name), arrays)
            except RequestError as error:
                raise ValueError(f"warm-up request {number}: {error}") from error
        return number


def _signature_defs(path):
    with open(os.path.join(path, "saved_model.pb"), "rb") as file:
        saved = saved_model_pb2.SavedModel.FromString(file.read())
    return dict(saved.meta_graphs[0].signature_def)
