"""The quickstart for a few steps: everything it promises is printed and drawn."""

import pytest
from absl import flags

from experiments import quickstart as program


@pytest.mark.slow
def test_the_program_runs(shallow, data_dir, tmp_path, capfd):
    (tmp_path / "data").symlink_to(data_dir)  # written once for all tests
    values = flags.FlagValues()
    program._define(values)
    values(["quickstart", "--steps=4", f"--output={tmp_path}"])
    program._call(values)
    printed, errors = capfd.readouterr()
    for line in errors.splitlines():  # after 4 steps all answers may be alike
        assert "is undefined, counted as 0" in line
    assert printed.count(": 4 steps of 64 examples") == 3
    assert len(printed.splitlines()) < 85
    for name in ("plain", "plain-named", "hyperprompt-global"):
        assert f"== {name}\n" in printed
        assert (tmp_path / name / "model.ckpt-4.index").exists()
    for task in ("nano/acceptability", "nano/sentiment", "nano/coreference"):
        assert printed.count(task) >= 3  # its answers, and its scores
    assert "average" in printed
    assert "the SavedModels answer" in printed
    served = tmp_path / "export" / "hyperprompt-global"
    assert f"-m experiments.serve --export_dir={served}" in printed
    assert (served / "1" / "saved_model.pb").exists()
    assert not (tmp_path / "export" / "plain-named").exists()
    drawn = ("weight_similarity.png", "weight_similarity.csv")
    for file in ("report.md", "loss.png", "task_loss.png", "scores.png", *drawn):
        assert (tmp_path / "report" / file).stat().st_size > 100
