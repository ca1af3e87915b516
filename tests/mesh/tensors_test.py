"""Every variable of every method has named dimensions, and its slots follow."""

import math

import pytest

import hypertf
from hypertf.mesh import parse_layout, parse_shape
from hypertf.mesh.tensors import Named, slots, variables
from hypertf.t5 import Unallocated, named_weights

MESHES = ("batch:2,model:2", "model:4", "batch:4")


@pytest.mark.parametrize("method", hypertf.conditioning.names())
def test_variables_and_slots_have_named_dimensions(method):
    config = hypertf.T5Config.from_name("t5-nano")
    conditioner = hypertf.conditioning.create(method, config, num_tasks=8)
    model = hypertf.T5(config, conditioner=conditioner)
    optimizer = hypertf.Adafactor()
    optimizer.build(model.trainable_variables)
    weights = named_weights(model)
    found = variables(model)
    assert {v.name: v.shape for v in found} == {n: w.shape for n, w in weights.items()}
    for variable in found:
        weight, planned = weights[variable.name], slots(variable)
        assert variable.trained == weight.trainable
        made = optimizer.slots(weight) if weight.trainable else {}
        assert {s.name: s.shape for s in planned} == {
            f"{variable.name}_slot_{name}": slot.shape for name, slot in made.items()
        }
        for mesh in map(parse_shape, MESHES):
            for tensor in (variable, *planned):
                held = tensor.bytes_per_device(parse_layout(), mesh)
                parts = math.prod(
                    mesh[over]
                    for over in tensor.split_over(parse_layout(), mesh)
                    if over is not None
                )
                assert held * parts == tensor.bytes


def test_slots_follow_the_dimensions_that_they_keep():
    mesh = parse_shape("model:4")
    wide = Named("wi", ("d_model", "d_ff"), (128, 512))
    kept = {s.name: (s.dims, s.split_over(parse_layout(), mesh)) for s in slots(wide)}
    assert kept == {
        "wi_slot_vr": (("d_model",), (None,)),  # the mean over the largest, d_ff
        "wi_slot_vc": (("d_ff",), ("model",)),
    }
    small = Named("scale", ("d_model",), (128,))
    assert [s.dims for s in slots(small)] == [("d_model",)]


def test_a_variable_without_names_is_refused():
    with Unallocated():
        model = hypertf.T5(hypertf.T5Config.from_name("t5-nano"))
    del model.shared.embedding.dims
    with pytest.raises(ValueError, match="shared/embedding: dims=None"):
        variables(model)
