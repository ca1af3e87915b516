"""HyperGrid's gates equal its own equations in numpy."""

import numpy as np
import pytest

import hypertf
from hypertf import analysis
from tests.conditioning.hypergrid_naive import Naive, naive_gates
from tests.helpers import mixed_batch, tiny_config, tiny_model


class Gates(Naive):
    """Keeps what it multiplies cells with, without eq. 7's 1."""

    def __init__(self, model):
        super().__init__(model)
        self.kept = {}

    def gated(self, stack, i, name, kernel, token):
        path = f"conditioner/{stack}_block_{i:03d}_{name}/"
        own = {
            key.removeprefix(path): value
            for key, value in self.weights.items()
            if key.startswith(path)
        }
        if own:
            self.kept[stack, i, name] = naive_gates(self.options, own, token)
        return super().gated(stack, i, name, kernel, token)


@pytest.mark.parametrize(
    "options",
    [{"d_r": 4, "d_c": 4}, {"variant": "L2", "d_r": 2, "d_c": 4, "placement": "all"}],
)
def test_gates_equal_numpy(options):
    method = hypertf.conditioning.create("hypergrid", tiny_config(), 3, **options)
    model = tiny_model(conditioner=method)
    batch = mixed_batch()
    found = {s: analysis.grids(model, batch, s) for s in ("encoder", "decoder")}
    for row, task in enumerate(batch["task_ids"]):
        naive = Gates(model)
        tokens, decoder_tokens = (
            batch[f"{stack}_tokens"][row] for stack in ("encoder", "decoder")
        )
        used = int((decoder_tokens > 0).sum()) + 1  # the first is the start
        naive.run(tokens[tokens > 0], decoder_tokens[:used], task)
        for stack, by_place in found.items():
            expected = {k[1:]: v for k, v in naive.kept.items() if k[0] == stack}
            assert by_place.keys() == expected.keys()
            for place, gates in by_place.items():
                np.testing.assert_allclose(
                    gates[row], expected[place], rtol=1e-4, atol=1e-6
                )


def test_means_are_by_task_also_in_a_combination():
    method = hypertf.conditioning.create(
        "hyperprompt-share+hypergrid",
        tiny_config(),
        4,
        **{"hyperprompt-share.bottleneck": 4, "hypergrid.d_r": 4, "hypergrid.d_c": 4},
    )
    model = tiny_model(conditioner=method)
    batch = mixed_batch()  # tasks 0 2 1 2, none of 3
    assert analysis.has_grids(model)
    each = analysis.grids(model, batch)[1, "wo"]
    means = analysis.mean_grids(model, [batch])[1, "wo"]
    np.testing.assert_allclose(means[2], (each[1] + each[3]) / 2, rtol=1e-6)
    np.testing.assert_allclose(means[0], each[0], rtol=1e-6)
    assert np.isnan(means[3]).all()


def test_other_methods_have_none():
    assert not analysis.has_grids(tiny_model())
    with pytest.raises(ValueError, match="none has no gates, expected hypergrid"):
        analysis.grids(tiny_model(), mixed_batch())
