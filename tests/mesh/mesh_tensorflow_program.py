"""Asks mesh-tensorflow 0.1.21 what it makes of shapes and layouts: JSON in, JSON out.

    python -m tests.mesh.mesh_tensorflow_program < questions.json

Apart from pytest, because it does not import on today's TensorFlow without the shims
below. A question is {"shape", "layout", "tensor"} (a mesh, rules and the pairs of a
tensor's dimensions) or {"topology", "cores"}; an error answers null.
"""

import importlib.util
import json
import sys
import types

import tensorflow
import tensorflow.compat.v1
from tensorflow.python import tpu
from tensorflow.python.framework import ops, tensor_conversion_registry


class Anything(type):
    """A class of which every attribute is another such class."""

    def __getattr__(cls, name):
        return Anything(name, (), {})


for module in (tensorflow, tensorflow.compat.v1):
    module.estimator = Anything("estimator", (), {})
for name in ("tpu_config", "tpu_estimator"):
    setattr(tpu, name, Anything(name, (), {}))
if importlib.util.find_spec("pkg_resources") is None:  # newer setuptools have it not
    sys.modules["pkg_resources"] = types.ModuleType("pkg_resources")
ops.register_tensor_conversion_function = (
    tensor_conversion_registry.register_tensor_conversion_function
)

import mesh_tensorflow as mtf  # noqa: E402
from mesh_tensorflow import simd_mesh_impl  # noqa: E402
from mesh_tensorflow.transformer.utils import tpu_mesh_shape  # noqa: E402


def pairs(shape):
    return [[dim.name, dim.size] for dim in shape]


def or_none(function):
    try:
        return function()
    except ValueError:
        return None


def answer(question):
    if "topology" in question:
        arguments = question["topology"], question["cores"]
        return {"shape": or_none(lambda: pairs(tpu_mesh_shape(*arguments)))}
    shape = or_none(lambda: mtf.convert_to_shape(question["shape"]))
    rules = or_none(lambda: mtf.convert_to_layout_rules(question["layout"]))
    answers = {
        "shape": None if shape is None else pairs(shape),
        "layout": None if rules is None else sorted(map(list, rules._pairs)),
    }
    if shape is not None and rules is not None and all(d.size > 0 for d in shape):
        tensor = mtf.Shape([mtf.Dimension(*dim) for dim in question["tensor"]])
        mesh = mtf.placement_mesh_impl.PlacementMeshImpl(
            shape, rules, ["cpu:0"] * shape.size
        )
        names = shape.dimension_names
        answers["of"] = or_none(
            lambda: [
                None if axis is None else names[axis]
                for axis in rules.tensor_layout(tensor, shape)
            ]
        )
        answers["shard"] = or_none(lambda: mesh.slice_shape(tensor))
    return answers


if __name__ == "__main__":
    simd_mesh_impl.FLAGS([sys.argv[0]])
    json.dump([answer(question) for question in json.load(sys.stdin)], sys.stdout)
