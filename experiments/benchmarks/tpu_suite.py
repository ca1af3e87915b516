"""The training step on a TPU by its compiler's own count: every method, and Flax T5.

No TPU is needed, and the figures do not vary from run to run. A step as deep as the
model takes minutes to compile, so methods are compiled with one and with two layers in
each stack, and every further layer is counted like the second. Some are compiled as
deep as they are too, which shows what that is worth: FLOPs are right, bytes accessed
are off by some percent, since of a small program more stays on the chip; temporary
memory does not grow evenly at all, and is given only of what was compiled.
"""

import dataclasses
import gc
import hashlib
import importlib.metadata
import json
import pathlib
from collections.abc import Sequence

import keras
import tensorflow as tf
from tqdm import tqdm

import hypertf
from experiments.benchmarks import flax_t5, timing
from experiments.reports.tables import aligned
from hypertf import T5Config, conditioning, tpu
from hypertf.training import TrainStep

TOPOLOGY = "v5e:2x2"  # one of its chips
TASKS = 8
PLAIN, FLAX = "plain", "flax"
DEPTHS = (1, 2)
WHOLE = (PLAIN, "hyperprompt-global", FLAX)  # also compiled as deep as they are
# The most bytes that a step may access, relative to the plain T5's.
LIMITS = {"hyperprompt-global": 1.05}
FIGURES = ("accessed", "temporary", "flops")
WORKED_OUT = ("accessed", "flops")
HEADINGS = ("GB accessed", "x", "GFLOP", "x")

Figures = dict[str, float]  # of `FIGURES`, and the seconds that compiling took


@dataclasses.dataclass(frozen=True)
class Shapes:
    """The batch of every step."""

    rows: int = 8
    inputs_length: int = 512
    targets_length: int = 32


SHAPES = Shapes()


def run(
    options: timing.Options,
    shapes: Shapes = SHAPES,
    depths: tuple[int, int] = DEPTHS,
    whole: Sequence[str] = WHOLE,
) -> dict:
    """Compiles, prints tables, returns what goes into the JSON file.

    Args:
        options: `only` names methods, or "flax"; the plain step is always there.
        shapes: of the batch.
        depths: layers in each stack, from which that of the model is worked out.
        whole: names of what is compiled as deep as it is, too.
    """
    config = T5Config.from_name(options.size)
    names = chosen(options.only)
    own = config.num_encoder_layers
    cases = [(name, d) for name in names for d in _depths(name, own, depths, whole)]
    kept = Kept(pathlib.Path(options.folder, "bench_tpu_begun.json"), config, shapes)
    steps, absent = {}, {}
    for name, depth in tqdm(cases, desc="compiling", disable=None):
        if name in absent:
            continue
        try:
            figures = kept.figures(name, depth, options.folder)
        except ImportError as error:
            absent[name] = str(error)
            steps.pop(name, None)
            continue
        steps.setdefault(name, {})[str(depth)] = figures
        tqdm.write(f"{name}, {depth} layers: {_said(figures)}")
    kept.path.unlink(missing_ok=True)
    results = {
        "size": options.size,
        "topology": TOPOLOGY,
        "precision": "mixed_bfloat16",
        "batch": dataclasses.asdict(shapes),
        "tasks": TASKS,
        "layers": own,
        "depths": list(depths),
        "absent": absent,
        "operations": {"training step": summary(steps, depths, own)},
    }
    report(results)
    return results


def chosen(only: Sequence[str]) -> list[str]:
    """Names what is compiled: first the plain step, then those that are checked."""
    methods = [name for name in conditioning.names() if name != "none"]
    names = [*dict.fromkeys((*WHOLE, *methods))]
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise ValueError(f"only={unknown}, expected some of {names}")
    return [name for name in names if name == PLAIN or not only or name in only]


def _depths(name, own, depths, whole):
    return dict.fromkeys((*depths, own) if name in whole else depths)


