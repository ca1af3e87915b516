"""Multiply-adds counted over graphs agree with formulas and TensorFlow's profiler."""

import pytest
import tensorflow as tf

from hypertf.analysis import cost, cost_formulas
from tests.conditioning.all_methods_test import METHODS
from tests.helpers import V1_1, tiny_config

WORKLOAD = cost.Workload(batch=5, inputs_length=7, targets_length=4)


@pytest.mark.parametrize("overrides", [{}, V1_1])
def test_the_plain_model_agrees(overrides):
    model = cost.without_values(tiny_config(**overrides), "none", 3)
    assert cost.count(model, WORKLOAD).forward == cost_formulas.formula(model, WORKLOAD)


@pytest.mark.parametrize("tasks", [3, 8])
@pytest.mark.parametrize("name", cost_formulas.FORMULAS)
def test_methods_agree(name, tasks):
    """Whether the tasks are fewer than the examples or not."""
    model = cost.without_values(tiny_config(), name, tasks, **METHODS[name])
    counted = cost.products(cost.traced(model, WORKLOAD, gradients=False))
    assert counted == cost_formulas.formula(model, WORKLOAD)


def test_gradients_of_all_weights_cost_twice_the_forward_pass():
    """Each product has two gradients, but for what the first of a chain reads."""
    model = cost.without_values(tiny_config(), "none", 3)
    counted = cost.count(model, WORKLOAD)
    assert 2.8 * counted.forward < counted.training <= 3 * counted.forward
    frozen = cost.without_values(tiny_config(), "lora", 3, **METHODS["lora"])
    all_trained = {**METHODS["lora"], "trains": "all"}
    thawed = cost.without_values(tiny_config(), "lora", 3, **all_trained)
    parts = [cost.count(each, WORKLOAD) for each in (frozen, thawed)]
    assert parts[0].forward == parts[1].forward
    assert parts[0].training < parts[1].training


@pytest.mark.parametrize("name", ["hyperprompt-global", "hyperdecoder", "hypergrid"])
def test_two_depths_tell_of_any(name):
    config = tiny_config(num_encoder_layers=4, num_decoder_layers=4)
    options = METHODS[name]
    whole = cost.count(cost.without_values(config, name, 3, **options), WORKLOAD)
    assert cost.count_by_depth(config, name, 3, WORKLOAD, **options) == whole


def test_calls_are_followed_and_loops_refused():
    product = tf.function(tf.matmul)

    @tf.function(autograph=False)
    def twice(x, y):
        return product(x, y) + tf.einsum("ab,bc->ac", x, y)

    arguments = tf.TensorSpec([2, 3]), tf.TensorSpec([3, 5])
    assert cost.products(twice.get_concrete_function(*arguments).graph) == 60

    @tf.function(autograph=False)
    def loop(x):
        return tf.while_loop(lambda x: x[0, 0] > 0, lambda x: (x @ x,), (x,))

    with pytest.raises(ValueError, match="loop, whose turns are not known"):
        cost.products(loop.get_concrete_function(tf.TensorSpec([2, 2])).graph)


def test_tensorflow_counts_the_same():
    """Of the plain model; its profiler counts two for a multiply-add."""
    model = cost.without_values(tiny_config(), "none", 3)
    graph = cost.traced(model, WORKLOAD, gradients=False)
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    node = tf.compat.v1.profiler.profile(graph, cmd="op", options=options)
    found = {}
    while True:  # each has one child, and its own figures
        found[node.name] = node.float_ops
        if not node.children:
            break
        (node,) = node.children
    products = [name for name in found if "MatMul" in name]
    assert sum(found[name] for name in products) == 2 * cost.products(graph)
