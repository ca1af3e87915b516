"""TF Serving's gRPC API: PredictionService, ModelService, and gRPC's own health."""

import concurrent.futures
import math

import grpc
import tensorflow as tf
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from experiments.serving.engine import Engine
from experiments.serving.errors import RequestError, invalid, shown
from experiments.serving.metrics import Call
from experiments.serving.request_queue import too_late

LARGEST_TENSOR = 2**24  # values; a small message can claim any shape
SPARE = 8  # threads that are left to refuse a request, or to say how the server is


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers Predict and GetModelMetadata.

    Args:
        engine: answers.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def Predict(
        self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext
    ) -> predict_pb2.PredictResponse:
        """Runs a signature on tensors."""
        call, queue = Call("grpc"), self._engine.queue
        status = "INTERNAL"
        try:
            seconds = queue.seconds(context.time_remaining())
            future = queue.submit(lambda: self._predict(call, request), seconds)
            try:
                response = future.result(timeout=max(seconds, 0))
            except concurrent.futures.TimeoutError:
                raise too_late(seconds) from None
            status = "OK"
            return response
        except RequestError as error:
            status = error.code
            _refuse(context, error)
        finally:
            self._engine.metrics.ended(call, status)

    def _predict(self, call, request):
        spec = request.model_spec
        outputs = self._engine.predict(
            call,
            _version(self._engine, spec),
            spec.signature_name,
            lambda signature: _to_arrays(request.inputs, signature),
        )
        response = predict_pb2.PredictResponse()
        response.model_spec.name = spec.name
        response.model_spec.signature_name = call.signature
        response.model_spec.version.value = call.version
        for name in request.output_filter or outputs:
            if name not in outputs:
                raise invalid(
                    f"output {shown(name)} is unknown, expected some of "
                    f"{', '.join(outputs)}"
                )
            proto = tf.make_tensor_proto(outputs[name])
            response.outputs[name].CopyFrom(proto)
        return response

    def GetModelMetadata(
        self,
        request: get_model_metadata_pb2.GetModelMetadataRequest,
        context: grpc.ServicerContext,
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Describes the signatures."""
        try:
            if list(request.metadata_field) != ["signature_def"]:
                asked = shown(list(request.metadata_field))
                raise invalid(f'metadata_field is {asked}, expected ["signature_def"]')
            return self._engine.metadata(_version(self._engine, request.model_spec))
        except RequestError as error:
            _refuse(context, error)

    def _other(self, request, context):
        """What only models with signatures of tf.Example have."""
        said = "expected Predict, with the name of a signature as signature_name"
        _refuse(context, RequestError("UNIMPLEMENTED", said))

    Classify = Regress = MultiInference = _other


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Answers GetModelStatus.

    Args:
        engine: answers.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def GetModelStatus(
        self,
        request: get_model_status_pb2.GetModelStatusRequest,
        context: grpc.ServicerContext,
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Tells the state of the versions."""
        try:
            version = _version(self._engine, request.model_spec)
            return self._engine.status(version)
        except RequestError as error:
            _refuse(context, error)

    def HandleReloadConfigRequest(
        self,
        request: model_management_pb2.ReloadConfigRequest,
        context: grpc.ServicerContext,
    ) -> model_management_pb2.ReloadConfigResponse:
        """Refuses: there is nothing to configure."""
        said = "the server has one model: versions come and go with their folders"
        _refuse(context, RequestError("UNIMPLEMENTED", said))


def _refuse(context, error):
    context.abort(grpc.StatusCode[error.code], str(error))


def _version(engine, spec):
    engine.check_name(spec.name)
    if spec.version_label:
        raise invalid(
            f"version_label {shown(spec.version_label)}: versions have no labels here, "
            "expected version or neither"
        )
    return spec.version.value if spec.HasField("version") else None


def _to_arrays(inputs, signature):
    return {name: _to_array(proto, name, signature) for name, proto in inputs.items()}


def _to_array(proto, name, signature):
    shape = [dim.size for dim in proto.tensor_shape.dim]
    what = f"input {shown(name)}"
    if min(shape, default=0) < 0 or proto.tensor_shape.unknown_rank:
        raise invalid(f"{what} has shape {shown(shape)}, expected sizes that are known")
    if math.prod(shape) > LARGEST_TENSOR:
        raise invalid(
            f"{what} has shape {shown(shape)}, expected at most {LARGEST_TENSOR} values"
        )
    try:
        signature.check_input(name, tf.as_dtype(proto.dtype), shape)
        array = tf.make_ndarray(proto)
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise invalid(f"{what} is no tensor: {shown(str(error), 200)}") from error
    if array.dtype == object:  # an empty string_val is filled up with str
        array.flat = [v.encode() if isinstance(v, str) else v for v in array.flat]
    return array


class GrpcServer:
    """The services on a port.

    Args:
        engine: answers.
        address: "127.0.0.1:8500"; port 0 takes a free one.
        largest_message: bytes that a request may have.
    """

    def __init__(self, engine: Engine, address: str, largest_message: int) -> None:
        threads = engine.queue.most + SPARE
        self._server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(threads, "grpc"),
            options=[
                ("grpc.so_reuseport", 0),  # a port in use is an error
                ("grpc.max_receive_message_length", largest_message),
                ("grpc.max_send_message_length", -1),
            ],
            maximum_concurrent_rpcs=threads,
        )
        self._health = health.HealthServicer()
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(engine), self._server
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(engine), self._server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        try:
            self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"gRPC cannot listen on {address}: {error}") from error

    def start(self) -> None:
        """Begins to answer."""
        self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        self._server.start()

    def refuse(self) -> None:
        """Tells health checks that the server goes away."""
        self._health.enter_graceful_shutdown()

    def stop(self, seconds: float) -> None:
        """Ends, once answers that are being sent have gone out."""
        self._server.stop(seconds).wait()
