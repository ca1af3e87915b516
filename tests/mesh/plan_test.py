"""Plans count what there is, whatever the size, and find a mesh that fits."""

import dataclasses
import json
import math
import subprocess
import sys

import pytest

import hypertf
from hypertf.mesh import parse_shape
from hypertf.mesh.plan import memory_of, plan, to_text, verdict
from hypertf.mesh.suggest import candidates
from hypertf.t5 import Unallocated
from tests.conftest import ROOT

T5 = "batch:batch,d_ff:model,heads:model,vocab:model"
BIG = {"conditioner": "hyperprompt-global", "cores_per_replica": 32}


@pytest.fixture(scope="module")
def big():
    return plan("t5-11b", "8x16", **BIG)


@pytest.fixture(scope="module")
def small():
    return {
        shape: plan("t5-small", shape, T5, batch_size=16, inputs_length=64)
        for shape in ("batch:1", "batch:4", "model:4", "batch:2,model:2")
    }


def total(planned, name):
    return sum(getattr(planned, name).values())


@pytest.mark.parametrize("method", ["none", "hypergrid", "prompt-tuning"])
def test_one_device_holds_all_parameters(method):
    config = hypertf.T5Config.from_name("t5-small")
    with Unallocated():
        conditioner = hypertf.conditioning.create(method, config, num_tasks=3)
        model = hypertf.T5(config, conditioner=conditioner)
    counted = hypertf.analysis.parameters(model)
    planned = plan("t5-small", "batch:1", conditioner=method, num_tasks=3)
    assert planned.of_weights("weights") == 4 * counted.total
    assert planned.of_weights("gradients") == 4 * counted.trained
    assert sum(group.count for group in planned.groups) == len(model.weights)


def test_a_split_model_is_held_in_parts(small):
    whole, data, split = (small[s] for s in ("batch:1", "batch:4", "model:4"))
    assert data.of_weights("weights") == whole.of_weights("weights")
    assert total(data, "activations") < total(whole, "activations") / 3.9
    assert split.of_weights("weights") < whole.of_weights("weights") / 3.9
    assert total(split, "activations") > total(data, "activations")  # the stream
    assert total(data, "cache") == total(split, "cache") == total(whole, "cache") / 4


def test_one_device_sends_nothing(small):
    assert small["batch:1"].traffic == 0


def test_data_parallel_sends_the_gradients(small):
    """Those of kernels in bfloat16; the table's as a head and of rows looked up."""
    planned = small["batch:4"]
    assert [each.over for each in planned.all_reduces] == [("batch",)]
    table, norms = 32128 * 512, (2 * 6 + 3 * 6 + 2) * 512
    kernels = planned.of_weights("weights") // 4 - table - norms - 2 * 8 * 32
    relative = 6 * 8 * (64 * 64 + 32 * 32)  # of every block, heads x query x key
    summed = 2 * (kernels + table) + 4 * (table + norms + relative)
    assert planned.all_reduces[0].count == 131 + 1 + 2 * 5
    assert planned.traffic == pytest.approx(2 * 3 / 4 * summed, rel=1e-6)


def test_most_is_held_where_a_stack_begins_or_ends(small):
    planned = small["batch:4"]
    kept, gradients = total(planned, "activations"), planned.of_weights("gradients")
    held = planned.moments
    assert held["at the loss"] > kept
    assert held["in the encoder's first block"] > gradients
    # One part of the encoder's output for k and one for v, from each decoder block.
    parts = 2 * 6 * 4 * 64 * 512 * 2  # batch on a device, length, d_model, bfloat16
    # The weights of attention and their gradient: heads, query and key.
    weights = 2 * 4 * 8 * 64 * 64 * 2
    difference = held["after the decoder"] - held["in the encoder's last block"]
    assert difference == parts - weights
    assert planned.peak == max(held.values())


def test_copies_of_kernels_are_counted_where_they_are_narrower():
    half, full, narrow = (
        plan("t5-small", "batch:1", batch_size=1, inputs_length=8, precision=precision)
        for precision in ("mixed_bfloat16", "float32", "bfloat16")
    )
    small = 0.02 * full.of_weights("weights")  # what so short a text keeps
    for planned, copies in ((half, 0.5), (full, 0), (narrow, 0)):
        besides = planned.moments["at the loss"] - total(planned, "activations")
        head = planned.of_weights("weights") * 32128 * 512 // 60506624
        wanted = head + copies * half.of_weights("weights")
        assert besides == pytest.approx(wanted, abs=small)


