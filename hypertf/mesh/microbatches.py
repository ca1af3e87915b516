"""A batch that a mesh takes in parts, one after the other.

Each part is a call of its own, so that the activations of one part only are held. What
the parts' gradients come to is kept in variables that lie as the weights do.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from hypertf.mesh import devices
from hypertf.mesh.batches import Shapes, side_by_side, taken_apart
from hypertf.mesh.layouts import Layout
from hypertf.mesh.tensors import Named, gradient
from hypertf.t5 import target
from hypertf.types import Batch, Tensor

# Of a batch, the number of the part and the size of the whole: gradients, and sums.
Part = Callable[[Batch, Tensor, Tensor], tuple[dict[str, Tensor], dict[str, Tensor]]]


class Microbatches:
    """Adds up the gradients of parts of a batch, and hands them on.

    Args:
        number: how many parts a batch has.
        trained: the weights that have gradients.
        compute: gradients of a part by name, and sums per task, as `Part` says.
        update: takes the gradients of the whole batch.
        layout, mesh: how weights and batches lie.
        whole: lays a tensor out whole on each device.
    """

    def __init__(
        self,
        number: int,
        trained: list[Named],
        compute: Part,
        update: Callable[[dict[str, Tensor]], None],
        layout: Layout,
        mesh: dtensor.Mesh,
        whole: Callable[[Tensor], Tensor],
    ) -> None:
        self._whole = whole
        self.number, self.layout, self.mesh = number, layout, mesh
        self._compute, self._update = compute, update
        self.sums = {
            weight.name: devices.laid_out(0.0, each, layout, mesh)
            for weight in trained
            for each in gradient(weight)
        }
        # Variables: with a tensor that changes, a function is expanded anew.
        self._at = devices.laid_out(0.0, Named("part", (), ()), layout, mesh)
        self._size = devices.laid_out(0.0, Named("size", (), ()), layout, mesh)
        self.functions = [
            tf.function(function, autograph=False)
            for function in (self._add, self._end)
        ]

    def one(self, batch: Batch, size: float) -> dict[str, np.ndarray]:
        """Takes a global batch of numpy arrays; returns its sums per task.

        `size` is what the loss of the whole batch is divided by.
        """
        whole = dtensor.Layout.replicated(self.mesh, rank=0)
        self._size.assign(devices.put(np.float32(size), whole))
        add, end = self.functions
        totals = {}
        for rows in self._parts(batch):
            found = add(*side_by_side(rows, self.layout, self.mesh))
            for name, value in found.items():
                value = dtensor.unpack(value)[0].numpy()
                totals[name] = totals.get(name, 0) + value
        end()
        return totals

    def _parts(self, batch):
        rows = len(next(iter(batch.values())))
        if rows % self.number:
            raise ValueError(
                f"batch of {rows} rows, expected a multiple of "
                f"microbatches={self.number}"
            )
        for number in range(self.number):
            yield {
                name: x.reshape([self.number, -1, *x.shape[1:]])[number]
                for name, x in ((n, np.asarray(x)) for n, x in batch.items())
            }

    def _add(self, joined: Tensor, shapes: Shapes) -> dict[str, Tensor]:
        at, size = self._at.read_value(), self._size.read_value()
        with target.tracing_for(whole=self._whole):
            batch = taken_apart(joined, shapes)
            gradients, metrics = self._compute(batch, at, size)
        for name, value in gradients.items():
            total = self.sums[name]
            value = tf.cast(value, total.dtype)
            total.assign_add(dtensor.relayout(value, total.layout))
        self._at.assign(at + 1)
        return metrics

    def _end(self) -> None:
        sums = {name: total.read_value() for name, total in self.sums.items()}
        with target.tracing_for(whole=self._whole):
            self._update(sums)
        for total in (*self.sums.values(), self._at):
            total.assign(tf.zeros_like(total.read_value()))
