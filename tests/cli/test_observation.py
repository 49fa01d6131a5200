"""`covad test` on the terminal: every number is told, and what rests on a law alone is marked."""

from dataclasses import replace

import pytest
from observations import input_comparison, observable, observation, significance

from covad.cli.observation import print_observation


@pytest.mark.parametrize("extrapolated", [True, False])
def test_a_significance_beyond_the_toys_has_a_dagger(extrapolated, capsys):
    usual = observation("a.h5", 1.0)
    against_law = (significance("chi2", 5.5, extrapolated=extrapolated),)
    network = replace(usual.result("network"), significances=against_law)
    print_observation(replace(usual, tests=(network,)))
    shown = capsys.readouterr().out
    assert "5.50" in shown
    assert ("5.50 †" in shown) == extrapolated
    assert ("† beyond what toys of this study have tested" in shown) == extrapolated


def test_the_tables_say_what_the_numbers_say(capsys):
    told = observation("a.h5", 1.25)
    network = told.result("network")
    excess = replace(network.excess, observables=(replace(observable("leading jet pt"), region_mean=6.25),))
    print_observation(replace(told, tests=(replace(network, excess=excess), told.result("convex"))))
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        "a.h5: 10100 of 10200 events selected, 10000 expected; configuration covariant, profiled",
        "all 8 inputs look like the simulation",
        "agree with p = 0.61 (chi2 1.00 / 2)",
        "jet_energy_scale +0.500 -0.250 +- 0.125 -0.75",
        "network test: t = 60.00 (converged)",
        "R_0 0.106 1.25 +0.10 -0.10",
        "chi2 0.106 1.25",
        "convex test: failed",
        "the 100 events of largest h (h >= 1.50), where 81.5 +- 2.0 are expected",
        "leading jet pt 8.00 +- 0.50 6.25 7.50",
        "first by h: events 7 (1.50)",
        "warning: the fit of the convex test ended as 'failed'",
    ):
        assert text in shown


def test_inputs_that_differ_stand_before_t(capsys):
    told = replace(observation("a.h5", 1.0), inputs=input_comparison(wrong=True))
    print_observation(told)
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 of 8 inputs do not look like the simulation" in shown
    assert shown.index("jet phi data") < shown.index("network test: t")
    assert "jet pt data" not in shown