def _said(figures):
    return (
        f"{figures['accessed'] / 1e9:.3f} GB accessed, "
        f"{figures['temporary'] / 1e6:.1f} MB temporary, "
        f"{figures['flops'] / 1e9:.1f} GFLOP, in {figures['seconds']:.0f} s"
    )


class Kept:
    """Figures that are written down after each compilation: {name: {depth: ...}}.

    A run that was stopped goes on where it was, unless what is compiled has changed.
    """

    def __init__(self, path: pathlib.Path, config: T5Config, shapes: Shapes) -> None:
        self.path, self.config, self.shapes = path, config, shapes
        self.of = {"config": config.to_dict(), "batch": dataclasses.asdict(shapes)}
        self.of |= {"source": source_digest(), "compiler": compiler_version()}
        self.by_name: dict[str, dict[str, Figures]] = {}
        if path.exists():
            begun = json.loads(path.read_text())
            if begun["of"] == self.of:
                self.by_name = begun["figures"]

    def figures(self, name: str, depth: int, folder: str) -> Figures:
        """Compiles a step if that was not done yet."""
        found = self.by_name.setdefault(name, {})
        if str(depth) not in found:
            found[str(depth)] = compiled(name, depth, self.config, self.shapes, folder)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = {"of": self.of, "figures": self.by_name}
            self.path.write_text(json.dumps(content, indent=1) + "\n")
        return found[str(depth)]


