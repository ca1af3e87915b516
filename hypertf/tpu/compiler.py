"""Google's TPU compiler (extra `tpu-compiler`: jax and libtpu), without a TPU."""

import contextlib
import dataclasses
import os
import re
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from hypertf.tpu.chips import Chip, parse_topology
from hypertf.tpu.lowering import Program

# libtpu would ask the cloud what machine this is.
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "JAX_PLATFORMS": "cpu",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # no TPU is held that two could fight over
}
WHOLE = "{replicated}"
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f64": 8, "s64": 8, "u64": 8}


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What the compiler says of a program, per chip.

    Attributes:
        chip: for which it was compiled.
        chips: how many share the batch.
        seconds: that compiling took.
        flops: multiplications and additions.
        accessed: bytes read and written.
        arguments: bytes of weights, slots and batch.
        temporary: bytes besides, at their most.
        collectives: {op: (how many, bytes)}.
        hlo_bytes: size of the program that was handed in.
        text: the compiled program.
    """

    chip: Chip
    chips: int
    seconds: float
    flops: float
    accessed: float
    arguments: int
    temporary: int
    collectives: dict[str, tuple[int, int]]
    hlo_bytes: int
    text: str = dataclasses.field(repr=False, default="")

    @property
    def memory(self) -> int:
        """Bytes that it needs of the chip's memory."""
        return self.arguments + self.temporary

    @property
    def fits(self) -> bool:
        """Whether that is there."""
        return self.memory <= self.chip.memory

    @property
    def roofline(self) -> float:
        """The least seconds that it takes on the chip."""
        return self.chip.roofline(self.flops, self.accessed)


def compile_hlo(
    program: Program,
    topology: str,
    chips: int = 1,
    shardings: Sequence[str] | None = None,
) -> Compiled:
    """Compiles a program for one chip of a topology, or for some of them together.

    Args:
        program: as `lower` gives it, of the batch of all chips.
        topology: such as "v5e:4x4".
        chips: how many share the work.
        shardings: how each argument is split over the chips, in the compiler's words;
            see `hypertf.mesh.partitioned`. By default the rows of the batch are, and
            the weights are on each chip.
    """
    chip, most = parse_topology(topology)
    if not 1 <= chips <= most:
        raise ValueError(f"chips={chips}, expected 1 to {most}, as {topology} has")
    with _without_xla_flags():
        compiled, seconds = _compiled(program, topology, chips, shardings)
    cost = compiled.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    memory = compiled.get_compiled_memory_stats()
    text = compiled.hlo_modules()[0].to_string()
    return Compiled(
        chip=chip,
        chips=chips,
        seconds=seconds,
        flops=cost["flops"],
        accessed=cost["bytes accessed"],
        arguments=memory.argument_size_in_bytes,
        temporary=memory.temp_size_in_bytes,
        collectives=count_collectives(text),
        hlo_bytes=len(program.hlo),
        text=text,
    )


def _compiled(program, topology, chips, shardings) -> tuple[Any, float]:
    jax = _jax()
    devices = _devices(jax, topology)[:chips]
    module = _module(jax, program, chips, shardings)
    began = time.time()
    try:
        compiled = devices[0].client.compile(
            module, jax.xla.DeviceList(tuple(devices)), _options(jax, chips)
        )
    except jax.error as error:
        raise RuntimeError(explained(str(error), str(module))) from None
    return compiled, time.time() - began


@contextlib.contextmanager
def _without_xla_flags() -> Iterator[None]:
    """Hides flags for TensorFlow's XLA: one that jax does not know ends the process."""
    flags = os.environ.pop("XLA_FLAGS", None)
    try:
        yield
    finally:
        if flags is not None:
            os.environ["XLA_FLAGS"] = flags


