"""Exports a run as a SavedModel that TF Serving serves: text in, text out.

    python -m experiments.export --model_dir=/tmp/nano --export_dir=/tmp/export
    python -m experiments.export --model_dir=... --export_dir=... --task=glue/cola
    python -m experiments.export --model_dir=... --export_dir=... --quantize=int8

Every export is a new version, EXPORT/1, EXPORT/2, ...; nothing is overwritten, and a
failed one leaves nothing. With --quantize or --precision it also prints what that does
to scores, size and speed. `python -m experiments.serve` serves the folder.
"""

import os
import time
from collections.abc import Sequence

from absl import app, flags

import hypertf
from experiments.runs import components, config_file, program, transfer
from experiments.runs.checkpoint_choice import chosen_step
from experiments.runs.config import Config
from experiments.runs.eval_results import SELECTION, Results
from experiments.runs.export_comparison import Comparison
from hypertf.export.saving import PRECISIONS, QUANTIZE
from hypertf.training import RunFolder
from tfds_tasks import Mixture

EXAMPLES = 3  # of each task, for the card and the page


def export(
    model_dir: str | os.PathLike,
    export_dir: str | os.PathLike,
    *,
    checkpoint: str | int = "best",
    name: str | None = None,
    version: int | None = None,
    task: str | None = None,
    beam_size: int | None = None,
    bake: bool = True,
    quantize: str | None = None,
    precision: str = "float32",
    xla: bool = False,
    signatures: Sequence[str] = hypertf.export.SIGNATURES,
    max_batch_size: int = 32,
    compare: int = 100,
    data_dir: str | os.PathLike | None = None,
) -> str:
    """Exports a checkpoint of a run; returns the folder of the new version.

    ```python
    from experiments.export import export
    import hypertf

    folder = export("/tmp/nano", "/tmp/export")
    hypertf.export.load(folder).answer(["the old dog sleeps."], task="nano/sentiment")
    ```

    Args:
        model_dir: folder of the run.
        export_dir: folder of the versions, local or gs://...
        checkpoint: "best" on the validation sets (the newest where none is scored),
            "latest", or a step.
        name: of the model in a server, by default the export folder's.
        version: its number, by default the next.
        task: the one task to export, all of the mixture by default.
        beam_size: beams; by default as the run was configured, 1 is greedy.
        bake: make what depends on the task alone constants.
        quantize: "int8" stores weights in a quarter of the bytes.
        precision: "bfloat16" stores and computes in half the bits.
        xla: for servers that compile with XLA, TPUs and GPUs.
        signatures: some of `hypertf.export.SIGNATURES`.
        max_batch_size: requests that a server puts together at most.
        compare: validation examples of each task on which what is stored in fewer
            bits is compared with float32; 0 does not compare.
        data_dir: folder of the TFDS data, for examples and comparison.
    """
    began = time.time()
    model_dir, export_dir = components.expand(model_dir), components.expand(export_dir)
    config = config_file.read(model_dir)
    mixture = components.make_mixture(config)
    step, why = chosen_step(model_dir, checkpoint)
    print(f"exporting {model_dir}, step {step} ({why}) to {export_dir}", flush=True)
    vocabulary = components.make_vocabulary(config)
    model = components.make_model(config, mixture)
    hypertf.checkpoints.load(model, RunFolder(model_dir, writes=False).prefix(step))
    transfer.fill_untrained(model, mixture)
    served = mixture.tasks if task is None else mixture.only([task]).tasks
    rows = max(EXAMPLES, compare if quantize or precision != "float32" else 0)
    examples = first_examples(mixture, served, rows, components.expand(data_dir))
    if beam_size is None:
        beam_size = config.beam_size if config.decoding == "beam" else 1

    def save(path, **changed):
        options = {"quantize": quantize, "precision": precision, "version": version}
        return hypertf.export.save(
            model,
            vocabulary,
            mixture.tasks,
            path,
            name=name or os.path.basename(os.path.normpath(export_dir)),
            task_ids=[mixture.task_id(task) for task in mixture.tasks],
            task=task,
            inputs_length=config.inputs_length,
            targets_length=config.targets_length,
            beam_size=beam_size,
            bake=bake,
            xla=xla,
            signatures=signatures,
            max_batch_size=max_batch_size,
            examples=for_card(examples),
            card=about(config, model_dir, step),
            **{**options, **changed},
        )

    folder = save(export_dir)
    print(f"written to {folder}, {time.time() - began:.0f} s", flush=True)
    if quantize or precision != "float32":
        comparison = Comparison(served, examples, compare)
        print(comparison.text(folder, quantize or precision, save))
    print(
        f"serve it: python -m experiments.serve --export_dir={export_dir}", flush=True
    )
    return folder


