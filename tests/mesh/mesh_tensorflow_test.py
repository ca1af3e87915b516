"""Shapes and layouts are read, and mean, what they do in mesh-tensorflow."""

import importlib.util
import json
import random
import subprocess
import sys

import pytest

from hypertf.mesh import DEFAULT_LAYOUT, parse_layout, parse_shape
from tests.conftest import ROOT

MESH = ("batch", "model", "ensemble", "x")
DIMS = ("batch", "d_ff", "heads", "vocab", "d_model", "experts")
CASES = 3000
TOPOLOGIES = [
    (topology, cores)
    for topology in ("v3-8", "v2-32", "v3-256", "2x2", "4x4", "8x16", "2x2x4")
    for cores in (1, 2, 4, 8)
] + [("v4-16_twisted", 2), ("4x4_twisted", 8), ("4x4x8_untwisted", 4)]


def words(rng, left, right):
    """A random string of pairs, now and then with a mistake."""
    pick = rng.choices if rng.random() < 0.1 else rng.sample  # rarely a name twice
    names = pick(left, k=rng.randint(0, 4))
    pairs = [f"{name}:{rng.choice(right)}" for name in names]
    if rng.random() < 0.1:
        wrong = ("batch", "a:b:c", ":", "2:", ":2", "batch=2", "batch:two")
        pairs.insert(rng.randint(0, len(pairs)), rng.choice(wrong))
    separators = (" ", ",", ".", ";", ", ", "\t", " ;, ", "\n")
    text = "".join(pair + rng.choice(separators) for pair in pairs)
    return text if rng.random() < 0.5 else text.strip(" ,.;\t\n")


def questions():
    rng = random.Random(0)
    sizes = 4 * ("1", "2", "4", "8", "3", "+2", "02") + ("0", "-2")
    for _ in range(CASES):
        layout = words(rng, DIMS, MESH)
        yield {
            "shape": words(rng, MESH, sizes),
            "layout": DEFAULT_LAYOUT if rng.random() < 0.2 else layout,
            "tensor": [
                (dim, rng.choice((1, 8, 12, 24)))
                for dim in rng.sample(DIMS, rng.randint(0, 4))
            ],
        }


@pytest.fixture(scope="module")
def answered():
    """Questions with mesh-tensorflow's answers, of meshes and then of TPUs."""
    asked = list(questions())
    asked += [{"topology": t, "cores": cores} for t, cores in TOPOLOGIES]
    result = subprocess.run(
        [sys.executable, "-m", "tests.mesh.mesh_tensorflow_program"],
        cwd=ROOT,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-5000:]
    pairs = list(zip(asked, json.loads(result.stdout), strict=True))
    return pairs[:CASES], pairs[CASES:]


def or_none(function, *arguments):
    try:
        return function(*arguments)
    except ValueError:
        return None


def as_list(value):
    """As JSON has it."""
    return json.loads(json.dumps(None if value is None else list(value)))


def refused_here(pairs):
    """What mesh-tensorflow lets pass: no name, no device, a name of two sizes."""
    names = [name for name, _ in pairs]
    return (
        len(set(names)) < len(names)
        or not all(names)
        or any(size < 1 for _, size in pairs)
    )


def test_shapes_are_read_alike(answered):
    refused = 0
    for question, theirs in answered[0]:
        ours = or_none(parse_shape, question["shape"])
        if theirs["shape"] and refused_here(theirs["shape"]):
            refused += 1
            assert ours is None, question
        else:
            assert as_list(ours) == theirs["shape"], question
    assert 0 < refused < CASES / 2


def test_layouts_are_read_alike(answered):
    for question, theirs in answered[0]:
        ours = or_none(parse_layout, question["layout"])
        if theirs["layout"] and not all(map(all, theirs["layout"])):
            assert ours is None, question
        elif ours is None:
            assert theirs["layout"] is None, question
        else:
            assert sorted(map(list, ours.rules)) == theirs["layout"], question


def test_tensors_are_laid_out_alike(answered):
    seen = {"of": 0, "shard": 0, "refused": 0}
    for question, theirs in answered[0]:
        shape = or_none(parse_shape, question["shape"])
        layout = or_none(parse_layout, question["layout"])
        if shape is None or layout is None:
            continue
        dims = [dim for dim, _ in question["tensor"]]
        sizes = [size for _, size in question["tensor"]]
        of = or_none(layout.of, dims, shape)
        shard = or_none(layout.shard, dims, sizes, shape)
        assert as_list(of) == theirs["of"], question
        assert as_list(shard) == theirs["shard"], question
        seen["of"] += bool(of and any(of))
        seen["shard"] += bool(shard and list(shard) != sizes)
        seen["refused"] += shard is None
    assert min(seen.values()) > 100, seen  # else nothing was compared


def test_a_tpu_gives_the_mesh_that_t5_makes_of_it(answered):
    compared = 0
    for question, theirs in answered[1]:
        ours = or_none(parse_shape, question["topology"], question["cores"])
        if theirs["shape"] is None:
            assert ours is None, question
            continue
        assert as_list(ours) == theirs["shape"], question
        compared += 1
    assert compared >= 28


def test_the_default_layout_is_t5s():
    """As mesh-tensorflow's defaults.gin has it, which its wheel brings along."""
    spec = importlib.util.find_spec("mesh_tensorflow")
    folder = spec.submodule_search_locations[0]
    with open(f"{folder}/transformer/gin/defaults.gin") as file:
        assert f'utils.run.layout_rules = "{DEFAULT_LAYOUT}"' in file.read()
