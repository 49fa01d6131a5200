"""The benchmark of observed files must not let a wrong warning pass."""

from types import SimpleNamespace

import pytest
from benchmark_module import load

benchmark = load("observed_files")
SURPRISE = "900 events are observed where 500 are expected: +3.7 standard deviations; is --expected right?"


@pytest.mark.parametrize(
    ("nu_norm", "auxiliary", "wrong"),
    [
        (2.5, {"jet_energy_scale": 1.2, "normalisation": 0.0}, True),
        (2.5, {"jet_energy_scale": 1.2, "normalisation": -0.6}, False),
        (0.0, {"jet_energy_scale": 4.3, "normalisation": 0.0}, False),
        (2.5, {}, True),
        (3.1, {}, False),
    ],
    ids=["within", "far from its measurement", "another one", "not measured, within", "not measured, far"],
)
def test_a_surprising_yield_is_wrong_where_the_truth_is_not(nu_norm, auxiliary, wrong):
    experiment = benchmark.Experiment(0, (1.0,), nu_norm, auxiliary, None, 0.0)
    found = SimpleNamespace(warnings=(SURPRISE, "the fit of the network test ended as 'slow'"))
    assert experiment.wrong_warnings(found) == ([SURPRISE] if wrong else [])
