"""The quickstart for a few steps: everything it promises is printed and drawn."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@pytest.mark.slow
def test_the_program_runs(tmp_path):
    command = [sys.executable, "-m", "experiments.quickstart"]
    command += ["--steps=4", f"--output={tmp_path}"]
    environment = {k: v for k, v in os.environ.items() if k != LEVEL}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    for line in result.stderr.splitlines():  # after 4 steps all answers may be alike
        assert "is undefined, counted as 0" in line
    assert result.stdout.count(": 4 steps of 64 examples") == 3
    assert len(result.stdout.splitlines()) < 85
    for name in ("plain", "plain-named", "hyperprompt-global"):
        assert f"== {name}\n" in result.stdout
        assert (tmp_path / name / "model.ckpt-4.index").exists()
    for task in ("nano/acceptability", "nano/sentiment", "nano/coreference"):
        assert result.stdout.count(task) >= 3  # its answers, and its scores
    assert "average" in result.stdout
    assert "the SavedModels answer" in result.stdout
    served = tmp_path / "export" / "hyperprompt-global"
    assert f"-m experiments.serve --export_dir={served}" in result.stdout
    assert (served / "1" / "saved_model.pb").exists()
    assert not (tmp_path / "export" / "plain-named").exists()
    drawn = ("weight_similarity.png", "weight_similarity.csv")
    for file in ("report.md", "loss.png", "task_loss.png", "scores.png", *drawn):
        assert (tmp_path / "report" / file).stat().st_size > 100