def test_model_parallel_sends_the_stream(small):
    """Of every layer of attention and feed-forward: once forward, once backward."""
    planned = small["model:4"]
    sent = {each.name: (each.count, each.bytes) for each in planned.all_reduces}
    stream = 16 * 64 * 512 * 2  # batch, length, d_model, bfloat16
    for layer in ("self-attention", "feed-forward"):
        for way in ("forward", "backward"):
            assert sent[f"encoder {layer}, {way}"] == (6, 6 * stream * 2 * 3 // 4)
    # Cross-attention sends the gradients of its queries, and of keys and values.
    assert sent["decoder cross-attention, forward"][0] == 6
    assert sent["decoder cross-attention, backward"][0] == 12
    assert sent["decoder logits, backward"][0] == 1
    assert "decoder logits, forward" not in sent
    assert "gradients of the weights" not in sent  # all see the whole batch


def test_a_split_width_sends_what_comes_after_it():
    planned = plan("t5-small", "model:2", "d_model:model", batch_size=2)
    sent = {each.name: each.count for each in planned.all_reduces}
    assert sent["encoder self-attention, forward"] == 3 * 6  # queries, keys, values
    assert sent["decoder logits, forward"] == 1
    assert "encoder embedding, forward" not in sent  # each device has its columns


def test_rematerialised_blocks_keep_less_and_send_more(small):
    again = plan(
        "t5-small", "model:4", T5, batch_size=16, inputs_length=64, rematerialize=True
    )
    assert total(again, "activations") < total(small["model:4"], "activations") / 2
    assert again.traffic > small["model:4"].traffic


def test_a_conditioner_is_counted():
    plain = plan("t5-base", "batch:4", num_tasks=4)
    prompts = plan("t5-base", "batch:4", num_tasks=4, conditioner="hyperprompt-global")
    tokens = plan("t5-base", "batch:4", num_tasks=4, conditioner="prompt-tuning")
    assert prompts.of_weights("weights") > plain.of_weights("weights")
    for more in (prompts, tokens):  # more keys, or a longer input
        assert total(more, "activations") > total(plain, "activations")
        assert total(more, "cache") > total(plain, "cache")
    assert tokens.of_weights("slots") < plain.of_weights("slots")  # T5 is frozen
    assert "encoder: written by the conditioner" in prompts.activations


@pytest.mark.parametrize("method", hypertf.conditioning.names())
def test_every_method_is_planned(method):
    planned = plan("t5-nano", "batch:2,model:2", conditioner=method, batch_size=16)
    assert planned.fits and planned.traffic


def test_precision_changes_what_is_computed_with():
    half = plan("t5-small", "batch:1", batch_size=2)
    full = plan("t5-small", "batch:1", batch_size=2, precision="float32")
    assert half.of_weights("weights") == full.of_weights("weights")
    assert total(full, "cache") == 2 * total(half, "cache")
    least = plan("t5-small", "batch:1", batch_size=2, precision="bfloat16")
    assert 2 * least.of_weights("weights") == full.of_weights("weights")


def test_adamw_holds_two_numbers_for_each(small):
    held = plan("t5-small", "model:4", T5, batch_size=16, optimizer="adamw")
    assert held.of_weights("weights") == small["model:4"].of_weights("weights")
    assert held.of_weights("slots") == 2 * held.of_weights("weights")
    assert "conditioner none, adamw, on a mesh" in to_text(held)


def test_eleven_billion_fit_as_published(big):
    assert big.mesh_shape == "batch:8,model:32"
    assert big.fits and "fits" in verdict(big)[0]
    assert not plan("t5-11b", "batch:128").fits  # data parallel alone


def test_the_table_has_every_group(big):
    text = to_text(big)
    for group in big.groups:
        assert group.name in text
    assert "d_model=1024, d_ff=65536/model" in text
    assert "conditioner/encoder/shared/k_up" in text


def test_suggestions_fit_and_send_least():
    best = plan("t5-3b", "v3-64", find=True)
    assert best.fits and best.num_devices == 64
    asked = {"chip": "v3", "rematerialize": best.sizes.rematerialize}
    for mesh, layout in candidates(64):
        try:
            other = plan("t5-3b", mesh, layout, **asked)
        except ValueError:
            continue
        assert not other.fits or other.traffic >= best.traffic
    assert plan("t5-3b", best.mesh_shape, best.layout, **asked).fits


def test_suggestions_rematerialise_only_in_need():
    assert not plan("t5-base", "v3-32", find=True).sizes.rematerialize
    best = plan("t5-3b", "v3-8", find=True)
    assert best.fits and best.sizes.rematerialize
    assert not plan("t5-11b", "v3-8", find=True).fits


def test_candidates_use_all_devices():
    found = list(candidates(8))
    assert len({(str(mesh), str(layout)) for mesh, layout in found}) == len(found)
    assert {mesh.size for mesh, _ in found} == {8}
    assert [str(m) for m, _ in candidates(1)] == [""]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layout": "d_f:model"}, "unknown dimension 'd_f'; did you mean 'd_ff'"),
        ({"layout": "length:model"}, "the length of a text is not split"),
        ({"layout": "d_ff:model,d_model:model"}, "put two of its dimensions on one"),
        ({"mesh_shape": "model:6"}, "vocab=32128 does not divide"),
        ({"mesh_shape": "batch:3"}, "batch=128 does not divide"),
        ({"model": "t5-bas"}, "did you mean 't5-base'"),
        ({"chip": "v9"}, "unknown chip 'v9'"),
        ({"chip": "-1"}, "expected a number of GB above 0"),
        ({"precision": "float16"}, "unknown precision 'float16'"),
        ({"optimizer": "adam"}, "unknown optimizer 'adam'; did you mean 'adamw'"),
        ({"conditioner": "hypergird"}, "did you mean 'hypergrid'"),
        ({"mesh_shape": "batch:7", "find": True}, "no mesh of 7 devices"),
    ],
)
def test_bad_words_are_refused(changes, words):
    asked = {"model": "t5-small", "mesh_shape": "model:2", **changes}
    with pytest.raises(ValueError) as error:
        plan(**asked)
    assert words in str(error.value)


