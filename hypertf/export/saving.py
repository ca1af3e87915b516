"""`save`: a model as a folder that TF Serving serves.

    export/
      models.config        for --model_config_file
      monitoring.config    for --monitoring_config_file: Prometheus metrics
      1/                   the SavedModel; a number for each version
        batching_params.pbtxt
        model_card.md      what it is, and how to call it
        assets.extra/
          model_card.json
          tf_serving_warmup_requests

A version is written under another name and renamed when it is whole and has answered.
"""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from hypertf.export import model_card, serving_files, warmup
from hypertf.export.bake import bake as bake_model
from hypertf.export.served import SIGNATURES, Form, Served, ServedTask, Vocabulary
from hypertf.export.stored_weights import FORMATS, compute_in
from hypertf.names import unknown
from hypertf.t5 import T5, named_weights
from hypertf.t5.decoding import Options

QUANTIZE = (None, "int8")
PRECISIONS = ("float32", "bfloat16")


def save(
    model: T5,
    vocabulary: Vocabulary | None,
    tasks: Sequence[ServedTask],
    path: str | os.PathLike,
    *,
    version: int | None = None,
    name: str | None = None,
    task_ids: Sequence[int] | None = None,
    task: str | None = None,
    inputs_length: int = 512,
    targets_length: int = 64,
    beam_size: int = 1,
    length_penalty: float = 0.6,
    bake: bool = True,
    quantize: str | None = None,
    precision: str = "float32",
    xla: bool = False,
    signatures: Sequence[str] = SIGNATURES,
    max_batch_size: int = 32,
    examples: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
    card: Mapping[str, Any] | None = None,
) -> str:
    """Writes a SavedModel that takes text and gives text; returns its folder.

    ```python
    import tfds_tasks

    config = hypertf.T5Config.from_name("t5-nano")
    tasks = [tfds_tasks.get_task(t) for t in ("nano/sentiment", "nano/coreference")]
    conditioner = hypertf.conditioning.create("lora", config, num_tasks=len(tasks))
    model = hypertf.T5(config, conditioner=conditioner)
    vocabulary = tfds_tasks.get_vocabulary("nano")
    folder = hypertf.export.save(
        model, vocabulary, tasks, "export", inputs_length=64, targets_length=8
    )
    served = hypertf.export.load(folder)
    served.answer(["the old dog sleeps."], task="nano/sentiment")
    ```

    Nothing is overwritten, and nothing is left behind if it fails.

    Args:
        model: a `hypertf.T5`, which stays as it is.
        vocabulary: such as `tfds_tasks.get_vocabulary` returns. None makes a model
            without text, for which `tokens` is the only signature.
        tasks: what has a `name` and `choices`, the labels if every answer is one of
            them, else None; in the order of the model's task ids.
        path: folder of the versions.
        version: its number; by default one more than the highest that is there.
        name: of the model in the files beside it, by default the folder's.
        task_ids: the ids of the tasks, where they are not 0, 1, ...
        task: the one task to export; the signatures have no input `task` then.
        inputs_length: tokens of a text at most; longer ones are trimmed.
        targets_length: tokens of an answer at most.
        beam_size: beams of beam search; 1 is greedy.
        length_penalty: of beam search.
        bake: whether what depends on the task alone becomes constants.
        quantize: "int8" stores weights in a quarter of the bytes.
        precision: "bfloat16" stores and computes in half the bits.
        xla: compiles with XLA, for servers that are started so, TPUs and GPUs.
        signatures: which of `hypertf.export.SIGNATURES` it has.
        max_batch_size: requests that a server puts together at most.
        examples: `{task: [{"text": ..., "target": ...}]}` for the card and warm-up.
        card: more about the model, for its card.
    """
    form = Form(
        inputs_length=inputs_length,
        decoding=Options(
            max_length=targets_length,
            beam_size=beam_size,
            length_penalty=float(length_penalty),
            return_scores=True,
        ),
        one_task=task is not None,
        xla=xla,
        weights=_weights(quantize, precision),
        signatures=_known_signatures(signatures, vocabulary),
    )
    pairs = _pairs(model, tasks, task_ids, task)
    path = os.fspath(path)
    name = name or os.path.basename(os.path.normpath(path))
    examples = dict(examples or {})
    with _new_version(path, version) as (folder, number):
        copy = _copy(model, [task_id for _, task_id in pairs], bake, form.weights)
        served = Served(copy, vocabulary, pairs, form)
        if not served.functions:
            raise ValueError(
                f"signatures={list(form.signatures)}: none of the tasks has labels; "
                f"expected others of {', '.join(SIGNATURES)} too"
            )
        tf.saved_model.save(
            served,
            folder,
            signatures=served.functions,
            options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
        )
        serving_files.write_version(folder, max_batch_size)
        requests = warmup.write(
            folder, name, served.functions, pairs, examples, max_batch_size
        )
        about = model_card.describe(name, number, model, pairs, form, examples, card)
        about |= {"signatures": list(served.functions), "warmup_requests": requests}
        model_card.write(folder, about)
        warmup.verify(folder)
    serving_files.write_models(path, name)
    return os.path.join(path, str(number))


