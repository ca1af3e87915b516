"""The client's side of TF Serving's two APIs: metadata and predictions by columns."""

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Protocol

import tensorflow as tf

INSTALL = 'pip install -e ".[serve]"'


class ServerError(RuntimeError):
    """What a server answered when it refused, with its code.

    Args:
        code: HTTP's status, or the name of gRPC's.
        message: of the server.
    """

    def __init__(self, code: int | str, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


class Transport(Protocol):
    """How a model is asked."""

    def signatures(self) -> dict[str, dict[str, list[str]]]:
        """Returns {signature: {"inputs": names, "outputs": names}}."""

    def predict(
        self, signature: str, inputs: Mapping[str, Sequence[str]]
    ) -> dict[str, list]:
        """Returns the outputs by name, a value for each row."""

    def close(self) -> None:
        """Ends the connection."""


class RestTransport:
    """Asks over HTTP.

    Args:
        url: of the server, "http://127.0.0.1:8501".
        model: its name.
        version: number; None for the newest.
        timeout: seconds.
    """

    def __init__(
        self, url: str, model: str, version: int | None, timeout: float
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url={url!r}, expected http://HOST:PORT")
        versions = "" if version is None else f"/versions/{version}"
        quoted = urllib.parse.quote(model, safe="")
        self._base = f"{url.rstrip('/')}/v1/models/{quoted}{versions}"
        self._timeout = timeout
        self._signatures = None

    def signatures(self) -> dict[str, dict[str, list[str]]]:
        """Returns {signature: {"inputs": names, "outputs": names}}."""
        if self._signatures is None:
            metadata = self._ask("/metadata")["metadata"]["signature_def"]
            self._signatures = {
                name: {
                    "inputs": sorted(definition.get("inputs", {})),
                    "outputs": sorted(definition.get("outputs", {})),
                }
                for name, definition in metadata["signature_def"].items()
            }
        return self._signatures

    def predict(
        self, signature: str, inputs: Mapping[str, Sequence[str]]
    ) -> dict[str, list]:
        """Returns the outputs by name, a value for each row."""
        columns = {name: list(values) for name, values in inputs.items()}
        body = {"signature_name": signature, "inputs": columns}
        outputs = self._ask(":predict", body)["outputs"]
        names = self.signatures()[signature]["outputs"]
        if len(names) == 1:  # which loses its name
            outputs = {names[0]: outputs}
        return {name: _from_json(values) for name, values in outputs.items()}

    def close(self) -> None:
        """Does nothing: each question is a connection of its own."""

    def _ask(self, what, body=None):
        headers = {"X-Timeout-Seconds": f"{self._timeout:g}"}
        data = None
        if body is not None:
            data = json.dumps(body).encode("ascii")
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(self._base + what, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise ServerError(error.code, _error(error.read())) from None
        except urllib.error.URLError as error:
            raise ConnectionError(f"{self._base}: {error.reason}") from None


def _error(body):
    try:
        return json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")


def _from_json(value):
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value


class GrpcTransport:
    """Asks over gRPC.

    Args:
        address: of the server, "127.0.0.1:8500".
        model: its name.
        version: number; None for the newest.
        timeout: seconds.
    """

    def __init__(
        self, address: str, model: str, version: int | None, timeout: float
    ) -> None:
        try:
            import grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ImportError as error:
            raise RuntimeError(f"grpc needs {error.name}: {INSTALL}") from None
        self._grpc = grpc
        self._channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.max_send_message_length", -1),
                ("grpc.max_receive_message_length", -1),
            ],
        )
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._model, self._version, self._timeout = model, version, timeout
        self._signatures = None

    def signatures(self) -> dict[str, dict[str, list[str]]]:
        """Returns {signature: {"inputs": names, "outputs": names}}."""
        if self._signatures is None:
            from tensorflow_serving.apis import get_model_metadata_pb2 as metadata_pb2

            request = metadata_pb2.GetModelMetadataRequest(
                metadata_field=["signature_def"]
            )
            response = self._ask(self._stub.GetModelMetadata, request)
            definitions = metadata_pb2.SignatureDefMap()
            response.metadata["signature_def"].Unpack(definitions)
            self._signatures = {
                name: {
                    "inputs": sorted(definition.inputs),
                    "outputs": sorted(definition.outputs),
                }
                for name, definition in definitions.signature_def.items()
            }
        return self._signatures

    def predict(
        self, signature: str, inputs: Mapping[str, Sequence[str]]
    ) -> dict[str, list]:
        """Returns the outputs by name, a value for each row."""
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()
        request.model_spec.signature_name = signature
        for name, values in inputs.items():
            proto = tf.make_tensor_proto(list(values), tf.string)
            request.inputs[name].CopyFrom(proto)
        outputs = self._ask(self._stub.Predict, request).outputs
        return {name: _from_array(tf.make_ndarray(p)) for name, p in outputs.items()}

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def _ask(self, method, request):
        request.model_spec.name = self._model
        if self._version is not None:
            request.model_spec.version.value = self._version
        try:
            return method(request, timeout=self._timeout)
        except self._grpc.RpcError as error:
            raise ServerError(error.code().name, error.details()) from None


def _from_array(array):
    if array.dtype == object:
        return _decoded(array.tolist())
    if array.dtype.kind in "biu":
        return array.tolist()
    return array.astype(str).astype(float).tolist()  # the digits that REST sends


def _decoded(value):
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value
