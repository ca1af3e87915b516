"""What is used of Keras beyond its public interface is there and does what it did.

Each test names what it relies on. If one fails after an update of Keras, mend that one
function of `hypertf/keras_internals.py`; no other module knows the private name.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import hypertf
from hypertf import keras_internals as internals

ROOT = Path(__file__).resolve().parents[1]


def relies_on(owner, *names):
    """Fails if what the owner has from Keras no longer goes by these names."""
    gone = [name for name in names if not hasattr(owner, name)]
    what = owner.__name__ if inspect.isclass(owner) else type(owner).__name__
    assert not gone, (
        f"keras {keras.__version__}: {what} has no {', '.join(gone)}, which "
        "hypertf/keras_internals.py relies on"
    )


def variable(values=(1.0, 2.0)):
    return keras.Variable(np.array(values, "float32"))


class Descent(internals.Optimizer):
    """Plain gradient descent, to see what Keras calls."""

    def __init__(self, **kwargs):
        super().__init__(learning_rate=1.0, **kwargs)
        self.calls = []

    def update_step(self, gradient, variable, learning_rate):
        self.assign_sub(variable, learning_rate * gradient)

    def apply_in_replica(self, gradients, variables):
        self.calls.append("apply_in_replica")
        super().apply_in_replica(gradients, variables)

    def update_all(self, strategy, pairs, learning_rate):
        self.calls.append("update_all")
        super().update_all(strategy, pairs, learning_rate)


def test_the_graph_of_a_called_function_is_found():
    relies_on(tf.Graph(), "_get_function")
    inner = tf.function(lambda x: x * 2)
    outer = tf.function(lambda x: inner(x) + 1)
    graph = outer.get_concrete_function(tf.TensorSpec([3])).graph
    calls = [o for o in graph.get_operations() if "PartitionedCall" in o.type]
    (name,) = (operation.get_attr("f").name for operation in calls)
    called = internals.called_graph(graph, name)
    assert "Mul" in [operation.type for operation in called.get_operations()]
    assert called.inputs[0].shape == [3]


def test_children_are_in_the_order_they_were_set():
    class Parent(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.second = keras.layers.Dense(1, name="b")
            self.first = [keras.layers.Dense(1, name=name) for name in "da"]
            self.last = {"c": keras.layers.Dense(1, name="c")}

    relies_on(Parent(), "_layers")
    assert [layer.name for layer in internals.children(Parent())] == list("bdac")
    model = keras.Sequential([Parent(), keras.layers.Dense(1)])
    assert internals.children(model) == model.layers


def test_a_stateless_scope_is_known():
    assert not internals.in_stateless_scope()
    with keras.StatelessScope():
        assert internals.in_stateless_scope()


def test_pending_variables_are_those_without_a_value():
    before = list(internals.pending_variables())
    with keras.StatelessScope(initialize_variables=False):
        new = keras.Variable("ones", shape=(2,))
    new_ones = internals.pending_variables()[len(before) :]
    assert len(new_ones) == 1 and new_ones[0] is new, (
        f"keras {keras.__version__} keeps variables that wait for a value elsewhere "
        "than in its global attribute 'uninitialized_variables'"
    )
    internals.pending_variables()[:] = before
    with keras.StatelessScope():
        pass  # allocates what is pending at its end
    assert new._value is None


def test_replicas_meet_under_a_mirrored_strategy():
    relies_on(tf.__internal__.distribute, "strategy_supports_no_merge_call")
    assert not internals.replicas_must_meet()
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        assert internals.replicas_must_meet()


def test_an_optimizer_knows_its_variables():
    optimizer, known = keras.optimizers.SGD(), [variable(), variable()]
    relies_on(optimizer, "_trainable_variables", "_get_variable_index")
    relies_on(optimizer, "_check_variables_are_known")
    assert internals.trained_variables(optimizer) == []
    optimizer.build(known)
    assert internals.trained_variables(optimizer) == known
    assert [internals.variable_index(optimizer, v) for v in known] == [0, 1]
    assert internals.variable_index(optimizer, known[1].value) == 1  # TensorFlow's
    internals.check_known(optimizer, known[0])
    with pytest.raises(ValueError, match="Unknown variable"):
        internals.check_known(optimizer, variable())


@pytest.mark.parametrize("allocated", [True, False])
def test_some_weights_do_not_decay(allocated):
    if allocated:
        here, scale = (keras.Variable([1.0], name=name) for name in ("here", "scale"))
    else:
        with hypertf.t5.Unallocated():
            here, scale = (
                keras.Variable("ones", shape=(1,), name=name)
                for name in ("here", "scale")
            )
    assert internals.has_value(here) is allocated
    optimizer = Descent(weight_decay=0.5)
    relies_on(optimizer, "_use_weight_decay")
    assert internals.decays(optimizer, here) and internals.decays(optimizer, scale)
    assert not internals.decays(Descent(), here)
    optimizer.exclude_from_weight_decay(var_names=["sca"])
    relies_on(optimizer, "_exclude_from_weight_decay_pattern")
    assert internals.decays(optimizer, here)
    assert not internals.decays(optimizer, scale)


def test_micro_steps_count_every_call():
    optimizer, x = Descent(gradient_accumulation_steps=2), variable()
    relies_on(optimizer, "_iterations")
    for _ in range(3):
        optimizer.apply([x * 0], [x])
    assert int(internals.micro_steps(optimizer)) == 3
    assert int(optimizer.iterations) == 1
    internals.micro_steps(optimizer).assign(8)
    assert int(optimizer.iterations) == 4


def test_an_optimizer_remembers_its_strategy():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        optimizer = keras.optimizers.SGD()
    relies_on(optimizer, "_distribution_strategy")
    assert internals.strategy_of(optimizer) is strategy


def test_moments_of_adam():
    optimizer, x = keras.optimizers.Adam(beta_1=0.5, beta_2=0.75), variable()
    optimizer.apply([keras.ops.ones(2)], [x])
    relies_on(optimizer, "_momentums", "_velocities")
    moments = internals.adam_moments(optimizer, x)
    np.testing.assert_allclose(moments["m"], [0.5, 0.5])
    np.testing.assert_allclose(moments["v"], [0.25, 0.25])


def test_apply_goes_through_both_steps():
    relies_on(keras.optimizers.Optimizer, "_backend_apply_gradients")
    relies_on(keras.optimizers.Optimizer, "_distributed_tf_update_step")
    optimizer, x = Descent(), variable([1.0, 2.0])
    optimizer.apply([keras.ops.ones(2)], [x])
    assert optimizer.calls == ["apply_in_replica", "update_all"], (
        f"keras {keras.__version__}: Optimizer.apply no longer calls "
        "_backend_apply_gradients and then _distributed_tf_update_step"
    )
    np.testing.assert_allclose(x, [0.0, 1.0])


def test_accumulated_gradients_are_clipped_decayed_applied_and_cleared():
    relies_on(
        keras.optimizers.Optimizer,
        "_backend_increment_gradient_accumulators",
        "_clip_gradients",
        "_apply_weight_decay",
        "_backend_update_step",
        "_backend_reset_gradient_accumulators",
    )
    options = {"clipvalue": 3.0, "weight_decay": 0.5}
    optimizer, x = Descent(gradient_accumulation_steps=2, **options), variable([8.0])
    optimizer.build([x])
    relies_on(optimizer, "_accumulated_gradients")
    (total,) = optimizer.accumulators([x])
    optimizer.accumulate([keras.ops.ones(1)], [total])
    optimizer.accumulate([keras.ops.ones(1)], [total])
    np.testing.assert_allclose(total, [2.0])
    optimizer.update_from_accumulated([5 * keras.ops.ones(1)], [x])
    np.testing.assert_allclose(x, [8.0 - 0.5 * 8.0 - 3.0])
    np.testing.assert_allclose(total, [0.0])


def private_attributes(path):
    """Lines that import `keras.src` or read a private name of another object."""
    own = ("self", "cls")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and "keras.src" in (node.module or ""):
            yield node.lineno, node.module
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.startswith("keras.src")]
            yield from ((node.lineno, name) for name in names)
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            of_self = isinstance(node.value, ast.Name) and node.value.id in own
            of_tuple = node.attr in ("_fields", "_replace", "_asdict")
            if not of_self and not of_tuple:
                yield node.lineno, node.attr


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def inherited_private_names(cls):
    """Private names of Keras that a class overrides or reads from itself."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith("keras.")]
    theirs = {name for base in bases for name in vars(base) if is_private(name)}
    for base in bases:
        theirs |= set(re.findall(r"\bself\.(_[a-z]\w*)", inspect.getsource(base)))
    for node in ast.walk(ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls)))):
        if isinstance(node, ast.FunctionDef) and node.name in theirs:
            yield node.name
        if isinstance(node, ast.Attribute) and node.attr in theirs:
            yield node.attr


def test_no_other_module_uses_private_names():
    uses = [
        f"{path.relative_to(ROOT)}:{line} uses {name}"
        for folder in ("hypertf", "tfds_tasks", "experiments")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "keras_internals.py"
        for line, name in private_attributes(path)
    ]
    for module in pkgutil.walk_packages(hypertf.__path__, "hypertf."):
        if module.name == internals.__name__:
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(cls) and cls.__module__ == module.name:
                names = inherited_private_names(cls)
                uses += [f"{module.name}: {cls.__name__} uses {n}" for n in names]
    assert not uses, "\n".join(uses)
