"""Decoding: `generate`, the SavedModel and the engines that others would serve with."""

import dataclasses
import tempfile

import hypertf
from experiments.benchmarks import peers, timing
from experiments.benchmarks.peers import Workload
from experiments.benchmarks.served_systems import CTranslate2, SavedModel
from experiments.reports.tables import aligned

REFERENCE = "ctranslate2 float32"
OURS = "savedmodel"
# name of the operation: rows, tokens written (None: the workload's)
OPERATIONS = {
    "batch 1": (1, None),
    "batch 8": (8, None),
    "short answers at batch 32": (32, 3),  # a label of two pieces, and its end
}
# At most so many times as long as the reference, in `LIMITED`.
LIMITS = {OURS: 1.0, f"{OURS} xla": 1 / 1.4}
LIMITED = ("batch 1", "batch 8")


def run(options: timing.Options) -> dict:
    """Measures, prints the table, returns what goes into the JSON file."""
    unknown = set(options.only) - set(OPERATIONS)
    if unknown:
        raise ValueError(f"only={sorted(unknown)}, expected some of {[*OPERATIONS]}")
    workload = Workload(hypertf.T5Config.from_name(options.size))
    with tempfile.TemporaryDirectory() as folder:
        systems, absent = start(workload, folder)
        results = {}
        for operation, (rows, length) in OPERATIONS.items():
            if options.only and operation not in options.only:
                continue
            cases = {name: s.decode(rows, length) for name, s in systems.items()}
            seconds = timing.in_turns(cases, options.rounds, operation)
            reference = REFERENCE if REFERENCE in systems else "generate"
            results[operation] = timing.summary(seconds, reference)
            for name, row in results[operation].items():
                row["rows_per_second"] = 1e3 * rows / row["median_ms"]
                counts = REFERENCE in systems and operation in LIMITED
                row["limit"] = LIMITS.get(name) if counts else None
    report(results, workload, options.size, absent)
    return {
        "size": options.size,
        "workload": {**dataclasses.asdict(workload), "config": options.size},
        "absent": absent,
        "operations": results,
    }


def start(workload: Workload, folder: str) -> tuple[dict, dict[str, str]]:
    """Makes the systems that can be had here, and says why the others cannot."""
    ours = peers.Hypertf(workload)
    systems, absent = {"generate": ours}, {}
    makers = {
        OURS: lambda: SavedModel(ours, f"{folder}/plain"),
        f"{OURS} xla": lambda: SavedModel(ours, f"{folder}/xla", xla=True),
        f"{OURS} int8": lambda: SavedModel(ours, f"{folder}/int8", quantize="int8"),
        "kerashub xla": lambda: peers.KerasHubXLA(workload),
        "huggingface": lambda: peers.HuggingFace(workload),
        REFERENCE: lambda: CTranslate2(workload, folder, "float32"),
        "ctranslate2 int8": lambda: CTranslate2(workload, folder, "int8"),
    }
    for name, make in makers.items():
        try:
            systems[name] = make()
        except ImportError as error:
            absent[name] = str(error)
    return systems, absent


def report(
    results: dict[str, dict], workload: Workload, size: str, absent: dict[str, str]
) -> None:
    """Prints the table, and which systems are not in it."""
    print(
        f"\n{size}, {workload.input_length} tokens in, {workload.decode_length} out; "
        f"x is times {REFERENCE}'s, or generate's where that is absent\n"
    )
    rows = []
    for operation, systems in results.items():
        for name, row in systems.items():
            limit = row["limit"]
            verdict = "" if limit is None else f"{limit:.2f} {_verdict(row)}"
            rows.append(
                (
                    operation,
                    name,
                    f"{row['median_ms']:.1f}",
                    f"{row['rows_per_second']:.1f}",
                    timing.times(row["ratio"], row["error"]),
                    verdict,
                )
            )
            operation = ""
    headings = ("operation", "system", "median ms", "rows/s", "x", "limit")
    print(aligned(headings, rows))
    for name, why in absent.items():
        print(f"left out: {name} ({why})")


def _verdict(row):
    return "ok" if row["ratio"] <= row["limit"] else "OVER"
