"""`bench --suite=tpu`: what is worked out, compiled, kept and said."""

import json

import pytest

from experiments.benchmarks import flax_t5, timing, tpu_suite
from hypertf import conditioning

TINY = tpu_suite.Shapes(rows=4, inputs_length=16, targets_length=8)


def figures(accessed, temporary=1.0, flops=1.0, seconds=1.0):
    return {
        "accessed": accessed,
        "temporary": temporary,
        "flops": flops,
        "seconds": seconds,
    }


def fake(monkeypatch, calls, fail_at=None):
    """Puts made-up figures in the place of the compiler's: 100 and 10 a layer."""

    def compiled(name, depth, config, shapes, folder):
        if name == tpu_suite.FLAX:
            raise ImportError("its environment cannot be made: no network")
        if (name, depth) == fail_at:
            raise KeyboardInterrupt
        calls.append((name, depth))
        per_layer = 10.0 if name == tpu_suite.PLAIN else 12.0
        return figures(100.0 + per_layer * depth, 8.0 * depth, 5.0 + depth)

    monkeypatch.setattr(tpu_suite, "compiled", compiled)


def test_every_further_layer_counts_like_the_second():
    by_depth = {"1": figures(3.5, 100.0, 7.0), "2": figures(6.0, 90.0, 7.25)}
    six = tpu_suite.extrapolated(by_depth, (1, 2), 6)
    assert six == {"accessed": 16.0, "flops": 8.25}
    by_depth = {"2": figures(6.0), "4": figures(7.0)}
    assert tpu_suite.extrapolated(by_depth, (2, 4), 6)["accessed"] == 8.0
    assert tpu_suite.extrapolated(by_depth, (2, 4), 2)["accessed"] == 6.0


def test_ratios_are_quotients_at_the_same_depth():
    by_name = {
        "plain": {"1": figures(10.0), "2": figures(20.0), "6": figures(50.0)},
        "hyperprompt-global": {"1": figures(11.0), "2": figures(22.0)},
        "flax": {"1": figures(1.0), "2": figures(2.0), "6": figures(75.0)},
    }
    rows = tpu_suite.summary(by_name, (1, 2), 6)
    prompt, flax = rows["hyperprompt-global"], rows["flax"]
    assert prompt["accessed"] == 66.0 and prompt["ratios"]["accessed"] == 66.0 / 60.0
    assert prompt["limit"] == 1.05 and prompt["whole"] is None
    assert flax["limit"] is None and flax["whole_ratios"]["accessed"] == 75.0 / 50.0


def test_the_plain_step_and_the_checked_ones_come_first():
    assert tpu_suite.chosen(())[:3] == ["plain", "hyperprompt-global", "flax"]
    methods = {*conditioning.names()} - {"none"}
    assert {*tpu_suite.chosen(())} == {"plain", "flax", *methods}
    assert tpu_suite.chosen(["hypergrid", "flax"]) == ["plain", "flax", "hypergrid"]
    with pytest.raises(ValueError, match=r"only=\['hypergird'\], expected some of"):
        tpu_suite.chosen(["hypergird"])


def test_a_stopped_run_goes_on_and_a_finished_one_starts_anew(
    monkeypatch, tmp_path, capsys
):
    only, calls = ("hypergrid", "hyperprompt-global", "flax"), []
    options = timing.Options(size="t5-small", only=only, folder=str(tmp_path))
    fake(monkeypatch, calls, fail_at=("hyperprompt-global", 2))
    with pytest.raises(KeyboardInterrupt):
        tpu_suite.run(options)
    before = [("plain", 1), ("plain", 2), ("plain", 6), ("hyperprompt-global", 1)]
    assert calls == before

    calls.clear()
    fake(monkeypatch, calls)
    results = tpu_suite.run(options)
    after = [("hyperprompt-global", 2), ("hyperprompt-global", 6)]
    assert calls == [*after, ("hypergrid", 1), ("hypergrid", 2)]
    assert json.loads(json.dumps(results)) == results
    rows = results["operations"]["training step"]
    assert (
        rows["plain"]["accessed"] == 160.0 and rows["plain"]["ratios"]["flops"] == 1.0
    )
    assert rows["hypergrid"]["ratios"]["accessed"] == 172.0 / 160.0
    assert rows["hyperprompt-global"]["whole"]["accessed"] == 172.0
    assert rows["hypergrid"]["whole"] is None
    printed = capsys.readouterr().out
    assert "6 layers in each stack, worked out from 1 and 2" in printed
    assert "1.05  MISSED" in printed and "+0.0%" in printed
    assert "left out: flax (its environment cannot be made: no network)" in printed

    calls.clear()
    tpu_suite.run(options)
    assert calls == [*before, *after, ("hypergrid", 1), ("hypergrid", 2)]


def test_other_source_is_compiled_anew(monkeypatch, tmp_path):
    calls = []
    options = timing.Options(only=("flax",), folder=str(tmp_path))
    fake(monkeypatch, calls, fail_at=("plain", 2))
    for digest in ("before", "after"):
        monkeypatch.setattr(tpu_suite, "source_digest", lambda digest=digest: digest)
        with pytest.raises(KeyboardInterrupt):
            tpu_suite.run(options)
    assert calls == [("plain", 1), ("plain", 1)]


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr(flax_t5, "REQUIRES", ("./no-such-package",))
    for _ in range(2):  # what was half made is not taken for an environment
        with pytest.raises(ImportError, match=r"cannot be made: .*no-such-package"):
            flax_t5.traced({}, tmp_path / "environment")


@pytest.mark.slow
def test_steps_through_the_compiler(tmp_path, capsys):
    pytest.importorskip("libtpu", reason="the extra tpu-compiler is not installed")
    options = timing.Options(size="t5-nano", only=("ia3",), folder=str(tmp_path))
    results = tpu_suite.run(options, TINY)
    rows = results["operations"]["training step"]
    assert list(rows) == ["plain", "ia3"] and results["absent"] == {}
    plain, ia3 = rows["plain"], rows["ia3"]
    for figure in tpu_suite.FIGURES:
        assert 0 < plain["by_depth"]["1"][figure] < plain["by_depth"]["2"][figure]
    for figure in tpu_suite.WORKED_OUT:
        assert plain[figure] == plain["whole"][figure]  # t5-nano has two layers
        assert ia3["ratios"][figure] == ia3[figure] / plain[figure]
    # Only the small vectors are trained: most gradients of weights are not computed.
    assert ia3["ratios"]["flops"] < 0.8
    printed = capsys.readouterr().out
    assert f"{plain['accessed'] / 1e9:.2f}" in printed
    assert f"{ia3['ratios']['accessed']:.3f}" in printed
