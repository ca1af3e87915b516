"""Meshes of real devices, and variables laid out over them by DTensor.

    devices.start(virtual_cpus=4)  # before anything else runs TensorFlow
    mesh = devices.create_mesh(parse_shape("batch:2,model:2"))
    weights = devices.distribute(model, parse_layout(), mesh)  # {name: DVariable}

Several processes make one mesh when each has the environment variables `DTENSOR_JOBS`
(all processes, "host:port,host:port"), `DTENSOR_NUM_CLIENTS`, `DTENSOR_CLIENT_ID` (its
own number) and `DTENSOR_JOB_NAME` ("worker") before `start`.
"""

import collections
from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from hypertf.mesh.layouts import Layout
from hypertf.mesh.shapes import MeshShape
from hypertf.mesh.tensors import Named, variables
from hypertf.mesh.updates import slot_name, slots_of
from hypertf.t5 import T5, named_weights
from hypertf.types import Variable


def start(device_type: str | None = None, virtual_cpus: int | None = None) -> str:
    """Starts DTensor on this process's devices, and returns their type.

    Args:
        device_type: "CPU", "GPU" or "TPU"; by default the best there is.
        virtual_cpus: into how many devices to divide this machine's CPU.
    """
    if virtual_cpus is not None:
        device_type = device_type or "CPU"
    try:
        found = dtensor.initialize_accelerator_system(
            device_type, num_logical_cpu_devices=virtual_cpus
        )
        _started.append(found)
        return found
    except (RuntimeError, ValueError) as error:
        raise RuntimeError(
            "devices.start: DTensor must be started once, before anything else runs "
            f"TensorFlow ({error})"
        ) from error


_started = []


def is_started() -> bool:
    """Tells whether `start` was called in this process; it can be but once."""
    return bool(_started)


def create_mesh(shape: MeshShape, device_type: str | None = None) -> dtensor.Mesh:
    """Makes a mesh of the devices of all processes; `start` comes before it."""
    device_type = device_type or dtensor.preferred_device_type()
    there = dtensor.num_global_devices(device_type)
    if shape.size > there:
        raise ValueError(_too_few(shape, there, device_type))
    dims = shape.dims or (("batch", 1),)
    if device_type == "TPU":
        return dtensor.create_tpu_mesh(*map(list, zip(*dims, strict=True)), "")
    clients = dtensor.num_clients()
    if shape.size % clients:
        raise ValueError(
            f'mesh "{shape}": its {shape.size} devices do not divide by the '
            f"{clients} processes of DTENSOR_NUM_CLIENTS"
        )
    own = [f"{device_type}:{i}" for i in range(shape.size // clients)]
    return dtensor.create_distributed_mesh(
        list(dims), local_devices=own, device_type=device_type
    )


def _too_few(shape, there, device_type):
    each = -(-shape.size // dtensor.num_clients())
    return (
        f'mesh "{shape}" needs {shape.size} devices, but there '
        f"{'is' if there == 1 else 'are'} {there} of type {device_type} in "
        f"{dtensor.num_clients()} process(es); to try it without them, divide the CPU "
        f"into virtual devices: hypertf.mesh.devices.start(virtual_cpus={each})"
    )


def shape_of(mesh: dtensor.Mesh) -> MeshShape:
    """The shape of a DTensor mesh."""
    return MeshShape(tuple((name, mesh.dim_size(name)) for name in mesh.dim_names))


def layout_on(tensor: Named, layout: Layout, mesh: dtensor.Mesh) -> dtensor.Layout:
    """The DTensor layout of a tensor by its named dimensions."""
    shape = shape_of(mesh)
    layout.shard(tensor.dims, tensor.shape, shape, tensor.name)  # does it divide?
    over = tensor.split_over(layout, shape)
    return dtensor.Layout([name or dtensor.UNSHARDED for name in over], mesh)


def put(value: np.ndarray, layout: dtensor.Layout) -> tf.Tensor:
    """Lays an array out; each device is handed its own slice only."""
    parts = []
    for location in layout.mesh.local_device_locations():
        index = []
        for size, over in zip(value.shape, layout.sharding_specs, strict=True):
            number = 1 if over == dtensor.UNSHARDED else layout.mesh.dim_size(over)
            at = 0 if number == 1 else location[over]
            index.append(slice(at * size // number, (at + 1) * size // number))
        parts.append(tf.convert_to_tensor(value[tuple(index)]))
    return dtensor.pack(parts, layout)


def distribute(
    model: T5, layout: Layout, mesh: dtensor.Mesh, values: bool = True
) -> dict[str, dtensor.DVariable]:
    """Copies a built model's weights into variables laid out over a mesh, by name.

    A model made inside `hypertf.t5.Unallocated` has its initial values drawn here, one
    weight after the other, so that it is never whole in memory.

    Args:
        values: whether weights get the model's values; if not they are 0, for those
            who fill them from a checkpoint.
    """
    weights = named_weights(model)
    return {
        tensor.name: laid_out(
            weights[tensor.name] if values else 0.0, tensor, layout, mesh
        )
        for tensor in variables(model)
    }


def distribute_slots(
    optimizer: keras.optimizers.Optimizer,
    model: T5,
    layout: Layout,
    mesh: dtensor.Mesh,
) -> dict[str, dtensor.DVariable]:
    """Copies the slots of a model's trained weights, laid out like the weights.

    Of an optimizer that is not built they are 0, as at its first step.
    """
    weights, found = named_weights(model), {}
    for variable in variables(model):
        if not variable.trained:
            continue
        values = optimizer.slots(weights[variable.name]) if optimizer.built else {}
        for tensor in slots_of(optimizer, variable):
            slot = values.get(slot_name(tensor), 0.0)
            found[tensor.name] = laid_out(slot, tensor, layout, mesh)
    return found


def laid_out(
    value: Variable | float, tensor: Named, layout: Layout, mesh: dtensor.Mesh
) -> dtensor.DVariable:
    """A variable on the mesh with the value of another one, or a number."""
    value = np.float32(value) if isinstance(value, float) else np.asarray(value)
    value = np.broadcast_to(value, tensor.shape)  # a number takes no room
    value = put(value, layout_on(tensor, layout, mesh))
    return dtensor.DVariable(value, name=tensor.name, trainable=tensor.trained)


def whole(variable: dtensor.DVariable) -> np.ndarray:
    """The value of a laid out variable, put together from all devices.

    Of several processes all have to call it.
    """
    value, mesh = variable.read_value(), variable.layout.mesh
    replicated = dtensor.Layout.replicated(mesh, rank=len(variable.shape))
    return dtensor.unpack(dtensor.relayout(value, replicated))[0].numpy()


def bytes_by_device(laid_out: Iterable[dtensor.DVariable]) -> dict[str, int]:
    """Bytes that each device of this process holds, measured on its parts."""
    held = collections.Counter()
    for variable in laid_out:
        for part in dtensor.unpack(variable.read_value()):
            held[part.device] += part.dtype.size * int(tf.size(part))
    return dict(held)
