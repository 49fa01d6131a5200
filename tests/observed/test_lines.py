"""The few lines on an observed file tell its result, its nuisances and where the excess lies."""

from dataclasses import replace

from observations import observable, observation

from covad.observed.lines import observation_lines


def test_the_lines_of_an_observed_file():
    found = observation("a.h5", 1.25)
    network = found.tests[0]
    far = replace(observable("HT"), top_mean=9.0, top_error=0.5, everywhere_mean=4.0)
    near = replace(observable("leading jet pt"), top_mean=90.0, top_error=50.0, everywhere_mean=40.0)
    excess = replace(network.excess, observables=(near, far))
    told = list(observation_lines(replace(found, tests=(replace(network, excess=excess), *found.tests[1:]))))
    assert told[0] == f"observed a.h5: 10100 events selected: {found.answer.line.removeprefix('result: ')}"
    assert told[1].startswith("  nuisances without an excess, in sigma: jet_energy_scale -0.25 +- 0.12")
    assert told[2] == "  where: 100 events where 81.5 +- 2.0 are expected; mean HT 9 +- 0.5, of all events 4"
    assert told[3:] == [f"  warning: {warning}" for warning in found.warnings]


def test_a_failed_fit_has_no_place():
    found = observation("a.h5", 1.25)
    failed = replace(found.tests[0], excess=None)
    told = list(observation_lines(replace(found, tests=(failed, *found.tests[1:]))))
    assert not any("where" in line for line in told)
