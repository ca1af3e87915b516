"""Mixing rates equal SeqIO's and T5's."""

import json

import pytest

from tests.conftest import shared_path
from tfds_tasks import Rates, get_mixture, get_task
from tfds_tasks.rates import nested


@pytest.fixture(scope="module")
def golden():
    return json.loads(shared_path("goldens/t5_mixtures.json").read_text())


def test_rate_of_a_task_equals_seqio(golden):
    cases = golden["mixing_rate_num_examples"]
    assert cases
    for case in cases:
        rates = Rates(
            scale=case["scale"],
            cap=case["maximum"] or None,  # 0 stands for none there
            temperature=case["temperature"],
        )
        got = rates.of(case["num_examples"])
        assert got == pytest.approx(case["rate"], rel=1e-12), case


def test_nested_mixture_equals_seqio(golden):
    case = golden["nested_mixture"]
    (inner,) = set(case["outer"]) - set(case["rates"])
    assert nested(case["outer"], {inner: case["inner"]}) == pytest.approx(case["rates"])


@pytest.mark.parametrize(
    "ours, theirs", [("glue", "glue"), ("super_glue", "super_glue")]
)
def test_named_mixtures_equal_t5(golden, ours, theirs):
    expected = {}
    for name, rate in golden["weight_mappings_in_glue_utils"][theirs].items():
        task = get_task(name).name
        expected[task] = expected.get(task, 0.0) + rate  # WSC is two tasks there
    assert get_mixture(ours).task_rates() == expected


def test_probabilities_equal_t5(golden):
    mixtures = [
        (get_mixture(ours), golden["fixed_rate_mixtures"][name])
        for ours in ("glue", "super_glue")
        for name in golden["fixed_rate_mixtures"]
        if name.startswith(ours + "_v") and name.endswith("_proportional")
    ]
    assert len(mixtures) >= 2
    for mixture, expected in mixtures:
        shares = {}
        for name, share in expected["probabilities"].items():
            task = get_task(name).name
            shares[task] = shares.get(task, 0.0) + share
        assert mixture.probabilities() == pytest.approx(shares)


def test_rates_of_t5s_function_mixtures(golden):
    """T5 counts some tasks otherwise than we do: the sizes are those it was given."""
    sizes = golden["sizes_supplied"]
    settings = {
        "maximum=None": Rates(),
        "maximum=1e6": Rates(cap=1e6),
        "maximum=65536": Rates(cap=65536),
        "maximum=2**21,temperature=2": Rates(cap=2**21, temperature=2),
        "scale=0.5,maximum=50000,temperature=3": Rates(
            scale=0.5, cap=50000, temperature=3
        ),
    }
    compared = 0
    for mixture in golden["function_rate_mixtures"].values():
        for setting, computed in mixture["computed"].items():
            if setting not in settings:
                continue
            for task, how in mixture["declared"].items():
                if how == "function:rate_num_examples":
                    got = settings[setting].of(sizes[task])
                    assert got == pytest.approx(computed["rates"][task], rel=1e-12)
                    compared += 1
    assert compared


def test_en_mix_is_glue_and_super_glue():
    en_mix = get_mixture("en_mix")
    both = get_mixture("glue").task_rates() | get_mixture("super_glue").task_rates()
    assert en_mix.task_rates() == both
    assert en_mix.num_tasks == 16


def test_tasks_of_one_kind_share_an_id():
    en_mix = get_mixture("en_mix")
    assert en_mix.task_id("glue/ax") == en_mix.task_id("glue/mnli_matched")
    assert en_mix.task_id("glue/ax") == en_mix.task_id("glue/mnli")
    assert en_mix.task_id("dpr") == en_mix.task_id("super_glue/wsc")
    assert en_mix.task_id("glue/rte") != en_mix.task_id("super_glue/rte")


def test_equal_rates_draw_every_training_task_alike():
    shares = get_mixture("glue", rates="equal").probabilities()
    assert {name for name, share in shares.items() if not share} == {
        "glue/ax",
        "glue/mnli_matched",
        "glue/mnli_mismatched",
    }
    assert set(shares.values()) == {0.0, 1 / 8}


@pytest.mark.parametrize(
    "options, words",
    [
        ({"temperature": 0}, "temperature=0"),
        ({"temperature": -2.0}, "temperature=-2.0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"cap": 0}, "cap=0"),
        ({"scale": 0}, "scale=0"),
        ({"kind": "even"}, "rates='even'"),
        ({"kind": "equal", "temperature": 10}, "change nothing"),
    ],
)
def test_rates_out_of_range(options, words):
    with pytest.raises(ValueError, match=words):
        Rates(**options)


def test_unknown_names_get_the_nearest():
    with pytest.raises(ValueError, match=r"unknown task 'glue/coal'.*glue/cola"):
        get_task("glue/coal")
    with pytest.raises(ValueError, match=r"unknown task 'cola'.*glue/cola"):
        get_task("cola")
    with pytest.raises(ValueError, match=r"unknown mixture 'superglue'.*super_glue"):
        get_mixture("superglue")
    with pytest.raises(ValueError, match="glue/rte more than once"):
        get_mixture("glue/rte,glue/rte")
