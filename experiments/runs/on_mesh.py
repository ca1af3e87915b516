"""A run on a mesh of devices: what `--mesh_shape` and `--layout` ask for."""

import dataclasses
import zlib
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf
from tensorflow.experimental import dtensor

import hypertf
from experiments.runs import components
from experiments.runs.config import Config
from hypertf.mesh import (
    DEFAULT_LAYOUT,
    Layout,
    MeshShape,
    devices,
    limits,
    parse_layout,
    parse_shape,
    plans,
    processes,
)
from hypertf.mesh.activations import Sizes
from hypertf.mesh.filling import Weights
from hypertf.mesh.layouts import unused_dimensions
from hypertf.mesh.predictor import MeshPredictor
from hypertf.mesh.step import MeshStep
from hypertf.names import unknown
from tfds_tasks import Mixture

STRATEGIES = ("auto", "one_device")  # that say nothing against a mesh


@dataclasses.dataclass(frozen=True)
class Asked:
    """The mesh that a run is asked to use, and what is split over it."""

    shape: MeshShape
    layout: Layout

    def __str__(self) -> str:
        return f"a mesh of {self.shape.size} devices, {self.shape}, by {self.layout}"

    def check(self, config: Config) -> None:
        """Refuses settings that this mesh does not carry out; runs no TensorFlow."""
        self.check_batch(config.batch_size // config.microbatches)

    def check_batch(self, batch_size: int) -> None:
        """Refuses a batch, or a part of one, that cannot be split by the layout."""
        self.layout.shard(("batch",), (batch_size,), self.shape, "batch_size")

    def check_model(self, config: Config, model: hypertf.T5) -> None:
        """Refuses what training on this mesh does not carry out.

        The model may be made without values.
        """
        limits.check_model(model)
        limits.check_optimizer(components.make_optimizer(config))
        self.plan(config, model, config.batch_size)

    def plan(self, config: Config, model: hypertf.T5, batch_size: int) -> plans.Plan:
        """Plans the model on the mesh.

        Refuses rules for a dimension that no tensor has, and what does not divide.
        """
        sizes = Sizes(batch_size, config.inputs_length, config.targets_length)
        settings = config.conditioner, config.precision, config.optimizer
        described = plans.describe_model(model, config.model, sizes, *settings)
        return plans.lay_out(described, self.shape, self.layout, chip="any", memory=0.0)

    def start(self) -> dtensor.Mesh:
        """Starts DTensor and makes the mesh; before anything else runs TensorFlow.

        A machine that has CPUs only is divided into as many virtual ones as it needs.
        """
        if not devices.is_started():
            virtual = -(-self.shape.size // dtensor.num_clients())
            devices.start(virtual_cpus=None if _accelerators() else virtual)
        return devices.create_mesh(self.shape)

    def make_step(
        self,
        config: Config,
        model: hypertf.T5,
        optimizer: keras.optimizers.Optimizer,
        mixture: Mixture,
        mesh: dtensor.Mesh,
        values: bool = True,
    ) -> MeshStep:
        """Lays the model out over the mesh, with its values if asked for."""
        return MeshStep(
            model,
            optimizer,
            mesh,
            self.layout,
            mixture.num_tasks,
            clip_norm=config.clip_norm,
            z_loss=config.z_loss,
            label_smoothing=config.label_smoothing,
            normalization=config.loss_normalization,
            seed=config.seed,
            values=values,
            microbatches=config.microbatches,
        )

    def make_predictor(
        self,
        model: hypertf.T5,
        mesh: dtensor.Mesh,
        max_length: int,
        weights: Weights | None = None,
        **options: Any,
    ) -> MeshPredictor:
        """Makes what answers by a model that is split over the mesh."""
        return MeshPredictor(model, mesh, self.layout, max_length, weights, **options)


def asked(
    mesh_shape: str | None = None,
    layout: str | None = None,
    cores_per_replica: int | None = None,
    strategy: str = "auto",
    tpu: str | None = None,
) -> Asked | None:
    """Reads what was asked for; None if it is no mesh. Nothing is started yet."""
    if not mesh_shape:
        for name, value in (
            ("layout", layout),
            ("cores_per_replica", cores_per_replica),
        ):
            if value is not None:
                raise ValueError(
                    f"{name}={value!r} without mesh_shape, expected one such as "
                    '"batch:2,model:4"'
                )
        return None
    if strategy not in STRATEGIES:
        raise ValueError(
            f"strategy={strategy!r} with mesh_shape={mesh_shape!r}, expected "
            f"{' or '.join(STRATEGIES)}"
        )
    if tpu is not None:
        raise ValueError(
            f"tpu={tpu!r} with mesh_shape={mesh_shape!r}: a mesh takes the devices of "
            "this machine, expected none"
        )
    if cores_per_replica is not None and ":" in mesh_shape:
        raise ValueError(
            f"cores_per_replica={cores_per_replica} with mesh_shape={mesh_shape!r}, "
            "expected the name of a TPU, such as v3-8"
        )
    shape = parse_shape(mesh_shape, cores_per_replica or 1)
    found = Asked(shape, parse_layout(layout or DEFAULT_LAYOUT))
    _check_used(found)
    return found


def is_chief() -> bool:
    """Whether this process writes and tells, of those that make a mesh."""
    return not dtensor.client_id()


def meet(mesh: dtensor.Mesh) -> None:
    """Waits for the other processes of a mesh; all of them have to call it."""
    dtensor.barrier(mesh)


def check_checkpoints(checkpoints: object) -> None:
    """Refuses to follow a run with several processes: each would see other steps."""
    clients = dtensor.num_clients()
    if checkpoints == "follow" and clients > 1:
        raise ValueError(
            f"checkpoints={checkpoints!r} with {clients} processes: expected latest, "
            "all or steps"
        )


def agreed(steps: Iterable[int], mesh: dtensor.Mesh) -> Iterable[int]:
    """The steps to score, refused if other processes of the mesh see others."""
    if dtensor.num_clients() == 1:
        return steps
    steps = list(steps)
    if not processes.all_processes_have(mesh, zlib.crc32(repr(steps).encode())):
        raise ValueError(
            f"checkpoints: this process sees {steps}, another one others; expected a "
            "folder that all processes share, and steps by name while a run goes on"
        )
    return steps


def _check_used(found):
    """Devices that all do the same are a mistake."""
    for name in unused_dimensions(found.layout, found.shape):
        named = dict.fromkeys(over for _, over in found.layout.rules)
        raise ValueError(
            f'mesh_shape "{found.shape}", layout "{found.layout}": '
            f"{unknown('mesh dimension', name, named)}"
        )


def _accelerators():
    return [
        device
        for device in tf.config.list_physical_devices()
        if device.device_type in ("GPU", "TPU")
    ]
