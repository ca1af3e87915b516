"""Multiply-adds of a model: counted over the graph that is traced, and by formula.

Only products of matrices count: sums, norms, softmax and look-ups are left out.
"""

import dataclasses
import math
from collections.abc import Iterator

import tensorflow as tf

from hypertf import conditioning
from hypertf.keras_internals import called_graph
from hypertf.t5 import T5, T5Config, Unallocated, target
from hypertf.t5.inputs import DECODER_TOKENS, ENCODER_TOKENS, TASK_IDS
from hypertf.training.loss import token_losses

CALLS = ("PartitionedCall", "StatefulPartitionedCall")


@dataclasses.dataclass(frozen=True)
class Workload:
    """A batch, by its sizes."""

    batch: int = 128
    inputs_length: int = 512
    targets_length: int = 32


@dataclasses.dataclass(frozen=True)
class Cost:
    """Multiply-adds of one batch.

    Attributes:
        forward: of a forward pass.
        training: of a forward pass and the gradients of what trains.
    """

    forward: int
    training: int


def count(model: T5, workload: Workload) -> Cost:
    """Counts multiply-adds over the graphs of a model's forward pass and gradients.

    ```python
    from hypertf.analysis import cost

    with hypertf.t5.Unallocated():  # graphs are traced, not run
        model = hypertf.T5(hypertf.T5Config.from_name("t5-base"))
    cost.count(model, cost.Workload(batch=1)).forward / 1e9
    ```
    """
    return Cost(
        products(traced(model, workload, gradients=False)),
        products(traced(model, workload, gradients=True)),
    )


def count_by_depth(
    config: T5Config, name: str, tasks: int, workload: Workload, **options: object
) -> Cost:
    """Counts as `count` a model of any depth, from graphs of one and two layers.

    Every further layer costs what the second does, and tracing all takes minutes.
    """
    layers = config.num_encoder_layers
    if layers != config.num_decoder_layers or layers < 3:
        return count(without_values(config, name, tasks, **options), workload)
    one, two = (
        count(
            without_values(_of_depth(config, depth), name, tasks, **options), workload
        )
        for depth in (1, 2)
    )
    forward, training = (
        first + (layers - 1) * (second - first)
        for first, second in (
            (one.forward, two.forward),
            (one.training, two.training),
        )
    )
    return Cost(forward, training)


def _of_depth(config, depth):
    return dataclasses.replace(
        config, num_encoder_layers=depth, num_decoder_layers=depth
    )


def traced(model: T5, workload: Workload, gradients: bool) -> tf.Graph:
    """Traces the graph of one batch; weights are arguments, and need no values."""

    def forward(trained, others, batch):
        logits, _ = model.stateless_call(trained, others, batch, training=False)
        if not gradients:
            return logits
        loss = tf.reduce_sum(token_losses(logits, batch[DECODER_TOKENS]))
        return tf.gradients(loss, trained)

    def specs(variables):
        return [tf.TensorSpec(v.shape, v.dtype) for v in variables]

    def tokens(length):
        return tf.TensorSpec([workload.batch, length], tf.int32)

    batch = {
        ENCODER_TOKENS: tokens(workload.inputs_length),
        DECODER_TOKENS: tokens(workload.targets_length),
        TASK_IDS: tf.TensorSpec([workload.batch], tf.int32),
    }
    weights = specs(model.trainable_variables), specs(model.non_trainable_variables)
    function = tf.function(forward, autograph=False)
    with target.tracing_for("CPU", xla=False):
        return function.get_concrete_function(*weights, batch).graph


def products(graph: tf.Graph) -> int:
    """Adds up the multiply-adds of all products in a graph and what it calls.

    ```python
    graph = tf.function(tf.matmul).get_concrete_function(
        tf.TensorSpec([2, 3]), tf.TensorSpec([3, 5])
    ).graph
    hypertf.analysis.cost.products(graph)  # 30
    ```
    """
    return sum(_of_operation(operation) for operation in _operations(graph))


def _operations(graph: tf.Graph) -> Iterator[tf.Operation]:
    for operation in graph.get_operations():
        if operation.type in CALLS:
            name = operation.get_attr("f").name
            yield from _operations(called_graph(graph, name))
        elif operation.type in ("While", "StatelessWhile"):
            raise ValueError(
                f"{operation.name} is a loop, whose turns are not known; expected a "
                "model without loop_layers"
            )
        else:
            yield operation


def _of_operation(operation):
    if operation.type == "MatMul":
        return _matmul(operation, "transpose_a")
    if operation.type in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        return _matmul(operation, "adj_x")
    if operation.type in ("Einsum", "XlaEinsum"):
        return _einsum(operation)
    return 0


def _matmul(operation, transposed):
    shape = operation.inputs[0].shape
    inner = shape[-2] if operation.get_attr(transposed) else shape[-1]
    return math.prod(operation.outputs[0].shape) * inner


def _einsum(operation):
    """The product of all sizes that its equation names."""
    if len(operation.inputs) < 2:
        return 0
    equation = operation.get_attr("equation").decode()
    sizes = {}
    for names, tensor in zip(
        equation.partition("->")[0].split(","), operation.inputs, strict=True
    ):
        sizes |= dict(zip(names, tensor.shape, strict=True))
    return math.prod(sizes.values())


@dataclasses.dataclass(frozen=True)
class Extra:
    """What a method adds in a stack: keys of its own, and tokens before the input."""

    keys: int = 0
    tokens: int = 0


def plain_formula(
    config: T5Config,
    workload: Workload,
    encoder: Extra | None = None,
    decoder: Extra | None = None,
) -> int:
    """Works out the multiply-adds of a T5's forward pass, with longer keys or inputs.

    >>> plain_formula(T5Config.from_name("t5-base"), Workload(batch=1)) // 10**9
    59
    """
    c, encoder, decoder = config, encoder or Extra(), decoder or Extra()
    source = workload.inputs_length + encoder.tokens
    length = workload.targets_length + decoder.tokens
    projection = c.d_model * c.d_heads
    kernels = 3 if c.gated else 2
    ffn = kernels * c.d_model * c.d_ff

    def attention(queries: int, keys: int) -> int:
        return 2 * queries * keys * c.d_heads

    in_encoder = source * (4 * projection + ffn)
    in_encoder += attention(source, source + encoder.keys)
    in_decoder = length * (6 * projection + ffn) + 2 * source * projection
    in_decoder += attention(length, length + decoder.keys) + attention(length, source)
    logits = workload.targets_length * c.d_model * c.vocab_size
    each = c.num_encoder_layers * in_encoder + c.num_decoder_layers * in_decoder
    return workload.batch * (each + logits)


def without_values(config: T5Config, name: str, tasks: int, **options: object) -> T5:
    """Makes a model that can be counted, and takes no memory."""
    with Unallocated():
        method = conditioning.create(name, config, tasks, **options)
        return T5(config, conditioner=method)
