"""Checks of what a method makes T5 say: row by row, and token by token."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

from hypertf.t5 import target
from hypertf.t5.decoding import Options
from hypertf.t5.model import generate_ids
from hypertf.testing.case import (
    ROUNDING,
    TARGET_LENGTH,
    Case,
    chosen_of,
    eagerly,
    likelihood_of,
    log_likelihood,
    logits_before,
    relative_error,
    require,
    require_close,
    rows,
)


def check_single(case: Case) -> None:
    """One row equals its row of a batch.

    Fewer rows than tasks, and more: made per example, and once per task.
    """
    batch = case.batch()
    for i in range(len(case.tasks)):
        one = {name: value[i : i + 1] for name, value in batch.items()}
        got, expected = case.model(one), case.logits[i : i + 1]
        require_close(f"row {i} by itself, not in its batch", got, expected)


def check_mixed_tasks(case: Case) -> None:
    """A row depends on its own task, and not on its mates, their task or their text."""
    batch = case.batch(case.other_tasks)
    for name in ("encoder_tokens", "decoder_tokens"):
        tokens = batch[name]
        count, width = tokens.shape
        others = rows([3] * count, width, case.config.vocab_size, seed=9)
        batch[name] = np.where(np.arange(count)[:, None] % 2, others, tokens)
    got, expected = case.model(batch).numpy()[::2], case.logits[::2]
    require_close("rows with mates of another task and text", got, expected)
    if case.tasks_differ:
        others = case.model(case.batch(case.other_tasks)).numpy()
        difference = relative_error(others[1::2], case.logits[1::2])
        require(
            difference > ROUNDING,
            f"rows of another task: off by {difference:.2g} of their size, expected "
            f"more than {ROUNDING:g}; pass tasks_differ=False for a method that does "
            "not read the task",
        )


def check_padding(case: Case) -> None:
    """More padding changes nothing."""
    batch = case.batch()
    for name in ("encoder_tokens", "decoder_tokens"):
        batch[name] = np.pad(batch[name], ((0, 0), (0, 3)))
    got = case.model(batch)[:, :TARGET_LENGTH]
    require_close("rows with three more places of padding", got, case.logits)


def check_state(case: Case) -> None:
    """Nothing is kept on layers during a call: another call between changes nothing.

    After the sites of each stack are made, those of other tasks are.
    """
    conditioner = case.model.conditioner
    others = np.array(case.other_tasks, "int32")

    def disturbed(make: Callable) -> Callable:
        def both(task_ids: Any, *args: Any, **kwargs: Any) -> Any:
            sites = make(task_ids, *args, **kwargs)
            make(others, *args, **kwargs)
            return sites

        return both

    with (
        mock.patch.object(conditioner, "encoder", disturbed(conditioner.encoder)),
        mock.patch.object(conditioner, "decoder", disturbed(conditioner.decoder)),
    ):
        got = case.model(case.batch())
    require_close("the conditioner called for other tasks in between", got, case.logits)


def check_cached(case: Case) -> None:
    """Greedy decoding with a cache writes what one pass over all finds likeliest."""
    ids, scores = case.written
    logits = logits_before(case.model, case.inputs(), ids)
    expected = likelihood_of(ids, logits)
    require_close("log-likelihood of greedy decoding, cached", scores, expected)
    behind = np.where(ids > 0, logits.max(-1) - chosen_of(logits, ids), 0.0).max()
    behind /= np.abs(logits).max()
    require(
        behind < ROUNDING,
        f"greedy decoding, cached, chose a token {behind:.2g} behind the likeliest",
    )


def check_beam(case: Case) -> None:
    """Scores of beams are the log-likelihood of what they wrote."""
    with eagerly():
        ids, scores = case.model.generate(
            case.inputs(),
            TARGET_LENGTH,
            beam_size=2,
            length_penalty=0.0,
            return_scores=True,
        )
    expected = log_likelihood(case.model, case.inputs(), ids)
    require_close("log-likelihood of beams, cached", scores, expected)


def check_score(case: Case) -> None:
    """The score is the log-likelihood, of one target and of several."""
    choices = np.stack([case.targets(seed) for seed in (1, 2)], axis=1)
    with eagerly():
        scores = case.model.score({**case.inputs(), "targets": choices})
    expected = [
        log_likelihood(case.model, case.inputs(), choices[:, i]) for i in range(2)
    ]
    require_close("scores", scores, np.stack(expected, axis=1))


def check_served(case: Case) -> None:
    """A graph for a server, of unknown shapes and without XLA, writes the same.

    A batch, and a row of it alone: one graph.
    """
    model = case.small
    options = Options(max_length=TARGET_LENGTH, return_scores=True)
    specs = {
        "encoder_tokens": tf.TensorSpec([None, None], tf.int32),
        "task_ids": tf.TensorSpec([None], tf.int32),
    }

    def write(inputs: dict) -> tuple:
        return generate_ids(model, options, inputs, tf.constant(0, tf.int64))

    with target.tracing_for(xla=False, gradients=False):
        function = tf.function(write, autograph=False).get_concrete_function(specs)
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    compiled = sorted({node.op for node in nodes if node.op.startswith("Xla")})
    require(not compiled, f"a server without XLA has no {', '.join(compiled)}")
    for rows_taken in (slice(None), slice(0, 1)):
        inputs = {name: value[rows_taken] for name, value in case.inputs().items()}
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        ids, scores = function(tensors)
        expected = log_likelihood(model, inputs, ids)
        require_close("log-likelihood of what a server wrote", scores, expected)


def check_compiled_generate(case: Case) -> None:
    """XLA writes what is written without it."""
    model = case.small
    arguments = (case.inputs(), TARGET_LENGTH)
    options = {"length_penalty": 0.0, "return_scores": True}
    ids, scores = model.generate(*arguments, **options)
    with eagerly():
        expected_ids, expected = model.generate(*arguments, **options)
    require_close("log-likelihood of what XLA wrote", scores, expected)
    different = np.argwhere(np.asarray(ids) != np.asarray(expected_ids)).tolist()
    require(
        not different,
        f"XLA wrote {len(different)} other tokens, the first at {different[:1]}",
    )