def first_examples(
    mixture: Mixture, tasks: Sequence, rows: int, data_dir: str | None
) -> dict[str, list[dict]]:
    """The first validation examples of each task, none where the data is not here."""
    examples = {}
    for task in tasks:
        if SELECTION not in task.parts or task.chunks is not None:
            continue
        try:
            data = task.examples(SELECTION, data_dir).take(rows)
            examples[task.name] = [_texts(e) for e in data.as_numpy_iterator()]
        except (OSError, ValueError, AssertionError) as error:
            reason = str(error).strip().splitlines()[0]
            print(f"no examples of {task.name}: {reason}", flush=True)
    return examples


def _texts(example):
    """Values as `Task.score` takes them."""
    return {
        key: value.decode() if isinstance(value, bytes) else value
        for key, value in example.items()
    }


def for_card(examples: dict[str, list[dict]]) -> dict[str, list[dict[str, str]]]:
    """A few examples of each task, as the card shows them."""
    return {
        task: [{"text": e["inputs"], "target": e["targets"]} for e in rows[:EXAMPLES]]
        for task, rows in examples.items()
    }


def about(config: Config, model_dir: str, step: int) -> dict:
    """What the card says of where the model comes from."""
    scores = Results(model_dir, SELECTION).scores.get(step, {})
    return {
        "source": f"{model_dir}, step {step}",
        "model": config.model,
        "weights_from": config.init or "random weights",
        "trained_on": config.mixture,
        "scores": scores,
        "scores_of": SELECTION,
    }


def _define(values):
    options = {"flag_values": values}
    flags.DEFINE_string("model_dir", None, "Folder of the run.", **options)
    flags.DEFINE_string("export_dir", None, "Folder of the versions.", **options)
    flags.DEFINE_string("checkpoint", "best", "best, latest or a step.", **options)
    flags.DEFINE_string("name", None, "Of the model in a server.", **options)
    flags.DEFINE_integer("version", None, "Number; the next by default.", **options)
    flags.DEFINE_string("task", None, "The one task to export; all.", **options)
    flags.DEFINE_integer(
        "beam_size", None, "Beams; as the run was configured.", lower_bound=1, **options
    )
    flags.DEFINE_boolean("bake", True, "Constants per task.", **options)
    flags.DEFINE_enum(
        "quantize",
        None,
        [q for q in QUANTIZE if q],
        "Weights as int8.",
        **options,
    )
    flags.DEFINE_enum(
        "precision", "float32", PRECISIONS, "Of weights and products.", **options
    )
    flags.DEFINE_boolean("xla", False, "For servers that compile with XLA.", **options)
    flags.DEFINE_list(
        "signatures", list(hypertf.export.SIGNATURES), "Which it has.", **options
    )
    flags.DEFINE_integer(
        "max_batch_size", 32, "Requests put together.", lower_bound=1, **options
    )
    flags.DEFINE_integer(
        "compare",
        100,
        "Examples a task on which fewer bits are compared with float32.",
        lower_bound=0,
        **options,
    )
    flags.DEFINE_string("data_dir", None, "Folder of the TFDS data.", **options)


def _call(values):
    for name in ("model_dir", "export_dir"):
        if values[name].value is None:
            raise app.UsageError(f"--{name} is not set; expected a folder")
    names = ("checkpoint", "name", "version", "task", "beam_size", "bake", "quantize")
    more = ("precision", "xla", "signatures", "max_batch_size", "compare", "data_dir")
    export(values.model_dir, values.export_dir, **program.given(values, *names, *more))


if __name__ == "__main__":
    program.run("experiments.export", _define, _call)