def test_a_mesh_dimension_without_a_rule_is_noted():
    planned = plan("t5-small", "batch:2,modle:2")
    assert "'modle'" in planned.notes[0] and "d_ff:model" in planned.notes[0]
    assert planned.notes[0] in to_text(planned)
    assert not plan("t5-small", "batch:2,model:2").notes


def test_memory_of_chips():
    assert [memory_of(c) / 1e9 for c in ("v3", "v4", "v5e", "v5p", "v6e", "80")] == [
        *(16, 32, 16, 95, 32, 80)
    ]
    assert dataclasses.asdict(parse_shape("model:2")) == {"dims": (("model", 2),)}


PEAK = """
import json, resource, sys, time
from hypertf.mesh.plan import plan

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before, start = peak(), time.monotonic()
plan("t5-11b", "8x16", cores_per_replica=32, conditioner="hyperprompt-global")
print(json.dumps([peak() - before, time.monotonic() - start]))
"""


def test_a_large_plan_takes_little_memory_and_time(big):
    result = subprocess.run(
        [sys.executable, "-c", PEAK], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-3000:]
    grown, seconds = json.loads(result.stdout.splitlines()[-1])
    weights = sum(4 * g.count * math.prod(g.shape) for g in big.groups)
    assert weights > 45e9
    assert grown < 200e6
    assert seconds < 20


def run_program(*flags):
    command = [sys.executable, "-m", "hypertf.mesh.plan", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_program_prints_and_writes_a_plan(tmp_path):
    output = tmp_path / "plan.json"
    asked = ("--model=t5-3b", "--mesh_shape=batch:8", f"--output={output}")
    result = run_program(*asked)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "does not fit" in result.stdout
    assert "this fits: --mesh_shape=" in result.stdout
    written = json.loads(output.read_text())
    planned = plan("t5-3b", "batch:8")
    assert written["totals"]["training"] == planned.training
    assert written["totals"]["fits"] is False
    assert len(written["groups"]) == len(planned.groups)


def test_the_program_says_what_is_wrong():
    result = run_program("--model=t5-base", "--mesh_shape=model:8")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("hypertf.mesh.plan: encoder/")
