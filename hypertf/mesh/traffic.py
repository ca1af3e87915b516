"""What devices send one another in a training step, by named dimensions.

A product sums over the dimensions that its result lacks. Where such a dimension is
split, each device has a part of the sum, and an all-reduce over that mesh dimension
adds the parts up. That one rule gives all of it, forward and backward:

    y[batch, length, d_model] = x[batch, length, d_ff] wo[d_ff, d_model]

With d_ff:model, y is all-reduced over `model`. The gradient for x sums over d_model,
which is whole: nothing is sent. The gradient for wo sums over the batch: with
batch:batch it is all-reduced over `batch`, in the type that is computed with. In a ring
of n devices each sends 2 (n - 1) / n times the bytes that it holds.
"""

import collections
import dataclasses
import math
from collections.abc import Iterable, Iterator

from hypertf.mesh.activations import Extra, Sizes, stack_lengths
from hypertf.mesh.layouts import Layout
from hypertf.mesh.moments import is_kernel
from hypertf.mesh.products import Product, products
from hypertf.mesh.shapes import MeshShape
from hypertf.mesh.tensors import Named, gradient
from hypertf.t5 import T5Config

FLOAT32 = 4


@dataclasses.dataclass(frozen=True)
class AllReduce:
    """Sums of one kind that go over the same devices.

    Attributes:
        name: what is added up.
        over: the mesh dimensions that it goes over.
        count: how many tensors.
        bytes: what a device sends in all, in a ring.
    """

    name: str
    over: tuple[str, ...]
    count: int
    bytes: int


def all_reduces(
    config: T5Config,
    variables: list[Named],
    sizes: Sizes,
    extra: dict[str, Extra],
    layout: Layout,
    mesh: MeshShape,
) -> list[AllReduce]:
    """Lists what a training step adds up over devices.

    Of a conditioner its variables' gradients are counted, not the sums inside it: those
    are as small as what it writes.
    """
    sums = _Sums(layout, mesh)
    for product in products(config, sizes, extra):
        for name, tensor, dims, count in _partial_sums(product, sizes):
            sums.add(name, tensor, dims, count)
    shape = (sizes.batch_size, sizes.targets_length)
    # The largest logit, the sum of their exponentials, and the target's own.
    row = Named("loss", ("batch", "length"), shape, FLOAT32)
    sums.add("loss", row, ["vocab"], 3)
    for each in _gradients(config, variables, sizes, extra):
        sums.add("gradients of the weights", each, ["batch"], 1)
    return list(sums)


def _gradients(config, weights, sizes, extra) -> Iterator[Named]:
    """The gradients of weights, as they are added up over the batch."""
    for weight in weights:
        for each in gradient(weight):
            if "buckets" in weight.dims:
                yield _of_relative_bias(config, weight, sizes, extra)
                continue
            if is_kernel(config, weight):
                size = min(each.itemsize, sizes.itemsize)
                yield dataclasses.replace(each, itemsize=size)
            if weight.dims == ("vocab", "d_model") or not is_kernel(config, weight):
                yield each  # of rows that were looked up, or of a norm


def _of_relative_bias(config, weight, sizes, extra):
    """Each block adds up that of its logits; the table's own follows from those."""
    stack = weight.name.partition("/")[0]
    length = stack_lengths(sizes, extra)[stack]
    layers = {"encoder": config.num_encoder_layers}
    return Named(
        weight.name,
        ("heads", "length", "memory_length"),
        (config.num_heads, length, extra[stack].keys + length),
        FLOAT32,
        layers.get(stack, config.num_decoder_layers),
    )


def _partial_sums(product: Product, sizes: Sizes) -> Iterable[tuple]:
    """Name, result, dimensions that were summed over, and how often."""
    times = 2 if product.in_block and sizes.rematerialize else 1
    inward, outward = product.kernel
    yield (
        f"{product.name}, forward",
        product.y,
        [inward],
        product.count * product.kernels * times,
    )
    if product.has_gradient:
        yield f"{product.name}, backward", product.x, [outward], product.count


class _Sums:
    """All-reduces joined by name and mesh dimensions."""

    def __init__(self, layout: Layout, mesh: MeshShape) -> None:
        self.layout, self.mesh = layout, mesh
        self.found = collections.defaultdict(lambda: [0, 0])

    def add(self, name: str, tensor: Named, dims: list[str], count: int) -> None:
        """Adds a tensor that is summed over `dims`, where those are split."""
        held = tensor.bytes_per_device(self.layout, self.mesh) * count
        split = set(tensor.split_over(self.layout, self.mesh))
        over = {self.layout.mesh_dimension(dim, self.mesh) for dim in dims}
        over = tuple(name for name in self.mesh.names if name in over - split)
        n = math.prod(self.mesh[name] for name in over)
        if n > 1:
            entry = self.found[name, over]
            entry[0] += count * tensor.count
            entry[1] += 2 * (n - 1) * held // n

    def __iter__(self) -> Iterator[AllReduce]:
        for (name, over), (count, sent) in self.found.items():
            yield AllReduce(name, over, count, sent)
