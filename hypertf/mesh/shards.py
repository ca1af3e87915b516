"""Checkpoints of variables on a mesh: each process writes and reads its parts only.

    shards.save({**step.weights, **step.slots}, "run/model.ckpt-1000", step=1000)
    shards.restore({**other.weights, **other.slots}, "run/model.ckpt-1000")

A part is a slice of a variable, as TensorFlow stores partitioned variables. So the
checkpoint is of Mesh TensorFlow's form: any mesh, `hypertf.checkpoints.load` and
`tf.train.load_checkpoint` read it. No process ever holds a whole model, but one
variable at a time. All processes have to make the same calls, and share the folder.
"""

import contextlib
import math
import os
from collections.abc import Iterator, Mapping

import tensorflow as tf
from tensorflow.experimental import dtensor

from hypertf.checkpoints import mesh as checkpoint_form
from hypertf.mesh import processes

Variables = Mapping[str, dtensor.DVariable]

_NOTHING = ".nothing"  # ends the name of a process's file if it has nothing to write


def save(variables: Variables, prefix: str, step: int) -> None:
    """Writes variables by name, and the step, under `prefix`."""
    mesh = next(iter(variables.values())).layout.mesh
    folder = f"{prefix}.{0:08x}.tmp"  # what a process that was killed leaves in a run
    parts = [os.path.join(folder, f"part-{i}") for i in range(dtensor.num_clients())]
    chief = dtensor.client_id() == 0
    with _together(mesh, prefix):
        tf.io.gfile.makedirs(folder)
        _write_own(variables, parts[dtensor.client_id()], step if chief else None)
    with _together(mesh, prefix):
        if chief:
            _merge(parts, prefix)
            tf.io.gfile.rmtree(folder)


@contextlib.contextmanager
def _together(mesh, prefix):
    """If a process fails all of them do, and none waits for it."""
    error = None
    try:
        yield
    except Exception as own:
        error = own
    failed = processes.any_process(mesh, error is not None)
    if error is not None:
        raise error
    if failed:
        raise RuntimeError(f"{prefix} was not written: another process failed")


def _write_own(variables, part, step):
    own = list(_own_slices(variables))
    if step is not None:
        own.append((checkpoint_form.STEP, "", tf.constant(step, tf.int64)))
    if own:
        names, slices, values = zip(*own, strict=True)
        tf.raw_ops.SaveV2(
            prefix=part, tensor_names=names, shape_and_slices=slices, tensors=values
        )
    else:
        tf.io.gfile.GFile(f"{part}{_NOTHING}", "w").close()


def _merge(parts, prefix):
    """The .index comes last: without it there is no checkpoint."""
    written = [part for part in parts if tf.io.gfile.exists(f"{part}.index")]
    for part in parts:
        if part not in written and not tf.io.gfile.exists(f"{part}{_NOTHING}"):
            raise ValueError(
                f"{part} is not there; expected a folder that all processes share"
            )
    if tf.io.gfile.exists(f"{prefix}.index"):
        tf.io.gfile.remove(f"{prefix}.index")
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=written, destination_prefix=prefix, delete_old_dirs=False
    )
    folder = os.path.dirname(prefix)
    with tf.io.gfile.GFile(os.path.join(folder, checkpoint_form.STATE), "w") as file:
        file.write(checkpoint_form.state_text(folder, prefix))


def _own_slices(variables: Variables) -> Iterator[tuple[str, str, tf.Tensor]]:
    """Names, slices and values that this process writes; what a device holds, no copy.

    Devices that hold the same slice take turns, from variable to variable.
    """
    for number, (name, variable) in enumerate(variables.items()):
        layout = variable.layout
        shared = [d for d in layout.mesh.dim_names if d not in layout.sharding_specs]
        sizes = [layout.mesh.dim_size(dim) for dim in shared]
        turn = number % math.prod(sizes)
        parts = dtensor.unpack(variable.read_value())
        locations = layout.mesh.local_device_locations()
        for location, part in zip(locations, parts, strict=True):
            replica = 0
            for dim, size in zip(shared, sizes, strict=True):
                replica = replica * size + location[dim]
            if replica == turn:
                yield name, _slice(variable.shape, layout, location), part


def _slice(shape, layout, location):
    """A device's part in TensorFlow's words: "8 6 4,4:-" is rows 4 to 7 of [8, 6]."""
    if not len(shape):
        return ""
    extents = []
    for size, over in zip(shape, layout.sharding_specs, strict=True):
        if over == dtensor.UNSHARDED:
            extents.append("-")
        else:
            length = size // layout.mesh.dim_size(over)
            extents.append(f"{location[over] * length},{length}")
    return f"{' '.join(map(str, shape))} {':'.join(extents)}"


def restore(variables: Variables, prefix: str) -> int:
    """Reads variables by name, each device its part; returns the step."""
    reader = tf.train.load_checkpoint(prefix)
    shapes, dtypes = (
        reader.get_variable_to_shape_map(),
        reader.get_variable_to_dtype_map(),
    )
    for name, variable in variables.items():
        expected = variable.shape.as_list()
        if shapes.get(name) != expected:
            raise ValueError(
                f"{prefix}: {name} has shape {shapes.get(name)}, expected {expected}"
            )
        variable.assign(_read(prefix, name, dtypes[name], variable))
    return int(reader.get_tensor(checkpoint_form.STEP))


def _read(prefix, name, dtype, variable):
    layout, found, parts = variable.layout, {}, []
    for location in layout.mesh.local_device_locations():
        where = _slice(variable.shape, layout, location)
        if where not in found:
            (found[where],) = tf.raw_ops.RestoreV2(
                prefix=prefix,
                tensor_names=[name],
                shape_and_slices=[where],
                dtypes=[dtype],
            )
        parts.append(tf.cast(found[where], variable.dtype))
    return dtensor.pack(parts, layout)
