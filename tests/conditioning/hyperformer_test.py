"""HyperFormer: what its hypernetworks read and write, its size, its ablations."""

import re

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf.conditioning import hyperformer
from hypertf.conditioning.adapter_sites import POSITIONS
from hypertf.t5 import Unallocated, named_weights
from tests.helpers import count, mixed_batch, relative_error, tiny_config, tiny_model

SHARINGS = tuple(hyperformer.PRODUCTS)
TASKS = 3
SIZES = {"task_features": 5, "task_hidden": 7, "task_embedding": 6, "reduction": 4}


def model_of(sharing="stack", **options):
    options = {**SIZES, "sharing": sharing, **options}
    conditioner = hypertf.conditioning.create(
        "hyperformer", tiny_config(), TASKS, **options
    )
    return tiny_model(seed=3, conditioner=conditioner)


def unallocated(name, size, tasks=8, **options):
    config = hypertf.T5Config.from_name(size)
    with Unallocated():
        conditioner = hypertf.conditioning.create(name, config, tasks, **options)
        return hypertf.T5(config, conditioner=conditioner)


def test_trained_weights_of_plus_plus_as_the_code_counts_them():
    model = unallocated("hyperformer++", "t5-base")
    assert count(model.trainable_variables) == 5_211_056


# Trained weights per task as a percentage of T5, Table 1 of the paper.
@pytest.mark.parametrize(
    "size, name, expected",
    [
        ("t5-small", "hyperformer", 5.80),
        ("t5-base", "hyperformer", 6.86),
        ("t5-small", "hyperformer++", 0.50),
        ("t5-base", "hyperformer++", 0.29),
    ],
)
def test_trained_weights_are_the_papers(size, name, expected):
    model = unallocated(name, size)
    plain = count(model.weights) - count(model.conditioner.weights)
    share = 100 * count(model.trainable_variables) / 8 / plain
    assert round(share, 2) == expected


def counted(model):
    """What section 4.1 counts: embeddings, and the kernels of all linear maps.

    It leaves out the maps' biases, the maps that write the adapters' biases, the norm
    of the embedding, and T5's norms.
    """
    pattern = (
        "(features|embeddings|(hidden|output|down|up|after_scale|after_bias)/kernel)"
    )
    weights = model.conditioner.weights
    return [w for w in weights if re.search(f"/{pattern}$|_{pattern}$", w.path)]


def test_parameters_of_plus_plus_are_the_papers_formula():
    """t(T + 4 + 2L) + 8te + 2t(2hd + 2h), both stacks of L layers."""
    tasks, layers, h, d, t, e = 8, 12, 768, 24, 64, 128
    model = unallocated("hyperformer++", "t5-base", tasks)
    expected = t * (tasks + 4 + 2 * layers) + 8 * t * e + 2 * t * (2 * h * d + 2 * h)
    assert count(counted(model)) == expected


def test_parameters_of_hyperformer_are_the_papers():
    """By the same count: Tt' + (t' + t)e, and t(2hd + 2h) for each of 4L adapters."""
    tasks, layers, h, d, t, e, features = 8, 12, 768, 24, 64, 128, 512
    model = unallocated("hyperformer", "t5-base", tasks)
    projector = (features + t) * e
    networks = 4 * layers * t * (2 * h * d + 2 * h)
    assert count(counted(model)) == tasks * features + projector + networks


def test_new_tasks_cost_a_vector_each():
    for name, size in (("hyperformer", 512), ("hyperformer++", 64)):
        few, many = (unallocated(name, "t5-small", tasks) for tasks in (8, 512))
        added = count(many.trainable_variables) - count(few.trainable_variables)
        assert added == (512 - 8) * size


def numpy_layer_norm(x, scale, bias):
    x = x - x.mean()
    return x / np.sqrt((x**2).mean() + 1e-6) * scale + bias


class Naive:
    """Eqs. 5 to 8 for one task, layer and position at a time."""

    def __init__(self, model):
        self.weights = {
            name.removeprefix("conditioner/"): weight.numpy().astype("float64")
            for name, weight in named_weights(model).items()
        }
        self.options = model.conditioner.options

    def linear(self, x, name):
        return x @ self.weights[f"{name}/kernel"] + self.weights[f"{name}/bias"]

    def embedding(self, stack, task, layer, position):
        x, w, prefix = [self.weights["task_features"][task]], self.weights, ""
        if self.options.sharing != "layer":
            prefix = f"{stack}/"
            x.append(w[f"{stack}/layer_embeddings"][layer])
        if self.options.sharing == "stack":
            order = ["feed_forward", "self_attention"]
            x.append(w[f"{stack}/position_embeddings"][order.index(position)])
        x, prefix = np.concatenate(x), f"{prefix}task_projector"
        if self.options.task_projector:
            x = np.maximum(self.linear(x, f"{prefix}/hidden"), 0)
            x = self.linear(x, f"{prefix}/output")
        if self.options.sharing != "layer":
            x = numpy_layer_norm(x, w[f"{prefix}/norm/scale"], w[f"{prefix}/norm/bias"])
        return x

    def write(self, stack, task, layer, position, field, shape):
        place = f"block_{layer:03d}_{position}"
        if "after" in field and not self.options.conditional_norm:
            return self.weights[f"{stack}/{place}_norm/{field}"]
        owner = {"layer": place, "stack-positions": position, "stack": "adapters"}
        x = self.embedding(stack, task, layer, position)
        name = f"{stack}/{owner[self.options.sharing]}/{field}"
        return self.linear(x, name).reshape(shape)


