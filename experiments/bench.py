"""Measures hypertf beside its peers on this machine.

    python -m experiments.bench --suite=t5
    python -m experiments.bench --suite=methods --only=hyperprompt-global,hypergrid
    python -m experiments.bench --suite=input --data_dir=... --vocabulary=spiece.model
    python -m experiments.bench --suite=packing --data_dir=... --vocabulary=spiece.model
    python -m experiments.bench --suite=decode    # the SavedModel beside CTranslate2
    python -m experiments.bench --suite=serving   # the development server under load
    python -m experiments.bench --suite=mesh      # meshes of virtual CPU devices
    python -m experiments.bench --suite=tpu       # steps by the TPU compiler's count

Everything is timed in turns within one run, because machines are noisy: read the
ratios. Prints a table and writes a JSON file. Peers that are not installed are left
out and named (`pip install -e ".[bench]"` for Hugging Face on torch and CTranslate2).
"""

import json
import os
import pathlib
from collections.abc import Sequence

from absl import flags

from experiments.benchmarks import (
    decode_suite,
    input_suite,
    machine,
    mesh_suite,
    method_suite,
    packing_suite,
    serving_suite,
    t5_suite,
    tpu_suite,
)
from experiments.benchmarks.timing import Options
from experiments.runs import components, program

SUITES = {
    "t5": t5_suite.run,
    "input": input_suite.run,
    "methods": method_suite.run,
    "packing": packing_suite.run,
    "decode": decode_suite.run,
    "serving": serving_suite.run,
    "mesh": mesh_suite.run,
    "tpu": tpu_suite.run,
}
DEFAULTS = Options()
SIZES = {"mesh": "t5-nano"}  # where it is not the default


def bench(
    suite: str = "t5",
    *,
    rounds: int = DEFAULTS.rounds,
    size: str | None = None,
    only: Sequence[str] = (),
    data_dir: str | os.PathLike | None = None,
    vocabulary: str = DEFAULTS.vocabulary,
    output: str | os.PathLike | None = None,
) -> dict:
    """Measures a suite and prints its table; returns what it writes as JSON.

    ```python
    from experiments.bench import bench

    results = bench("methods", size="t5-nano", only=["hypergrid"], rounds=3)
    results["operations"]["training step"]["hypergrid"]["ratio"]
    ```

    Args:
        suite: "t5", "methods", "input", "packing", "decode", "serving", "mesh" or
            "tpu".
        rounds: turns that every case gets.
        size: of the model; t5-small by default, t5-nano for "mesh".
        only: operations, methods or meshes ("batch:2;model:2") to measure; all by
            default.
        data_dir: where TFDS has prepared its data, for "input" and "packing".
        vocabulary: SentencePiece file, preset, or "nano", for the same.
        output: JSON file; out/bench_<suite>.json by default.
    """
    if suite not in SUITES:
        raise ValueError(f"suite={suite!r}, expected one of {', '.join(SUITES)}")
    path = pathlib.Path(components.expand(output) or f"out/bench_{suite}.json")
    options = Options(
        size=size or SIZES.get(suite, DEFAULTS.size),
        rounds=rounds,
        only=tuple(only),
        data_dir=components.expand(data_dir),
        vocabulary=vocabulary,
        folder=str(path.parent),
    )
    print(f"measuring {suite} ({rounds} rounds); writing to {path}", flush=True)
    here = machine.describe()
    print(machine.in_words(here), flush=True)
    results = {"suite": suite, "machine": here, **SUITES[suite](options)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten to {path}")
    return results


def _define(values):
    options = {"flag_values": values}
    flags.DEFINE_enum("suite", "t5", list(SUITES), "What to measure.", **options)
    flags.DEFINE_integer(
        "rounds",
        DEFAULTS.rounds,
        "Turns that every case gets.",
        lower_bound=1,
        **options,
    )
    flags.DEFINE_string(
        "size", None, "Size of the model; t5-small or t5-nano by default.", **options
    )
    flags.DEFINE_list(
        "only", [], "Measure these operations only; all by default.", **options
    )
    flags.DEFINE_string(
        "data_dir", None, "Where TFDS has prepared its data.", **options
    )
    flags.DEFINE_string(
        "vocabulary", "nano", "SentencePiece file, preset, or nano.", **options
    )
    flags.DEFINE_string(
        "output", None, "JSON file; out/bench_<suite>.json by default.", **options
    )


def _call(values):
    names = ("rounds", "size", "only", "data_dir", "vocabulary", "output")
    bench(values.suite, **program.given(values, *names))


if __name__ == "__main__":
    program.run("experiments.bench", _define, _call)
