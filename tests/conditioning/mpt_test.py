"""MPT equals its formula."""

import numpy as np
import pytest

from hypertf.conditioning import create
from tests.helpers import mixed_batch, relative_error, tiny_config, tiny_model

TASKS = 3


@pytest.mark.parametrize("rank", [1, 2])
def test_prompts_are_the_shared_one_times_each_task_s_low_rank_part(rank):
    config = tiny_config()
    conditioner = create("mpt", config, TASKS, length=4, rank=rank)
    model = tiny_model(seed=2, conditioner=conditioner)
    prompt = np.asarray(conditioner.prompt, "float64")
    rows, columns = (
        np.asarray(w, "float64") for w in (conditioner.rows, conditioner.columns)
    )
    expected = np.zeros((TASKS, 4, config.d_model))
    for task in range(TASKS):
        for i in range(4):
            for j in range(config.d_model):
                part = sum(rows[task, r, i] * columns[task, r, j] for r in range(rank))
                expected[task, i, j] = prompt[i, j] * part
    batch = mixed_batch()
    tokens = conditioner.encoder(batch["task_ids"]).tokens
    assert relative_error(tokens, expected[batch["task_ids"]]) < 1e-6

    # The same as Prompt-Tuning with these prompts.
    tuning = create("prompt-tuning", config, TASKS, length=4)
    other = tiny_model(seed=2, conditioner=tuning)
    tuning.prompts.assign(expected)
    mine = {w.path.split("/", 1)[1]: w for w in model.weights}
    for weight in other.weights:
        name = weight.path.split("/", 1)[1]
        if name in mine:
            weight.assign(mine[name])
    assert relative_error(model(batch), other(batch)) < 1e-5


def test_tasks_start_near_the_shared_prompt():
    conditioner = create("mpt", tiny_config(), TASKS, length=4, rank=4)
    conditioner.build()
    prompts = np.asarray(conditioner.prompts(np.arange(TASKS)))
    shared = np.broadcast_to(np.asarray(conditioner.prompt), prompts.shape)
    assert 0 < relative_error(prompts, shared) < 0.5
