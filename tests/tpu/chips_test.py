"""Chips and topologies, and what is read off a compiled program."""

import sys

import pytest

from hypertf import tpu
from hypertf.tpu import compiler

PROGRAM = tpu.Program(b"", ())


def test_topologies():
    assert tpu.parse_topology("v5e:4x4")[1] == 16
    assert tpu.parse_topology("v5p:2x2x4")[1] == 16
    for name, chip in tpu.CHIPS.items():
        assert chip.name == name
        assert chip.roofline(0, chip.bandwidth) == chip.roofline(chip.flops, 0) == 1


@pytest.mark.parametrize(
    ("topology", "error"),
    [
        ("v5:2x2", "unknown TPU 'v5'"),
        ("v5e", "topology='v5e', expected such as v5e:2x2"),
        ("v5e:2x2x1", "expected such as v5e:2x2"),
        ("v4:2x2", "expected such as v4:2x2x2"),
        ("v5e:0x2", "expected such as v5e:2x2"),
    ],
)
def test_bad_topologies(topology, error):
    with pytest.raises(ValueError, match=error):
        tpu.parse_topology(topology)


def test_more_chips_than_there_are():
    with pytest.raises(ValueError, match="chips=5, expected 1 to 4, as v5e:2x2 has"):
        tpu.compile_hlo(PROGRAM, "v5e:2x2", 5)


def test_without_the_compiler(monkeypatch):
    monkeypatch.setitem(sys.modules, "libtpu", None)
    with pytest.raises(RuntimeError, match=r'pip install "hypertf\[tpu-compiler\]"'):
        tpu.compile_hlo(PROGRAM, "v5e:2x2")


def test_collectives_are_counted():
    text = """
    %a = (f32[4,8]{1,0}, bf16[2]{0}) all-reduce(%b, %c), channel_id=1
    %d = f32[10]{0} all-gather-start(%e), channel_id=2
    %f = f32[10]{0} add(%all-reduce.1, %a)
    %g = f32[10]{0} all-gather(%h), channel_id=2, dimensions={0}
    """
    counted = compiler.count_collectives(text)
    assert counted == {"all-reduce": (1, 132), "all-gather": (1, 40)}


def test_an_error_names_the_layer():
    refused = 'INTERNAL: too large\n %x.3 op_name="t5/encoder/block_000/MatMul"\n'
    words = compiler.explained(refused, "")
    assert "in t5/encoder/block_000/MatMul: INTERNAL: too large" in words
    by_line = '%x.3 = stablehlo.dot %a, %b loc("t5/decoder/block_001/o")'
    words = compiler.explained("cannot lower %x.3", by_line)
    assert "in t5/decoder/block_001/o: cannot lower" in words
