"""Products with a kernel whose cells are scaled example by example.

A grid of d_r x d_c scales lies over a kernel [in, out]: cell (r, c) covers in / d_r
rows and out / d_c columns that lie together (the paper's repeat function psi), and
each example has a grid of its own. `gated_product` never writes a kernel per example
where another grouping of the same sums touches less memory.
"""

import tensorflow as tf
from keras import ops

from hypertf.t5 import target
from hypertf.t5.packing import Segments
from hypertf.t5.products import project
from hypertf.t5.target import custom_gradient
from hypertf.types import Tensor


def gated_product(x: Tensor, kernel: Tensor, scales: Tensor) -> Tensor:
    """The product of x [batch, length, in] with (psi(scales) * kernel [in, out]).

    scales [batch, d_r, d_c]; d_r divides in and d_c divides out.
    """
    scales = ops.cast(scales, x.dtype)
    _, d_r, d_c = scales.shape
    if d_r == 1:  # whole columns: scaling the output is the same
        return project(x, kernel) * widen(scales, kernel.shape[1])
    if d_c == 1:  # whole rows: scaling the input is the same
        return project(x * widen(ops.transpose(scales, (0, 2, 1)), x.shape[2]), kernel)
    form = cheapest_form(x.shape[1], *kernel.shape, d_r, d_c)
    return FORMS[form](x, ops.cast(kernel, x.dtype), scales)


