"""The plain T5 beside KerasHub's and Hugging Face's, operation by operation."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

import hypertf
from experiments.benchmarks import machine, peers, timing
from experiments.benchmarks.peers import System, Workload
from experiments.reports.tables import aligned

SYSTEMS = {
    "hypertf": peers.Hypertf,
    "hypertf xla": peers.HypertfXLA,
    "kerashub": peers.KerasHub,
    "kerashub xla": peers.KerasHubXLA,
    "huggingface": peers.HuggingFace,
}


OPERATIONS = {
    "forward": lambda system: system.forward(),
    "gradient": lambda system: system.gradient(),
    "training step": lambda system: system.training_step(),
    "decode batch 1": lambda system: system.decode(1),
    "decode batch 8": lambda system: system.decode(8),
}


def run(options: timing.Options) -> dict:
    """Measures, prints the table, returns what goes into the JSON file."""
    size, rounds, only = options.size, options.rounds, options.only
    unknown = set(only) - set(OPERATIONS)
    if unknown:
        raise ValueError(f"only={sorted(unknown)}, expected some of {[*OPERATIONS]}")
    workload = Workload(hypertf.T5Config.from_name(size))
    systems, absent = start(workload)
    peak, way = machine.matmul_peak(rounds)
    announce(workload, size, peak, way)
    results = {}
    for operation, make in OPERATIONS.items():
        if only and operation not in only:
            continue
        cases = {name: make(system) for name, system in systems.items()}
        seconds = timing.in_turns(cases, rounds, operation)
        results[operation] = timing.summary(seconds, reference=our_best(seconds))
        flops = forward_flops(workload) * {"forward": 1}.get(operation, 3)
        if not operation.startswith("decode"):
            for row in results[operation].values():
                row["share_of_peak"] = flops / row["median_ms"] / 1e6 / peak
        report(operation, results[operation])
    for name, why in absent.items():
        print(f"left out: {name} ({why})")
    return {
        "size": size,
        "workload": {**dataclasses.asdict(workload), "config": size},
        "matmul_peak_gflops": peak,
        "matmul_peak_way": way,
        "absent": absent,
        "operations": results,
    }


def our_best(seconds: Mapping[str, Sequence[float]]) -> str:
    """Names the way of ours, with XLA or without, that takes the least time.

    >>> our_best({"hypertf": [2.0, 3.0], "hypertf xla": [1.0, 4.0], "kerashub": [1.0]})
    'hypertf'
    """
    ours = [name for name in seconds if name.split()[0] == "hypertf"]
    return min(ours, key=lambda name: statistics.median(seconds[name]))


def start(workload: Workload) -> tuple[dict[str, System], dict[str, str]]:
    """Makes the systems that can be had here, and says why the others cannot."""
    systems, absent = {}, {}
    for name, system in SYSTEMS.items():
        try:
            systems[name] = system(workload)
        except ImportError as error:
            absent[name] = str(error)
    return systems, absent


def forward_flops(workload: Workload) -> float:
    """Counts multiplications and additions of one forward pass, attention's too."""
    c = workload.config
    sources = workload.batch * workload.input_length
    targets = workload.batch * workload.target_length
    attention = 4 * c.d_model * c.d_heads
    ffn = (3 if c.gated else 2) * c.d_model * c.d_ff
    encoder = c.num_encoder_layers * sources * (attention + ffn)
    encoder += c.num_encoder_layers * 2 * c.d_heads * sources * workload.input_length
    decoder = c.num_decoder_layers * targets * (attention + attention / 2 + ffn)
    decoder += c.num_decoder_layers * sources * attention / 2  # keys and values
    lengths = workload.input_length + workload.target_length
    decoder += c.num_decoder_layers * 2 * c.d_heads * targets * lengths
    return 2 * (encoder + decoder + targets * c.d_model * c.vocab_size)


def announce(workload: Workload, size: str, peak: float, way: str) -> None:
    """Prints what is measured."""
    print(
        f"\n{size}, batch {workload.batch}, {workload.input_length}/"
        f"{workload.target_length} tokens, decoding {workload.decode_length}; "
        f"matmul peak {peak:.0f} GFLOP/s ({way})"
    )


def report(operation: str, systems: dict[str, dict]) -> None:
    """Prints the table of an operation as soon as it is measured."""
    rows = [
        (
            name,
            f"{row['median_ms']:.1f}",
            f"{row['min_ms']:.1f}",
            timing.times(row["ratio"], row["error"]),
            f"{row['share_of_peak']:.0%}" if "share_of_peak" in row else "",
        )
        for name, row in systems.items()
    ]
    headings = (operation, "median ms", "min ms", "x hypertf", "of peak")
    print(f"\n{aligned(headings, rows)}", flush=True)
