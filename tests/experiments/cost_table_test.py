"""The tables of costs: counts beside the paper's, measurements in ratio to plain."""

import pytest

from experiments.reports import measured_cost
from experiments.reports.cost_table import cost_table
from experiments.reports.measured_cost import Measured
from hypertf.analysis.cost import Workload

ROWS = ("hyperprompt_base_mtl", "hyperprompt_base_share", "lora")


def test_counts_stand_beside_the_papers():
    text = cost_table("t5-nano", Workload(4, 32, 8), ROWS)
    lines = text.splitlines()
    plain, share, lora = lines[2:5]
    assert plain.startswith("plain, Table 2") and plain.split()[6] == "1.000"
    counted, formula = share.split()[3:5]
    assert counted == formula
    assert share.split()[-4:] == ["1.000", "9.8e+12", "1.00", "8.0"]
    assert lora.startswith("lora ")
    with pytest.raises(ValueError, match=r"only=\['lara'\], expected some of"):
        cost_table("t5-nano", only=["lara"])


def test_measurements_are_in_ratio_to_the_plain_t5():
    found = dict.fromkeys(measured_cost.PRINTED, Measured(1e9, 0.3))
    found["hyperformer_base"] = Measured(1.5e9, 0.6)
    text = measured_cost.table(found, "t5-small", 16)
    (line,) = (each for each in text.splitlines() if each.startswith("hyperformer "))
    assert line.split()[1:] == ["1.50", "1.50", "0.98", "10.00", "2.00", "1.44"]


def test_a_system_is_measured():
    found = measured_cost.measure("hyperformer_base_t5", "t5-nano", 2, 1)
    assert found.memory >= 0 and found.seconds > 0
