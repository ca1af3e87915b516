"""Shapes and layouts refuse what cannot be, in words that help."""

import pytest

from hypertf.mesh import parse_layout, parse_shape
from hypertf.mesh.layouts import inert_rules, unused_dimensions

MESH = parse_shape("batch:2,model:8")


def test_default_rules_do_nothing_on_other_meshes():
    mesh = parse_shape("x:4")
    assert parse_layout().of(("batch", "d_ff", "vocab"), mesh) == (None, None, None)
    assert len(inert_rules(parse_layout(), mesh)) == 6
    assert unused_dimensions(parse_layout(), mesh) == ["x"]
    assert unused_dimensions(parse_layout(), MESH) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batch", '"batch", expected pairs such as "batch:2,model:4"'),
        ("batch:two", '"batch:two", expected pairs'),
        ("batch:0", '"batch:0", expected a name and a size of at least 1'),
        ("a:2,a:4", "dimension 'a' is there 2 times, expected once"),
    ],
)
def test_bad_shapes_are_refused(text, words):
    with pytest.raises(ValueError) as error:
        parse_shape(text)
    assert f'mesh shape "{text}"' in str(error.value)
    assert words in str(error.value)


def test_cores_that_do_not_divide_name_those_that_would():
    with pytest.raises(ValueError, match=r"=6 does not divide its 32 cores; 4 or 8"):
        parse_shape("4x4", cores_per_replica=6)
    assert str(parse_shape("4x4", cores_per_replica=8, cores_per_chip=1)) == (
        "batch:2,model:8"
    )


def test_a_size_that_does_not_divide_names_those_that_would():
    name = "encoder/block_000/layer_000/SelfAttention/relative_attention_bias"
    with pytest.raises(ValueError) as error:
        parse_layout().shard(("heads", "buckets"), (12, 32), MESH, name)
    assert str(error.value) == (
        f'{name}, layout rule "heads:model": heads=12 does not divide by mesh '
        "dimension model=8; model=6 or 12 or heads=8 or 16 would"
    )


def test_one_mesh_dimension_takes_one_dimension_of_a_tensor():
    layout = parse_layout("d_model:model,d_ff:model")
    with pytest.raises(ValueError, match='"d_model:model" and "d_ff:model"'):
        layout.of(("d_model", "d_ff"), MESH, "wi")
    with pytest.raises(ValueError, match="goes over the mesh dimensions"):
        parse_layout("d_ff:model,d_ff:batch").of(("d_ff",), MESH)


def test_an_unknown_dimension_gets_the_nearest():
    layout = parse_layout("d_f:model,batch:batch")
    with pytest.raises(ValueError, match=r'"d_f:model": .* did you mean \'d_ff\'\?'):
        layout.check_names(["batch", "d_ff", "heads"])
    parse_layout().check_names(["batch", "d_ff", "heads", "vocab"])