def gated_by_segment(
    x: Tensor, kernel: Tensor, scales: Tensor, segments: Segments, memory: bool = False
) -> Tensor:
    """The same for packed rows, in which each segment has a grid of its own.

    scales [rows * segments, d_r, d_c]; `memory` if x is the encoder's output.
    """
    scales = ops.cast(scales, x.dtype)
    (fan_in, fan_out), (_, d_r, d_c) = kernel.shape, scales.shape
    if d_r == 1 or d_c == 1:
        of_tokens = ops.reshape(scales, (-1, 1, d_r * d_c))
        of_tokens = segments.choose(of_tokens, memory)
        if d_r == 1:
            return project(x, kernel) * widen(of_tokens, fan_out)
        return project(x * widen(of_tokens, fan_in), kernel)
    # All rows of cells, [d_r, ...]: tokens, kernel and scales.
    parts = ops.transpose(ops.reshape(x, (-1, d_r, fan_in // d_r)), (1, 0, 2))
    kernels = ops.reshape(ops.cast(kernel, x.dtype), (d_r, -1, fan_out))
    by_row = ops.transpose(segments.in_rows(scales), (2, 0, 1, 3))
    y = _by_segment(parts, kernels, by_row, segments.own_as(x, memory))
    return ops.reshape(y, (-1, x.shape[1], fan_out))


@custom_gradient
def _by_segment(x: Tensor, kernels: Tensor, scales: Tensor, own: Tensor) -> tuple:
    """Sums the products of all rows of cells, each token scaled as its segment is.

    x [d_r, tokens, in / d_r], kernels [d_r, in / d_r, out], scales [d_r, rows,
    segments, d_c], own [rows, length, segments], 1 where a token is of a segment.
    Padding takes the scales of any.
    """
    (d_r, _, count, d_c), out = scales.shape, kernels.shape[2]
    cells = (d_r, -1, d_c, out // d_c)
    first = tf.range(tf.shape(own)[0])[:, None] * count
    place = tf.reshape(first + tf.argmax(own, 2, tf.int32), [-1])  # of each token
    y = tf.matmul(x, kernels)  # [d_r, tokens, out]

    def of_tokens(scales):
        scales = tf.reshape(scales, (d_r, -1, d_c))
        return tf.expand_dims(tf.gather(scales, place, axis=1), 3)

    # XLA looks up, scales and sums in one pass; otherwise each would be written.
    @tf.function(jit_compile=True, autograph=False)
    def forward(y: Tensor, scales: Tensor) -> Tensor:
        total = tf.reduce_sum(tf.reshape(y, cells) * of_tokens(scales), axis=0)
        return tf.reshape(total, (-1, out))

    @tf.function(jit_compile=True, autograph=False)
    def gradients(upstream: Tensor, y: Tensor, scales: Tensor) -> tuple:
        upstream = tf.reshape(upstream, (1, *cells[1:]))
        of_scales = tf.reduce_sum(upstream * tf.reshape(y, cells), axis=3)
        of_scales = tf.reshape(of_scales, (d_r, *own.shape[:2], d_c))
        return tf.reshape(upstream * of_tokens(scales), y.shape), of_scales

    def gradient(upstream: Tensor) -> tuple:
        of_y, of_scales = gradients(upstream, y, scales)
        of_x = tf.matmul(of_y, kernels, transpose_b=True)
        of_kernels = tf.matmul(x, of_y, transpose_a=True)
        return of_x, of_kernels, tf.matmul(own, of_scales, transpose_a=True), None

    return forward(y, scales), gradient


def cheapest_form(
    length: int | None, fan_in: int, fan_out: int, d_r: int, d_c: int
) -> str:
    """Which grouping touches the least memory beside the plain product.

    All do the same multiplications (2 * length * in * out per example); they differ
    in what has to be written and read again for each example, in elements:

        "kernels"  in * out             (psi(S) * W) first, then x
        "inputs"   length * in * d_c    x scaled once per column of cells, then W
        "outputs"  length * out * d_r   x W once per row of cells, scaled, then summed

    A kernel of its own per example pays for many positions (training), the others
    for few (decoding, short targets). t5-small's wo, 2048 x 512 under a 32 x 128
    grid: "outputs" below 64 positions, "kernels" from there on. Forward and gradient
    measured on two cores cross near 50; at 17 positions the way not taken adds three
    times as much to the plain product, at 129 more than three times.
    """
    if length is None:
        return "kernels"
    cost = {
        "outputs": length * fan_out * d_r,
        "inputs": length * fan_in * d_c,
        "kernels": fan_in * fan_out,
    }
    return min(cost, key=cost.get)


def widen(scales: Tensor, size: int) -> Tensor:
    """Scales [..., cells] -> [..., size]: each for the size / cells that it covers."""
    *outer, cells = ops.shape(scales)
    if cells == size:
        return scales
    wide = ops.broadcast_to(ops.expand_dims(scales, -1), (*outer, cells, size // cells))
    return ops.reshape(wide, (*outer, size))


def _by_kernels(x: Tensor, kernel: Tensor, scales: Tensor) -> Tensor:
    """A kernel per example, [batch, in, out]."""
    fan_in, fan_out = kernel.shape
    gated = _gated_kernels(kernel, scales)
    return ops.matmul(x, ops.reshape(gated, (-1, fan_in, fan_out)))


@custom_gradient
def _gated_kernels(kernel: Tensor, scales: Tensor) -> tuple:
    """psi(scales) * kernel of each example: [batch, d_r, in / d_r, out]."""
    (fan_in, fan_out), (_, d_r, d_c) = kernel.shape, scales.shape
    rows_of_cells = tf.reshape(kernel, (d_r, fan_in // d_r, fan_out))
    wide = ops.expand_dims(widen(scales, fan_out), 2)

    # XLA sums as it multiplies; otherwise both products would be written to memory.
    @tf.function(jit_compile=not target.current().mesh, autograph=False)
    def gradients(upstream: Tensor, rows_of_cells: Tensor, wide: Tensor) -> tuple:
        of_scales = tf.reduce_sum(upstream * rows_of_cells, axis=2)
        return tf.reduce_sum(upstream * wide, axis=0), of_scales

    def gradient(upstream: Tensor) -> tuple:
        of_kernel, of_scales = gradients(upstream, rows_of_cells, wide)
        of_scales = tf.reshape(of_scales, (-1, d_r, d_c, fan_out // d_c))
        return tf.reshape(of_kernel, kernel.shape), tf.reduce_sum(of_scales, axis=-1)

    return rows_of_cells * wide, gradient


def _by_inputs(x: Tensor, kernel: Tensor, scales: Tensor) -> Tensor:
    """One product per column of cells, of x scaled for it."""
    fan_in, fan_out = kernel.shape
    d_c = scales.shape[2]
    length = ops.shape(x)[1]
    by_column = widen(ops.transpose(scales, (2, 0, 1)), fan_in)  # [d_c, batch, in]
    scaled = ops.reshape(x * ops.expand_dims(by_column, 2), (d_c, -1, fan_in))
    columns = ops.reshape(kernel, (fan_in, d_c, fan_out // d_c))
    y = tf.einsum("cni,ico->nco", scaled, columns)
    return ops.reshape(y, (-1, length, fan_out))


def _by_outputs(x: Tensor, kernel: Tensor, scales: Tensor) -> Tensor:
    """One product per row of cells, scaled and then summed."""
    fan_in, fan_out = kernel.shape
    d_r = scales.shape[1]
    length, size = ops.shape(x)[1], fan_in // d_r
    parts = ops.reshape(x, (-1, d_r, size))
    rows_of_cells = ops.reshape(kernel, (d_r, size, fan_out))
    y = tf.einsum("nri,rio->rno", parts, rows_of_cells)
    y = ops.reshape(y, (d_r, -1, length, fan_out))
    by_row = widen(ops.transpose(scales, (1, 0, 2)), fan_out)  # [d_r, batch, out]
    return ops.sum(y * ops.expand_dims(by_row, 2), axis=0)


FORMS = {"kernels": _by_kernels, "inputs": _by_inputs, "outputs": _by_outputs}
