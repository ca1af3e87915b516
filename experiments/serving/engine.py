"""What both APIs ask: predictions, metadata and the state of versions."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
from tensorflow.core.protobuf import error_codes_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from experiments.serving.errors import RequestError, shown
from experiments.serving.loaded_model import Signature
from experiments.serving.metrics import Call, Metrics
from experiments.serving.request_queue import RequestQueue
from experiments.serving.versions import Versions


@dataclasses.dataclass
class Engine:
    """A model of a name, with its versions, its queue and what is measured of it."""

    name: str
    versions: Versions
    queue: RequestQueue
    metrics: Metrics

    def check_name(self, name: str) -> None:
        """Refuses the name of another model."""
        if name != self.name:
            raise RequestError(
                "NOT_FOUND",
                f'model {shown(name)} is not served, expected "{self.name}"',
            )

    def predict(
        self,
        call: Call,
        version: int | None,
        signature_name: str,
        read: Callable[[Signature], Mapping[str, np.ndarray]],
    ) -> dict[str, np.ndarray]:
        """Reads the inputs of a request for its signature, and runs them.

        Args:
            call: is told the signature and the version.
            version: asked for; None for the newest.
            signature_name: "" for the default.
            read: makes arrays of what was sent.
        """
        with self.versions.use(version) as model:
            signature = model.signature(signature_name)
            call.signature, call.version = signature.name, model.version
            outputs, batch_rows = model.predict(signature, read(signature))
        self.metrics.ran(call, batch_rows)
        return outputs

    def metadata(
        self, version: int | None
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Describes the signatures of a version."""
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        signatures = get_model_metadata_pb2.SignatureDefMap()
        with self.versions.use(version) as model:
            for name, definition in model.signature_defs.items():
                signatures.signature_def[name].CopyFrom(definition)
            response.model_spec.version.value = model.version
        response.model_spec.name = self.name
        response.metadata["signature_def"].Pack(signatures)
        return response

    def status(
        self, version: int | None
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Tells the state of one version, or of all, newest first."""
        response = get_model_status_pb2.GetModelStatusResponse()
        for number, known in sorted(
            self.versions.status(version).items(), reverse=True
        ):
            status = response.model_version_status.add(version=number)
            status.state = status.State.Value(known.state)
            status.status.SetInParent()  # error_code: OK
            if known.error:
                status.status.error_code = error_codes_pb2.UNKNOWN
                status.status.error_message = known.error
        return response
