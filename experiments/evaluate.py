"""Scores the checkpoints of a run, task by task.

    python -m experiments.evaluate --model_dir=/tmp/nano
    python -m experiments.evaluate --model_dir=... --checkpoints=all --decoding=rank
    python -m experiments.evaluate --model_dir=... --checkpoints=follow
    python -m experiments.evaluate --model_dir=... --mesh_shape=batch:2,model:2
    python -m experiments.evaluate --model_dir=... --split=test --submission=OUT

Prints a table, the best single checkpoint and the best of each task; writes
eval/<split>.json, TensorBoard scalars under eval/ and predictions beside them. With
--submission it also writes the files for the servers of GLUE and SuperGLUE, zips a
benchmark that is complete and names what is missing in one that is not.
"""

import os
import time
from collections.abc import Iterator, Sequence

from absl import app, flags

from experiments.runs import (
    components,
    config_file,
    linear_head,
    on_mesh,
    program,
    server_files,
    transfer,
)
from experiments.runs import flags as run_flags
from experiments.runs.config import DECODING
from experiments.runs.eval_results import Results
from experiments.runs.prediction import Scorer
from hypertf import training

Checkpoints = str | int | Sequence[int]


def evaluate(
    model_dir: str | os.PathLike,
    *,
    checkpoints: Checkpoints = "latest",
    split: str = "validation",
    tasks: Sequence[str] = (),
    decoding: str | None = None,
    beam_size: int | None = None,
    batch_size: int = 64,
    submission: str | os.PathLike | None = None,
    data_dir: str | os.PathLike | None = None,
    strategy: str = "auto",
    tpu: str | None = None,
    poll: float = 30,
    mesh_shape: str | None = None,
    layout: str | None = None,
    cores_per_replica: int | None = None,
) -> Results:
    """Scores checkpoints of a run and prints the table; returns all its scores.

    ```python
    from experiments.evaluate import evaluate

    results = evaluate("/tmp/nano", checkpoints="all", decoding="rank")
    print(results.best_step(), results.scores[results.best_step()])
    ```

    Args:
        model_dir: folder of the run.
        checkpoints: "latest", "all", "follow" (until the last step), or steps.
        split: of the tasks.
        tasks: names of those to score; all of the mixture by default.
        decoding: "greedy", "beam" or "rank"; by default as the run was configured.
        beam_size: beams of beam search; by default as configured.
        batch_size: examples at a time.
        submission: folder for files for the benchmarks' servers.
        data_dir: folder of the TFDS data, by default TFDS's own.
        strategy: devices to run on, one of `hypertf.training.STRATEGIES`.
        tpu: name of the TPU; "local" on a TPU VM.
        poll: with "follow", seconds between two looks.
        mesh_shape: a mesh to split the model over, such as "model:4". The run may have
            been trained on another one, or without.
        layout: what is split over it, as in `experiments.train.train`.
        cores_per_replica: over how many devices of a TPU the model is split.
    """
    model_dir = components.expand(model_dir)
    config = config_file.read(model_dir)
    changes = {"decoding": decoding, "beam_size": beam_size}
    config = config.replace(**{k: v for k, v in changes.items() if v is not None})
    if submission is not None:
        server_files.check(config, split, tasks)
    asked = on_mesh.asked(mesh_shape, layout, cores_per_replica, strategy, tpu)
    if asked is not None:
        linear_head.check_no_mesh(config)
        asked.check_batch(batch_size)
        on_mesh.check_checkpoints(checkpoints)
    chief = asked is None or on_mesh.is_chief()
    results = Results(model_dir, split, writes=chief)
    steps = steps_asked(
        model_dir, checkpoints, config.steps, set(results.records), poll
    )
    devices = None
    if asked is None:
        devices = training.make_strategy(strategy, tpu)
        training.check_batch_size(devices, batch_size)
    options = {
        "split": split,
        "tasks": tasks,
        "batch_size": batch_size,
        "data_dir": components.expand(data_dir),
    }
    if config.head == "linear":
        scorer = linear_head.HeadsScorer(config, devices, **options)
    else:
        scorer = Scorer(config, devices, **options, asked=asked)
    if asked is not None:
        steps = on_mesh.agreed(steps, scorer.mesh)
    if chief:
        announce(scorer, model_dir)
    predictions = _score(scorer, model_dir, steps, results, print if chief else _silent)
    if asked is not None:
        on_mesh.meet(scorer.mesh)  # whoever goes on finds what one of them has written
    if not chief:
        return results
    if submission is not None:
        if predictions is None:
            raise ValueError("submission: every checkpoint is scored; name a step")
        folder = components.expand(submission)
        print("\n".join(server_files.write_files(folder, scorer, predictions)))
    print(results.text())
    return results


