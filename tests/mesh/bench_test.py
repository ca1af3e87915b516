"""The bench measures meshes in a process of its own."""

import json

import pytest

from experiments.bench import bench


@pytest.mark.slow
def test_mesh_suite_measures_time_and_bytes(tmp_path, capsys):
    output = tmp_path / "bench.json"
    results = bench("mesh", rounds=1, only=["model:2"], output=output)
    assert json.loads(output.read_text()) == results
    assert results["size"] == "t5-nano"
    rows = results["operations"]["training step"]
    assert list(rows) == ["one device", "model:2"]
    assert rows["one device"]["ratio"] == 1.0
    for row in rows.values():
        assert 0 < row["median_ms"] < 1e3 * row["first_step_s"]
        assert row["bytes_per_device"] == row["planned_bytes"]
    whole, half = (row["bytes_per_device"] for row in rows.values())
    assert whole / 2 < half < whole / 1.9
    assert "model:2" in capsys.readouterr().out


def test_a_mesh_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match='mesh shape "model": "model", expected pairs'):
        bench("mesh", only=["model"], output=tmp_path / "bench.json")
