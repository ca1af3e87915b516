"""What the processes of a mesh agree on, a number at a time."""

import tensorflow as tf
from tensorflow.experimental import dtensor


def any_process(mesh: dtensor.Mesh, asked: bool) -> bool:
    """Tells whether any process was asked to; all of them get the same answer.

    All of them have to call it.
    """
    return _sum(mesh, float(asked)) > 0


def all_processes_have(mesh: dtensor.Mesh, number: int) -> bool:
    """Tells whether all processes call this with the same whole number."""
    return not any_process(mesh, _sum(mesh, float(number)) != number * mesh.size)


def _sum(mesh, number):
    """The sum of each device's number, which it has of its process."""
    # A dimension for each of the mesh: every device has one element of its own.
    layout = dtensor.Layout(list(mesh.dim_names), mesh)
    own = tf.constant(number, tf.float64, shape=[1] * len(mesh.dim_names))
    parts = dtensor.pack([own] * len(mesh.local_devices()), layout)
    total = tf.reduce_sum(parts)
    whole = dtensor.relayout(total, dtensor.Layout.replicated(mesh, rank=0))
    return float(dtensor.unpack(whole)[0])
