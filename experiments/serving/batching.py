"""TensorFlow's own batch scheduler around a signature, and TF Serving's file for it."""

import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Mapping

import tensorflow as tf

FILE = "batching_params.pbtxt"
_numbers = itertools.count()


@dataclasses.dataclass(frozen=True)
class Batching:
    """How requests are gathered; the fields are those of TF Serving's file.

    Args:
        max_batch_size: rows that are run at once.
        batch_timeout_micros: how long a batch waits for more rows.
        max_enqueued_batches: batches of a signature that may wait.
        num_batch_threads: batches that run at once.
        allowed_batch_sizes: a batch is padded to the next of these, rising and ending
            with `max_batch_size`; none: it is run as it is.
    """

    max_batch_size: int = 32
    batch_timeout_micros: int = 1000
    max_enqueued_batches: int = 64
    num_batch_threads: int = 2
    allowed_batch_sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self)[:4]:
            value = getattr(self, field.name)
            least = 0 if field.name == "batch_timeout_micros" else 1
            if value < least:
                raise ValueError(f"{field.name}={value}, expected at least {least}")
        sizes = self.allowed_batch_sizes
        rising = all(a < b for a, b in itertools.pairwise((0, *sizes)))
        if sizes and not (rising and sizes[-1] == self.max_batch_size):
            raise ValueError(
                f"allowed_batch_sizes={sizes}, expected rising sizes that end with "
                f"max_batch_size={self.max_batch_size}"
            )

    @property
    def most_rows(self) -> int:
        """Rows that fit into an empty queue: more cannot be asked at once."""
        return self.max_batch_size * self.max_enqueued_batches

    def changed(self, **changes: int | None) -> "Batching":
        """Returns a copy with those fields changed that are not None."""
        changes = {name: value for name, value in changes.items() if value is not None}
        most = changes.get("max_batch_size", self.max_batch_size)
        if self.allowed_batch_sizes and most != self.max_batch_size:
            smaller = [size for size in self.allowed_batch_sizes if size < most]
            changes["allowed_batch_sizes"] = (*smaller, most)
        return dataclasses.replace(self, **changes)


def read_batching(folder: str | os.PathLike) -> Batching:
    """Reads `batching_params.pbtxt` of a version's folder, if it has one."""
    path = os.path.join(folder, FILE)
    if not os.path.exists(path):
        return Batching(allowed_batch_sizes=(1, 2, 4, 8, 16, 32))
    with open(path, encoding="utf-8") as file:
        return parse_batching(file.read())


def parse_batching(text: str) -> Batching:
    """Reads TF Serving's text proto.

    >>> parse_batching("max_batch_size { value: 2 } allowed_batch_sizes: [1, 2]")
    Batching(max_batch_size=2, batch_timeout_micros=1000, max_enqueued_batches=64, \
num_batch_threads=2, allowed_batch_sizes=(1, 2))
    """
    text = re.sub(r"#.*", "", text)
    fields = {"allowed_batch_sizes": ()}
    known = {field.name for field in dataclasses.fields(Batching)}
    for name, wrapped, plain in _FIELD.findall(text):
        if name == "allowed_batch_sizes":
            fields[name] += tuple(map(int, re.findall(r"\d+", plain)))
        elif name in known:
            fields[name] = int(wrapped or plain)
    rest = _FIELD.sub("", text).replace(",", " ").replace(";", " ").strip()
    if rest:
        raise ValueError(f"{FILE}: cannot read {rest[:60]!r}")
    return Batching(**fields)


# `name { value: 1 }` or `name: 1` or `name: [1, 2]`
_FIELD = re.compile(
    r"(\w+)\s*:?\s*(?:\{\s*value\s*:\s*(\d+)\s*\}|:?\s*(\[[\d\s,]*\]|\d+|true|false))"
)


def can_be_batched(inputs: Mapping, outputs: Mapping) -> bool:
    """Whether rows of different requests fit together, whatever they are.

    Inputs must be one value for each row: rows of tokens differ in their lengths, and
    the scheduler joins only what is alike.
    """
    by_row = [spec.shape.rank == 1 for spec in inputs.values()]
    outward = [spec.shape.rank and spec.shape[0] is None for spec in outputs.values()]
    return bool(by_row) and all(by_row) and all(outward)


def batched(
    function: Callable, inputs: Mapping, outputs: Mapping, batching: Batching
) -> Callable:
    """Wraps a signature: calls at the same time run as one batch.

    Args:
        function: takes tensors by name, and returns them by name.
        inputs: the `tf.TensorSpec` of each argument.
        outputs: the names of what it returns.
        batching: sizes and times.

    Returns:
        A function of tensors by name that returns outputs by name, and the number of
        rows, with padding, of the batch that the first row ran in.
    """
    specs = [tf.TensorSpec(spec.shape, spec.dtype) for spec in inputs.values()]

    @tf.function(input_signature=specs, autograph=False)
    def run_batch(*arguments):
        results = function(**dict(zip(inputs, arguments, strict=True)))
        rows = tf.shape(arguments[0])[0]
        return [*(results[name] for name in outputs), tf.fill([rows], rows)]

    run_batch = run_batch.get_concrete_function()
    queue = f"signature_{next(_numbers)}"

    @tf.function(input_signature=specs, autograph=False)
    def run_in_queue(*arguments):
        return _scheduled(run_batch, arguments, batching, queue)

    compiled = run_in_queue.get_concrete_function()

    def call(**arguments):
        results = compiled(*(arguments[name] for name in inputs))
        *results, sizes = results
        return dict(zip(outputs, results, strict=True)), int(sizes.numpy()[0])

    return call


def _scheduled(function, arguments, batching, queue):
    """The op of `tf.nondifferentiable_batch_function`, with a queue of a given name.

    That decorator starts threads for each function, which look for work every
    millisecond and never end. With names, all queues of the same settings share a
    scheduler, as all models do in TF Serving.
    """
    sizes = batching.allowed_batch_sizes or range(1, batching.max_batch_size + 1)
    return tf.raw_ops.BatchFunction(
        in_tensors=list(arguments),
        captured_tensors=function.captured_inputs,
        f=function,
        Tout=[output.dtype for output in function.outputs],
        num_batch_threads=batching.num_batch_threads,
        # A request larger than a batch is split: what is run at once is the last of
        # the allowed sizes, this limits what one request may ask for.
        max_batch_size=batching.most_rows,
        enable_large_batch_splitting=True,
        allowed_batch_sizes=list(sizes),
        batch_timeout_micros=batching.batch_timeout_micros,
        max_enqueued_batches=batching.max_enqueued_batches,
        shared_name=f"experiments.serving {batching}",
        batching_queue=queue,
    )
