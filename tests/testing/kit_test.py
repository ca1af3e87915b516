"""The kit passes what is right and names what is wrong."""

import textwrap

import numpy as np
import pytest

import hypertf
from hypertf.conditioning import registry
from hypertf.testing import CHECKS, Case, check_method, kit
from hypertf.testing.case import require_close
from tests.testing.broken_methods import BROKEN, Sound

pytestmark = pytest.mark.usefixtures("own_registries")


def blocks(text):
    """The examples of a docstring."""
    return [textwrap.dedent(b.split("```")[0]) for b in text.split("```python\n")[1:]]


@pytest.mark.slow
def test_a_method_of_ones_own_passes_all_checks(capsys):
    (example,) = blocks(hypertf.testing.__doc__)
    exec(example, {})
    table = capsys.readouterr().out
    # It changes what comes after the last kernel, which no kernel can.
    assert f"scale: {len(CHECKS) - 1} of {len(CHECKS)} checks passed" in table
    assert "scale cannot be folded into a plain T5" in table
    assert all(name in table for name in CHECKS)


def test_the_example_of_check_method(monkeypatch, capsys):
    """Not all checks: those of our methods are run one by one elsewhere."""
    monkeypatch.setattr(kit, "CHECKS", {"names": CHECKS["names"]})
    (example,) = blocks(check_method.__doc__)
    exec(example, {"hypertf": hypertf})
    assert "prompt-tuning: 1 of 1 checks passed" in capsys.readouterr().out
    assert f"{len(CHECKS) - 1} of {len(CHECKS)} checks passed" in check_method.__doc__


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        pytest.param(cls, check, id=f"{cls.__name__}-{check}")
        for cls, checks in BROKEN
        for check in checks
    ],
)
def test_a_broken_method_fails(broken, check):
    registry.register(broken, "broken")
    with pytest.raises(AssertionError, match=f"^broken: {check}: "):
        CHECKS[check](Case("broken"))


def test_a_sound_method_passes():
    """The one that the broken ones are made of: it is what they change that fails."""
    registry.register(Sound, "sound")
    slow = {"compiled_step", "compiled_generate"}
    results = check_method("sound", skip=slow).results
    assert {n for n, r in results.items() if r != "passed"} == {*slow, "folded"}


def test_every_check_can_fail():
    assert set(CHECKS) == {check for _, checks in BROKEN for check in checks}


def test_all_failures_are_listed():
    (broken,) = (cls for cls, _ in BROKEN if cls.__name__ == "ReadsItsBatchMates")
    registry.register(broken, "broken")
    skip = set(CHECKS) - {"names", "mixed_tasks", "single"}
    with pytest.raises(AssertionError) as error:
        check_method("broken", skip=skip)
    first, *lines = str(error.value).splitlines()
    assert first == f"broken: 2 of {len(CHECKS)} checks failed"
    assert [line.split(": ")[1] for line in lines] == ["single", "mixed_tasks"]


def test_what_is_skipped():
    registry.register(Sound, "sound")
    kept = {"names", "gradients"}
    summary = check_method("sound", num_tasks=2, skip=set(CHECKS) - kept)
    assert {name for name, r in summary.results.items() if r == "passed"} == kept
    assert f"2 of {len(CHECKS)} checks passed" in str(summary)
    with pytest.raises(ValueError, match="skip='gradient', expected some of"):
        check_method("sound", skip=["gradient"])


def test_what_cannot_be_made_is_one_error():
    with pytest.raises(ValueError, match="unknown option 'lenght'"):
        check_method("prompt-tuning", lenght=3)
    with pytest.raises(ValueError, match="num_tasks=1, expected at least 2"):
        check_method("prompt-tuning", num_tasks=1)


def test_nan_is_not_close():
    with pytest.raises(AssertionError, match="logits: off by nan"):
        require_close("logits", [np.nan], [1.0])