def _weights(quantize, precision):
    if quantize not in QUANTIZE:
        raise ValueError(f"quantize={quantize!r}, expected None or 'int8'")
    if precision not in PRECISIONS:
        raise ValueError(f"precision={precision!r}, expected {' or '.join(PRECISIONS)}")
    if quantize and precision != "float32":
        raise ValueError(
            f"quantize={quantize!r} with precision={precision!r}, expected one of them"
        )
    weights = quantize or precision
    assert weights in FORMATS
    return weights


def _known_signatures(signatures, vocabulary):
    if isinstance(signatures, str):
        signatures = (signatures,)
    for name in signatures:
        if name not in SIGNATURES:
            raise ValueError(unknown("signature", name, SIGNATURES))
    if vocabulary is None:
        signatures = [name for name in signatures if name == "tokens"]
    if not signatures:
        raise ValueError(
            f"signatures={list(signatures)}, expected some of {', '.join(SIGNATURES)}, "
            "of which a model without a vocabulary has 'tokens'"
        )
    return tuple(signatures)


def _pairs(model, tasks, task_ids, only):
    """Tasks with their ids, checked; the one that is asked for."""
    tasks = list(tasks)
    ids = list(range(len(tasks)) if task_ids is None else task_ids)
    names = [task.name for task in tasks]
    if len(ids) != len(tasks) or not tasks or len(set(names)) < len(names):
        raise ValueError(
            f"tasks={names}, task_ids={ids}: expected different names, an id for each"
        )
    known = model.conditioner and model.conditioner.num_tasks
    for name, task_id in zip(names, ids, strict=True):
        if known is not None and not 0 <= task_id < known:
            raise ValueError(
                f"task {name!r}: id {task_id}, expected 0 <= id < num_tasks={known}"
            )
    if only is None:
        return list(zip(tasks, ids, strict=True))
    if only not in names:
        raise ValueError(unknown("task", only, names))
    index = names.index(only)
    return [(tasks[index], ids[index])]


def _copy(model: T5, task_ids: list[int], bake: bool, weights: str) -> T5:
    """A model of its own, baked if asked: the caller's stays as it is.

    Its type of computation is changed before it is baked: constants have it too.
    """
    bake = bake and model.conditioner is not None
    copy = model
    if not bake or weights == "bfloat16":
        copy = T5.from_config(model.get_config())
        mine = named_weights(copy)
        for name, weight in named_weights(model).items():
            mine[name].assign(weight)
    if weights == "bfloat16":
        compute_in(copy, "mixed_bfloat16")
    return bake_model(copy, tasks=sorted(set(task_ids))) if bake else copy


@contextlib.contextmanager
def _new_version(path: str, version: int | None) -> Iterator[tuple[str, int]]:
    """A folder to write a version to, and its number; it gets its name at the end."""
    gfile = tf.io.gfile
    existed = gfile.isdir(path)
    there = [name.rstrip("/") for name in (gfile.listdir(path) if existed else ())]
    there = [int(name) for name in there if name.isdigit()]
    if version is None:
        version = max(there, default=0) + 1
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ValueError(f"version={version!r}, expected an integer >= 1")
    final = os.path.join(path, str(version))
    if version in there:
        raise FileExistsError(
            f"{final} exists and is not overwritten; expected another version, such as "
            f"{max(there) + 1}"
        )
    temporary = os.path.join(path, f"half-written-{version}-{uuid.uuid4().hex}")
    try:
        gfile.makedirs(temporary)
        yield temporary, version
        gfile.rename(temporary, final)
    except BaseException:
        _remove(temporary)
        if not existed and gfile.isdir(path) and not gfile.listdir(path):
            _remove(path)
        raise


def _remove(path: str) -> None:
    if "://" not in path:
        shutil.rmtree(path, ignore_errors=True)
    elif tf.io.gfile.exists(path):
        tf.io.gfile.rmtree(path)