@pytest.mark.parametrize(
    "options",
    [
        *({"sharing": sharing} for sharing in SHARINGS),
        {"sharing": "stack", "conditional_norm": False},
        {"sharing": "layer", "conditional_norm": False},
        *(
            {
                "sharing": sharing,
                "task_projector": False,
                "task_hidden": None,
                "task_embedding": None,
            }
            for sharing in SHARINGS
        ),
    ],
    ids=lambda options: "-".join(str(v) for v in options.values() if v is not None),
)
@pytest.mark.parametrize("tasks", [(0, 2, 1, 2), (2,)], ids=["by task", "by example"])
def test_what_is_written(options, tasks):
    """More examples than tasks, or fewer: the same adapters."""
    model = model_of(**options)
    naive, task_ids = Naive(model), np.array(tasks)
    stacks = {
        "encoder": model.conditioner.encoder(task_ids),
        "decoder": model.conditioner.decoder(task_ids, None, None),
    }
    fields = ("down", "down_bias", "up", "up_bias", "after_scale", "after_bias")
    for stack, sites in stacks.items():
        for layer, block in enumerate(sites.blocks):
            for field in fields:
                got = getattr(block, field).numpy()
                for row, task in enumerate(tasks):
                    for place, position in enumerate(POSITIONS):
                        x = got[row, place]
                        expected = naive.write(
                            stack, task, layer, position, field, x.shape
                        )
                        assert relative_error(x, expected) < 1e-5


def test_no_norm_at_all():
    model = model_of(norm_after=False)
    block = model.conditioner.encoder(np.array([0])).blocks[0]
    assert block.after_scale is None and block.before_scale is None
    assert not any("after" in weight.path for weight in model.weights)


@pytest.mark.parametrize("sharing", SHARINGS)
def test_what_trains_gets_a_gradient(sharing):
    model = model_of(sharing)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(mixed_batch(), training=True) ** 2)
    trained = model.trainable_variables
    gradients = tape.gradient(loss, [weight.value for weight in trained])
    for weight, gradient in zip(trained, gradients, strict=True):
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path
    norms = [w for w in model.weights if w.path.endswith("rms_norm/scale")]
    expected = {w.path for w in (*model.conditioner.weights, *norms)}
    assert {w.path for w in trained} == expected


@pytest.mark.parametrize("sharing", SHARINGS)
def test_initial_values(sharing):
    config = tiny_config(d_model=64)
    conditioner = hypertf.conditioning.create(
        "hyperformer", config, 40, sharing=sharing, reduction=4
    )
    conditioner.build()
    for weight in conditioner.weights:
        value = weight.numpy()
        if weight.path.endswith("kernel"):
            assert abs(value.std() / 0.01 - 1) < 0.1, weight.path
        elif weight.path.endswith(("features", "embeddings")):
            assert abs(value.std() - 1) < 0.2, weight.path
        else:
            assert (value == (1.0 if weight.path.endswith("norm/scale") else 0)).all()


@pytest.mark.parametrize(
    "name", ["hyperformer", "hyperformer++", "adapters", "adapters-shared-norm"]
)
def test_a_fresh_adapter_is_near_identity(name):
    """The norm's scale is small, whether it is written or trained."""
    config = tiny_config(d_model=64)
    conditioner = hypertf.conditioning.create(name, config, TASKS)
    conditioner.build()
    y = tf.random.normal((2, 5, 64), seed=0)
    for block in conditioner.encoder(np.array([0, 2])).blocks:
        for site in (block.after_attention, block.after_ffn):
            change = np.asarray(site(y, False) - y)
            assert 0 < np.sqrt((change**2).mean()) < 0.2


def test_without_adapter_blocks_only_norms_train():
    unset = dict.fromkeys(SIZES)
    model = model_of(adapter_blocks=False, **unset)
    trained = {w.path for w in model.trainable_variables}
    assert trained == {w.path for w in model.weights if "rms_norm" in w.path}
    plain = tiny_model(seed=3)
    for name, weight in named_weights(plain).items():
        weight.assign(named_weights(model)[name])
    inputs = mixed_batch()
    del inputs["task_ids"]
    assert relative_error(model(mixed_batch()), plain(inputs)) < 1e-6


def test_without_t5_norms_only_the_conditioner_trains():
    model = model_of(trains="task")
    assert len(model.trainable_variables) == len(model.conditioner.weights)
    assert not any("rms_norm" in w.path for w in model.trainable_variables)


def test_tasks_differ_and_do_not_depend_on_their_mates():
    model = model_of()
    logits = model(mixed_batch()).numpy()
    others = model(mixed_batch((0, 1, 1, 2))).numpy()
    assert relative_error(others[[0, 2, 3]], logits[[0, 2, 3]]) < 1e-6
    assert relative_error(others[1], logits[1]) > 1e-3


@pytest.mark.parametrize(
    "options, message",
    [
        ({"sharing": "tasks"}, "sharing='tasks', expected one of 'layer'"),
        ({"task_features": 0}, "task_features=0, expected an integer >= 1"),
        (
            {"task_projector": False},
            "task_hidden=7, expected None: no effect with task_projector",
        ),
        ({"adapter_blocks": 1}, "adapter_blocks=1, expected True or False"),
        (
            {"adapter_blocks": False, "trains": "task"},
            r"trains='task', expected 'task\+norms' with adapter_blocks=False",
        ),
        (
            {"adapter_blocks": False},
            "expected None: no effect with adapter_blocks=False",
        ),
        ({"task_vector": 3}, "unknown option 'task_vector'"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        model_of(**options)