def announce(scorer: Scorer, model_dir: str) -> None:
    """Says what is scored, and what is not."""
    count = sum(len(examples) for examples in scorer.examples.values())
    print(
        f"scoring {model_dir} on {scorer.split}: {len(scorer.examples)} tasks, "
        f"{count:,} examples, {scorer.how}",
        flush=True,
    )
    if scorer.untrained:
        names = [scorer.mixture.identities[i] for i in scorer.untrained]
        print(transfer.untrained_in_words(names), flush=True)
    reasons = {}
    for task, reason in scorer.unscored.items():
        reasons.setdefault(reason, []).append(task)
    for reason, tasks in reasons.items():
        print(f"no score, {reason}: {', '.join(tasks)}", flush=True)


def _silent(*words, **options):
    """Of several processes one tells."""


def _score(scorer, model_dir, steps, results, say):
    """Scores step after step; returns what the last of them wrote."""
    predictions = None
    for step in steps:
        began = time.time()
        scorer.load(model_dir, step)
        scores, predictions = scorer.score()
        results.write_predictions(step, predictions)
        results.add(step, scores, scorer.how, time.time() - began, predictions)
        say(f"step {step}, {time.time() - began:.0f} s", flush=True)
    return predictions


def steps_asked(
    model_dir: str,
    checkpoints: Checkpoints,
    last: int,
    done: set[int],
    poll: float = 30,
) -> Iterator[int]:
    """Lists the steps to score, in order; with "follow", as they are written.

    Args:
        last: the step at which following ends.
        done: the steps that following leaves out.
    """
    if checkpoints == "follow":
        return _follow(model_dir, poll, last, set(done))
    steps = training.checkpoint_steps(model_dir)
    if not steps:
        raise ValueError(f"{model_dir} has no checkpoint")
    if checkpoints == "latest":
        return iter(steps[-1:])
    if checkpoints == "all":
        return iter(steps)
    return iter(_named(checkpoints, steps))


def _named(checkpoints, steps):
    if isinstance(checkpoints, str):
        asked = checkpoints.split(",")
    else:
        asked = [checkpoints] if isinstance(checkpoints, int) else checkpoints
    asked = [str(step).strip() for step in asked]
    for step in asked or [""]:
        if not step.isdigit() or int(step) not in steps:
            raise ValueError(
                f"checkpoints={checkpoints!r}: {step!r}, expected latest, all, follow "
                f"or some of {', '.join(map(str, steps))}"
            )
    return sorted(map(int, asked))


def _follow(model_dir, poll, last, done):
    while True:
        new = [s for s in training.checkpoint_steps(model_dir) if s not in done]
        for step in new:
            done.add(step)
            yield step
        if last in done:
            return
        if not new:
            time.sleep(poll)


def _define(values):
    run_flags.define_devices(values)
    run_flags.define_mesh(values)
    options = {"flag_values": values}
    flags.DEFINE_string("model_dir", None, "Folder of the run.", **options)
    flags.DEFINE_string(
        "checkpoints",
        "latest",
        "latest, all, follow (until the last step), or steps.",
        **options,
    )
    flags.DEFINE_string("split", "validation", "Split of the tasks.", **options)
    flags.DEFINE_list(
        "tasks", [], "Tasks to score; all of the mixture by default.", **options
    )
    flags.DEFINE_enum(
        "decoding", None, DECODING, "By default as the run was configured.", **options
    )
    flags.DEFINE_integer(
        "beam_size", None, "Beams of beam search.", lower_bound=1, **options
    )
    flags.DEFINE_integer(
        "batch_size", 64, "Examples at a time.", lower_bound=1, **options
    )
    flags.DEFINE_string(
        "submission", None, "Folder for files for the benchmark servers.", **options
    )
    flags.DEFINE_integer(
        "poll", 30, "With follow, seconds between two looks.", **options
    )


def _call(values):
    if values.model_dir is None:
        raise app.UsageError("--model_dir is not set; expected the folder of a run")
    names = ("checkpoints", "split", "tasks", "decoding", "beam_size", "batch_size")
    more = ("submission", "data_dir", "strategy", "tpu", "poll")
    evaluate(values.model_dir, **program.given(values, *names, *more, *run_flags.MESH))


if __name__ == "__main__":
    program.run("experiments.evaluate", _define, _call)
