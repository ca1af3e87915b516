"""HyperGrid's gates and gated product are those of the numpy reference."""

import numpy as np
import pytest

import hypertf
import hypertf.conditioning
from hypertf.conditioning import grids, hypergrid
from tests.helpers import relative_error
from tests.parity.goldens import golden_files

FILES = golden_files("hypergrid*/**/*.npz")
TOLERANCE = 1e-5  # the reference is float64, the inputs float32

# Of every variant of the reference: our options (sizes by their names in the file),
# and the weights of rows and columns.
GRID = {"d_r": "d_r", "d_c": "d_c"}
VARIANTS = {
    "L_n": ({"variant": "L", "cells": "n"}, "U_n", None),
    "L_full": ({"variant": "L"}, "U_full", None),
    "Lfanout_n": (
        {"variant": "L", "axis": "columns", "cells": "n_out"},
        None,
        "U_fanout_n",
    ),
    "Lfanout_full": ({"variant": "L", "axis": "columns"}, None, "U_fanout_full"),
    "L2": ({"variant": "L2", **GRID}, "L_r", "L_c"),
    "LG": ({"variant": "LG", **GRID}, "L_r", "G_c"),
    "GL": ({"variant": "GL", **GRID}, "G_r", "L_c"),
    "scalar": ({"variant": "scalar", **GRID}, "L_r", "L_c"),
    "scalar_presigmoid": (
        {"variant": "scalar", "pool": "logits", **GRID},
        "L_r",
        "L_c",
    ),
    "max": ({"variant": "max"}, "Lmax_r", "Lmax_c"),
    "OG_n": ({"variant": "output", "cells": "n"}, "U_n", None),
    "OG_full": ({"variant": "output"}, "U_full", None),
}


@pytest.fixture(scope="module", params=FILES)
def golden(request):
    return dict(np.load(request.param))


def variants_of(golden):
    """What the file records, but for the product without a gate."""
    recorded = {key.split("/")[1] for key in golden if key.startswith("y/")}
    return recorded - {"none"}


def test_every_recorded_variant_is_ours(golden):
    recorded = variants_of(golden)
    assert recorded and recorded <= set(VARIANTS)


def sites_of(golden, variant, residual):
    """A block whose wo has the golden's shape, and the hypernetwork its weights."""
    size = {k.removeprefix("size/"): int(golden[k]) for k in golden if "size/" in k}
    assert size["d_model"] == size["fan_out"]  # as for T5's wo
    config = hypertf.T5Config(
        vocab_size=8,
        d_model=size["d_model"],
        d_ff=size["fan_in"],
        num_heads=1,
        d_kv=4,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
    options, *names = VARIANTS[variant]
    options = {name: size.get(value, value) for name, value in options.items()}
    conditioner = hypertf.conditioning.create(
        "hypergrid", config, num_tasks=1, residual=residual, **options
    )
    conditioner.build()
    network = conditioner.encoder_networks[0]
    for weight, name in zip((network.rows, network.columns), names, strict=True):
        assert (weight is None) == (name is None)
        if name is not None:
            weight.assign(golden[name])
    return conditioner.encoder(np.array([0])).blocks[0]


def skip_unless_recorded(golden, variant):
    if variant not in variants_of(golden):
        pytest.skip(f"the file does not record {variant}")


@pytest.mark.parametrize("residual", [True, False], ids=["residual", "plain"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_gates_and_products(golden, variant, residual):
    skip_unless_recorded(golden, variant)
    sites = sites_of(golden, variant, residual)
    assert isinstance(sites, hypergrid.GridSites)
    # The task token is the first of the stream; others must not matter.
    stream = np.stack([golden["c"], np.full_like(golden["c"], np.nan)], axis=1)
    observed = sites.observe(stream, "attention")
    if f"gate/{variant}" in golden:
        expected = golden[f"gate/{variant}"] + residual
        assert relative_error(observed["wo"], expected) < TOLERANCE
    y = sites.project("wo", golden["x"], golden["W"], observed)
    expected = golden[f"y/{variant}/{'residual' if residual else 'plain'}"]
    assert relative_error(y, expected) < TOLERANCE


@pytest.mark.parametrize("form", grids.FORMS)
@pytest.mark.parametrize("variant", ["L2", "LG", "GL"])
def test_every_grouping_of_the_product(golden, variant, form):
    skip_unless_recorded(golden, variant)
    gates = golden[f"gate/{variant}"].astype("float32")
    y = grids.FORMS[form](golden["x"], golden["W"], 1 + gates)
    assert relative_error(y, golden[f"y/{variant}/residual"]) < TOLERANCE
