"""Sizes by name, parameter counts of the published ones, and bad configurations."""

import pytest

import hypertf
from hypertf.t5 import Unallocated, named_weights

PUBLISHED = {
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "t5.1.1-small": 76_961_152,
    "t5.1.1-base": 247_577_856,
    "t5.1.1-large": 783_150_080,
    "t5.1.1-xl": 2_849_757_184,
    "t5.1.1-xxl": 11_135_332_352,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_of_published_sizes(name):
    with Unallocated():
        model = hypertf.T5(hypertf.T5Config.from_name(name))
    assert model.count_params() == PUBLISHED[name]


def test_unallocated_weights_stay_so_and_do_not_spread():
    with Unallocated():
        unallocated = hypertf.T5(hypertf.T5Config.from_name("t5-nano"))
    allocated = hypertf.T5(hypertf.T5Config.from_name("t5-nano"))
    allocated({"encoder_tokens": [[5, 1]], "decoder_tokens": [[0]]})
    assert all(weight._value is None for weight in unallocated.weights)
    names = named_weights(allocated)
    assert list(named_weights(unallocated)) == list(names)
    assert all(names[name].shape == w.shape for name, w in names.items())


def test_all_names_are_known():
    with pytest.raises(ValueError, match="unknown T5 size") as error:
        hypertf.T5Config.from_name("none")
    known = str(error.value).partition("Known: ")[2].split(", ")
    assert set(known) == {*PUBLISHED, "t5-nano"}


def test_nano_is_small():
    model = hypertf.T5(hypertf.T5Config.from_name("t5-nano"))
    assert model.count_params() < 5_000_000


def test_overrides():
    config = hypertf.T5Config.from_name("t5.1.1-small", dropout_rate=0.0)
    assert config.dropout_rate == 0.0
    assert config.activation == "gated-gelu" and not config.tie_embeddings


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("t5-bas", "t5-base"), ("T5.1.1-large", "t5.1.1-large"), ("nano", "t5-nano")],
)
def test_unknown_name_gets_the_nearest(name, nearest):
    with pytest.raises(ValueError, match=f"unknown T5 size '{name}'.*'{nearest}'"):
        hypertf.T5Config.from_name(name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("d_model", 0),
        ("num_heads", -1),
        ("vocab_size", 1.5),
        ("activation", "gelu"),
        ("dropout_rate", 1.0),
        ("num_buckets", 30),
        ("max_distance", 16),
    ],
)
def test_bad_field_is_named(field, value):
    with pytest.raises(ValueError, match=f"T5Config: .*{field}={value!r}"):
        hypertf.T5Config.from_name("t5-nano", **{field: value})
