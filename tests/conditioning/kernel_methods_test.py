"""lora and ia3 equal their formulas, and a task folds into a plain T5."""

import numpy as np
import pytest

import hypertf
from hypertf.conditioning import create
from hypertf.t5 import named_weights
from tests.helpers import V1_1, mixed_batch, relative_error, tiny_config, tiny_model

TASKS = 3
ALL = ("q", "k", "v", "o", "cross_q", "cross_k", "cross_v", "cross_o", "wi", "wo")
LAYERS = {"encoder": "SelfAttention", "cross": "EncDecAttention"}
METHODS = {
    "lora": {"rank": 2, "alpha": 3.0},
    "lora all": {"rank": 2, "kernels": ALL},
    "ia3": {},
    "ia3 all": {"kernels": ALL},
    "lora+ia3": {"lora.kernels": ("q", "cross_q"), "lora.rank": 2},
}


def make(name, **overrides):
    config = tiny_config(**overrides)
    conditioner = create(name.split()[0], config, TASKS, **METHODS[name])
    return tiny_model(seed=5, conditioner=conditioner, **overrides)


def plain_name(stack, block, kernel):
    """Where a plain T5 keeps the kernel that the sites call `kernel`."""
    if kernel.startswith("w"):
        place = 2 if stack == "decoder" else 1
        return f"{stack}/{block}/layer_{place:03d}/DenseReluDense/{kernel}/kernel"
    if kernel.startswith("cross_"):
        return f"{stack}/{block}/layer_001/EncDecAttention/{kernel[6:]}"
    return f"{stack}/{block}/layer_000/SelfAttention/{kernel}"


def naive_kernels(model, task):
    """A plain T5's kernels as the papers' formulas change them, in numpy."""
    weights = {n: np.asarray(w, "float64") for n, w in named_weights(model).items()}
    changed = {n: w for n, w in weights.items() if not n.startswith("conditioner")}
    for name, value in weights.items():
        parts = name.split("/")
        if parts[0] != "conditioner" or "seed_generator" in name:
            continue
        stack, block, kernel = (
            parts[-4:-1] if parts[-1] in ("down", "up") else parts[-3:]
        )
        at = plain_name(stack, block, kernel)
        if parts[-1] == "down":  # W + alpha / rank A B
            up = weights[name.removesuffix("down") + "up"][task]
            options = getattr(model.conditioner, "members", [model.conditioner])[
                0
            ].options
            changed[at] = changed[at] + options.alpha / options.rank * value[task] @ up
        elif parts[-1] != "up":  # rows of what enters wo, columns of what comes out
            scale = value[task]
            changed[at] = changed[at] * (scale[:, None] if kernel == "wo" else scale)
    return changed


@pytest.mark.parametrize("overrides", [{}, V1_1], ids=["1.0", "1.1"])
@pytest.mark.parametrize("name", METHODS)
def test_every_task_equals_a_plain_t5_with_the_formula_s_kernels(name, overrides):
    model = make(name, **overrides)
    plain = tiny_model(seed=5, **overrides)
    batch = mixed_batch()
    logits = model(batch).numpy()
    for task in range(TASKS):
        kernels = naive_kernels(model, task)
        for weight_name, weight in named_weights(plain).items():
            weight.assign(kernels[weight_name])
        inputs = {key: value for key, value in batch.items() if key != "task_ids"}
        expected = plain(inputs).numpy()
        mine = batch["task_ids"] == task
        assert relative_error(logits[mine], expected[mine]) < 2e-5
        assert relative_error(logits[~mine], expected[~mine]) > 1e-3


@pytest.mark.parametrize("name", METHODS)
def test_a_task_folds_into_a_plain_t5(name, tmp_path):
    model = make(name, **V1_1)
    plain = hypertf.export.bake(model, tasks=[2], fold=True)
    assert plain.conditioner is None
    batch = mixed_batch((2, 2, 2, 2))
    inputs = {key: value for key, value in batch.items() if key != "task_ids"}
    expected = model(batch)
    assert relative_error(plain(inputs), expected) < 1e-5

    path = tmp_path / "task"
    hypertf.checkpoints.save(plain, path, format="huggingface")
    read = tiny_model(seed=8, **V1_1)
    hypertf.checkpoints.load(read, path)
    assert relative_error(read(inputs), expected) < 1e-5


def test_a_new_method_is_the_plain_t5():
    for name in ("lora", "ia3"):
        config = tiny_config()
        model = hypertf.T5(config, conditioner=create(name, config, TASKS))
        plain = hypertf.T5(config)
        for weight_name, weight in named_weights(plain).items():
            weight.assign(named_weights(model)[weight_name])
        batch = mixed_batch()
        inputs = {key: value for key, value in batch.items() if key != "task_ids"}
        assert relative_error(model(batch), plain(inputs)) < 1e-6


CANNOT = {
    "hyperprompt-share": "puts keys and values before those of self-attention",
    "prompt-tuning": "puts tokens before the input of the encoder",
    "adapters": "changes what self-attention gives",
    "parallel-adapters": "adds a network beside the feed-forward",
    "hyperdecoder": "the decoder is conditioned on the input",
    "hypergrid": "the encoder and decoder are conditioned on the input",
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_cannot_be_folded_says_why(name):
    options = {
        "hyperprompt-share": {"bottleneck": 4},
        "hypergrid": {"d_r": 4, "d_c": 8},
    }
    config = tiny_config()
    conditioner = create(name, config, TASKS, **options.get(name, {}))
    model = hypertf.T5(config, conditioner=conditioner)
    with pytest.raises(ValueError, match=f"{name} cannot be folded.*{CANNOT[name]}"):
        hypertf.export.bake(model, tasks=[0], fold=True)


def test_norms_of_a_task_fold():
    """What is left of `adapters` without adapters: each task's norms."""
    config = tiny_config()
    conditioner = create("hyperformer", config, TASKS, adapter_blocks=False)
    model = tiny_model(conditioner=conditioner)
    plain = hypertf.export.bake(model, tasks=[1], fold=True)
    batch = mixed_batch()
    inputs = {key: value for key, value in batch.items() if key != "task_ids"}
    assert relative_error(plain(inputs), model(batch)) < 1e-6


def test_fold_takes_one_task():
    with pytest.raises(ValueError, match=r"tasks=\[0, 1, 2\] with fold=True"):
        hypertf.export.bake(make("lora"), fold=True)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lora", {"kernels": ("q", "q")}, "kernels=.*each once"),
        ("lora", {"kernels": ("w",)}, "kernels=.*expected some of q, k, v"),
        ("lora", {"rank": 0}, "rank=0, expected an integer >= 1"),
        ("lora", {"alpha": -1}, "alpha=-1, expected a number > 0"),
        ("ia3", {"kernels": ()}, "kernels=.*each once"),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(ValueError, match=f"{name}: {message}"):
        create(name, tiny_config(), TASKS, **options)