def _jax() -> SimpleNamespace:
    """The parts of jax that are used, none of which promises to stay."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import jax
        import libtpu  # noqa: F401
        from jax._src.interpreters import mlir
        from jax._src.lib import xla_client
        from jax.experimental import topologies
        from jaxlib import _jax
        from jaxlib.mlir import ir
    except ImportError as error:
        raise RuntimeError(
            f"the TPU compiler is absent ({error}); install it: "
            'pip install "hypertf[tpu-compiler]"'
        ) from None
    return SimpleNamespace(
        error=jax.errors.JaxRuntimeError,
        ir=ir,
        context=mlir.make_ir_context,
        topologies=topologies,
        xla=xla_client,
        to_stablehlo=_jax.mlir.hlo_to_stablehlo,
    )


def _devices(jax: SimpleNamespace, topology: str) -> list:
    try:
        return list(jax.topologies.get_topology_desc(topology, platform="tpu").devices)
    except jax.error as error:
        raise ValueError(
            f"topology={topology!r}: the TPU compiler refuses it: "
            f"{str(error).splitlines()[0]}"
        ) from None


def _module(jax, program, chips, shardings) -> Any:
    """The program in the form that jax compiles."""
    context = jax.context()
    context.allow_unregistered_dialects = True
    with context, jax.ir.Location.unknown(context):
        data = jax.to_stablehlo(program.hlo)
        module = jax.ir.Module.parse(data)
        for operation in list(_walk(module.operation)):
            if operation.name == "mhlo.copy":  # the compiler makes its own
                operation.results[0].replace_all_uses_with(operation.operands[0])
                operation.erase()
        if chips > 1:
            _split(jax, module, program.batch, chips, shardings)
    return module


def _walk(operation: Any) -> Iterator:
    for region in operation.regions:
        for block in region:
            for inner in block.operations:
                yield inner.operation
                yield from _walk(inner.operation)


def _split(jax, module, batch, chips, shardings) -> None:
    """Splits the arguments, by default the rows of the batch and nothing else.

    What a result overwrites has the same sharding as the result.
    """
    (main,) = (f for f in module.body if "main" in str(f.attributes["sym_name"]))

    def sharding(text):
        return jax.ir.DictAttr.get({"mhlo.sharding": jax.ir.StringAttr.get(text)})

    ranks = [jax.ir.RankedTensorType(kind).rank for kind in main.type.inputs]
    if shardings is None:
        shardings = [
            f"{{devices=[{chips}]<=[{chips}]}}" if number in batch else WHOLE
            for number in range(len(ranks))
        ]
    arguments = [
        full_rank(text, rank) for text, rank in zip(shardings, ranks, strict=True)
    ]
    results = [WHOLE] * len(main.type.results)
    for number, result in _overwritten(module):
        results[result] = arguments[number]
    for name, texts in (("arg_attrs", arguments), ("res_attrs", results)):
        main.attributes[name] = jax.ir.ArrayAttr.get([*map(sharding, texts)])


def _overwritten(module) -> Iterator[tuple[int, int]]:
    """The arguments that a result overwrites, and that result."""
    name = "mhlo.input_output_alias"
    attributes = module.operation.attributes
    for alias in attributes.get(name, ()):
        numbers = re.search(r"parameter_number = (\d+).*array<i64: (\d+)>", str(alias))
        if numbers:
            yield int(numbers[1]), int(numbers[2])


def full_rank(sharding: str, rank: int) -> str:
    """A sharding for as many dimensions as a tensor has; the last ones are whole.

    >>> full_rank("{devices=[4]<=[4]}", rank=2)
    '{devices=[4,1]<=[4]}'
    >>> full_rank("{devices=[2,2]<=[4] last_tile_dim_replicate}", rank=2)
    '{devices=[2,1,2]<=[4] last_tile_dim_replicate}'
    """
    found = re.match(r"\{devices=\[([\d,]+)\](.*)", sharding)
    if not found:
        return sharding
    if not rank:
        return WHOLE
    tiles = found[1].split(",")
    at = len(tiles) - found[2].count("last_tile_dim_replicate")
    tiles[at:at] = ["1"] * (rank - at)
    return f"{{devices=[{','.join(tiles)}]{found[2]}"


def _options(jax: SimpleNamespace, chips: int) -> Any:
    options = jax.xla.CompileOptions()
    options.num_replicas, options.num_partitions = 1, chips
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 1, chips
    build.use_spmd_partitioning = chips > 1
    return options


def count_collectives(text: str) -> dict[str, tuple[int, int]]:
    """Counts what chips send one another in a compiled program: {op: (count, bytes)}.

    One that goes on beside other work is written down with each part of that; all have
    its channel.

    >>> count_collectives("%a = f32[4,8]{1,0} all-reduce(%b), channel_id=1")
    {'all-reduce': (1, 128)}
    """
    counts, seen = {}, set()
    pattern = rf"= (.+?) ({'|'.join(COLLECTIVES)})(?:-start)?\((.*)"
    for shapes, name, rest in re.findall(pattern, text):
        channel = re.search(r"channel_id=(\d+)", rest)
        if channel is not None and channel[1] in seen:
            continue
        seen.add(channel and channel[1])
        count, size = counts.get(name, (0, 0))
        counts[name] = count + 1, size + _size(shapes)
    return counts


def _size(shapes: str) -> int:
    total = 0
    for kind, dimensions in re.findall(r"(\w+)\[([\d,]*)\]", shapes):
        size = BYTES.get(kind, 4)
        for dimension in filter(None, dimensions.split(",")):
            size *= int(dimension)
        total += size
    return total


def explained(error: str, program: str) -> str:
    """Says of an error of the compiler which op and which layer it comes from."""
    lines = error.strip().splitlines()
    named = re.search(r'op_name="([^"]+)"', error)
    if named is None:
        instruction = re.search(r"%([\w.-]+)", error)
        if instruction:
            pattern = rf'{re.escape(instruction[1])}\b.*?loc\("([^"]+)"'
            named = re.search(pattern, program)
    where = f" in {named[1]}" if named else ""
    return f"the TPU compiler refuses the program{where}: {' '.join(lines[:4])}"
