"""Every weight of every size has one name in every format."""

import pytest

import hypertf
from hypertf.checkpoints import huggingface, kerashub, mesh
from hypertf.checkpoints.reader import BLOCK_BYTES, StoredTensor, row_ranges
from hypertf.checkpoints.rules import NORM, Rule, translate
from hypertf.t5 import Unallocated, named_weights


def rules_of(format, config):
    if format == "huggingface":
        return huggingface.rules(config)
    return {"mesh": mesh.RULES, "kerashub": kerashub.RULES}[format]


@pytest.mark.parametrize("format", ["huggingface", "mesh", "kerashub"])
@pytest.mark.parametrize("size", ["t5-11b", "t5.1.1-xxl"])
def test_no_two_weights_share_a_name(size, format):
    config = hypertf.T5Config.from_name(size)
    with Unallocated():
        names = list(named_weights(hypertf.T5(config)))
    rules = rules_of(format, config)
    theirs = [name for ours in names for name in translate(ours, rules).names]
    assert len(set(theirs)) == len(theirs) >= len(names)


def test_numbers_lose_their_zeros():
    rules = [Rule(NORM, ("{stack}.{block}.{layer}",))]
    translation = translate("decoder/block_012/layer_001/rms_norm/scale", rules)
    assert translation.names == ("decoder.12.1",)


def test_a_name_without_a_rule_is_an_error():
    with pytest.raises(ValueError, match=r"no rule .*'encoder/something'"):
        translate("encoder/something", [Rule(NORM, ("{name}",))])


@pytest.mark.parametrize(
    "shape", [(), (5,), (3, 2), (7, BLOCK_BYTES // 8), (3, BLOCK_BYTES)]
)
def test_blocks_cover_all_rows_once(shape):
    ranges = list(row_ranges(StoredTensor(shape, "float32")))
    rows = [row for start, stop in ranges for row in range(start, stop)]
    assert rows == list(range(shape[0] if shape else 1))