def source_digest() -> str:
    """Tells one state of the library's source, and of the peer's, from another."""
    digest = hashlib.sha256(pathlib.Path(flax_t5.__file__).read_bytes())
    for path in sorted(pathlib.Path(hypertf.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def compiler_version() -> str:
    """Names the compiler."""
    try:
        return f"libtpu {importlib.metadata.version('libtpu')}"
    except importlib.metadata.PackageNotFoundError:
        return "absent"  # and so compiling will say


def compiled(
    name: str, depth: int, config: T5Config, shapes: Shapes, folder: str
) -> Figures:
    """Compiles the step of a method, or of "flax", with so many layers in each stack.

    Raises:
        ImportError: if the peer cannot be had.
    """
    layers = {"num_encoder_layers": depth, "num_decoder_layers": depth}
    config = dataclasses.replace(config, **layers)
    if name == FLAX:
        program = flax_program(config, shapes, pathlib.Path(folder, "flax_t5"))
    else:
        program = own_program(name, config, shapes)
    step = tpu.compile_hlo(program, TOPOLOGY)
    gc.collect()  # a model and its functions refer to each other
    figures = {figure: getattr(step, figure) for figure in FIGURES}
    return {**figures, "seconds": step.seconds}


def own_program(name: str, config: T5Config, shapes: Shapes) -> tpu.Program:
    """Lowers our training step."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        method = "none" if name == PLAIN else name
        conditioner = conditioning.create(method, config, TASKS)
        model = hypertf.T5(config, conditioner=conditioner)
        step = TrainStep(model, hypertf.Adafactor(), TASKS, jit_compile=True)
        target = tf.ones([shapes.rows, shapes.targets_length], tf.int32)
        batch = {
            "encoder_tokens": tf.ones([shapes.rows, shapes.inputs_length], tf.int32),
            "decoder_tokens": target,
            "targets": target,
            "task_ids": tf.zeros([shapes.rows], tf.int32),
        }
        return tpu.lower(step.compiled, batch, tf.constant(0, tf.int64))
    finally:
        keras.config.set_dtype_policy(policy)


def flax_program(
    config: T5Config, shapes: Shapes, environment: pathlib.Path
) -> tpu.Program:
    """Lowers the peer's training step, for the same compiler."""
    sizes = {**dataclasses.asdict(shapes), **config.to_dict()}
    return tpu.Program(flax_t5.traced(sizes, environment.absolute()), batch=())


def extrapolated(
    by_depth: dict[str, Figures], depths: tuple[int, int], layers: int
) -> Figures:
    """Works out the figures of so many layers from those of two depths.

    >>> by_depth = {"1": {"accessed": 3, "flops": 5}, "2": {"accessed": 4, "flops": 7}}
    >>> extrapolated(by_depth, (1, 2), 6)
    {'accessed': 8.0, 'flops': 15.0}
    """
    fewer, more = depths
    start, end = by_depth[str(fewer)], by_depth[str(more)]
    rounds = (layers - fewer) / (more - fewer)
    return {
        figure: start[figure] + rounds * (end[figure] - start[figure])
        for figure in WORKED_OUT
    }


def summary(
    by_name: dict[str, dict[str, Figures]], depths: tuple[int, int], layers: int
) -> dict[str, dict]:
    """Gives of each name its figures at the model's depth, and times the plain ones.

    `ratios` are of what was worked out, `whole` and `whole_ratios` of what was
    compiled as deep as the model, if both that and the plain step were.
    """
    plain = extrapolated(by_name[PLAIN], depths, layers)
    whole_plain = by_name[PLAIN].get(str(layers))
    rows = {}
    for name, by_depth in by_name.items():
        figures, whole = extrapolated(by_depth, depths, layers), None
        if whole_plain is not None:
            whole = by_depth.get(str(layers))
        rows[name] = {
            **figures,
            "ratios": _ratios(figures, plain),
            "limit": LIMITS.get(name),
            "by_depth": by_depth,
            "whole": whole,
            "whole_ratios": _ratios(whole, whole_plain) if whole else None,
        }
    return rows


def _ratios(figures, plain):
    return {name: figures[name] / plain[name] for name in plain if name in FIGURES}


def report(results: dict) -> None:
    """Prints the tables, and what is not in them."""
    fewer, more = results["depths"]
    rows, inputs, targets = results["batch"].values()
    print(
        f"\n{results['size']}, one chip of {TOPOLOGY}, {rows} x {inputs}/{targets} "
        f"tokens, mixed_bfloat16, Adafactor; {results['layers']} layers in each stack, "
        f"worked out from {fewer} and {more}; x is times plain\n"
    )
    steps = results["operations"]["training step"]
    table = []
    for name, row in steps.items():
        limit = None if row["whole"] else row["limit"]
        seconds = sum(row["by_depth"][str(d)]["seconds"] for d in (fewer, more))
        cells = _cells(row, row["ratios"])
        table.append((name, *cells, *_verdict(row["ratios"], limit), f"{seconds:.0f}"))
    headings = ("training step", *HEADINGS, "limit", "", "compiled in s")
    print(aligned(headings, table))
    report_whole(steps, results["layers"])
    for name, why in results["absent"].items():
        print(f"left out: {name} ({why})")


def report_whole(steps: dict[str, dict], layers: int) -> None:
    """Prints what was compiled as deep as the model, and how far off the rest was."""
    table = []
    for name, row in steps.items():
        whole, ratios = row["whole"], row["whole_ratios"]
        if whole is None:
            continue
        temporary = f"{whole['temporary'] / 1e6:.0f}", f"{ratios['temporary']:.3f}"
        cells = *_cells(whole, ratios), *temporary, *_verdict(ratios, row["limit"])
        off = f"{row['accessed'] / whole['accessed'] - 1:+.1%}"
        table.append((name, *cells, f"{whole['seconds']:.0f}", off))
    if table:
        headings = (f"compiled with {layers}", *HEADINGS, "MB temporary", "x")
        headings += ("limit", "", "compiled in s", "worked out: GB")
        print("\n" + aligned(headings, table))


def _cells(figures, ratios):
    return (
        f"{figures['accessed'] / 1e9:.2f}",
        f"{ratios['accessed']:.3f}",
        f"{figures['flops'] / 1e9:.1f}",
        f"{ratios['flops']:.3f}",
    )


def _verdict(ratios, limit):
    if limit is None:
        return "", ""
    return f"{limit:.2f}", "ok" if ratios["accessed"] <= limit else "MISSED"
