"""Raw requests to a server, right or wrong, over both APIs."""

import contextlib
import http.client
import json
import threading

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)


class Asker:
    """Connections to one server: each thread has one for HTTP, all share gRPC's."""

    def __init__(self, server):
        self.server = server
        self.name = server.engine.name
        self._local = threading.local()
        self.channel = grpc.insecure_channel(server.grpc_address)
        self.predictions = prediction_service_pb2_grpc.PredictionServiceStub(
            self.channel
        )
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def http(self, method, path, body=None, headers=()):
        """Returns the status and the body as bytes."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            port = self.server.rest_port
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            self._local.connection = connection
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            status, answer = response.status, response.read()
            if status >= 400:  # the server may have closed it, with a body unread
                connection.close()
            return status, answer
        except (http.client.HTTPException, OSError):
            with contextlib.suppress(OSError):
                connection.close()
            self._local.connection = None
            raise

    def get(self, path):
        """Returns the status and what the JSON says."""
        status, body = self.http("GET", path)
        return status, json.loads(body)

    def post(self, content, path=None, headers=()):
        """Asks for a prediction; returns the status and what the JSON says."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        path = path or f"/v1/models/{self.name}:predict"
        status, answer = self.http("POST", path, body, headers)
        return status, json.loads(answer)

    def grpc(self, request, timeout=60):
        """Returns the code's name, and the outputs as arrays or the message."""
        try:
            response = self.predictions.Predict(request, timeout=timeout)
        except grpc.RpcError as error:
            return error.code().name, error.details()
        arrays = {k: tf.make_ndarray(v) for k, v in response.outputs.items()}
        return "OK", arrays
