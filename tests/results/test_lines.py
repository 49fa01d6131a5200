"""The lines on the terminal: three verdicts, and a reach that is never better than what is known."""

from dataclasses import replace

import pytest
import report_world

from covad.inference.closure import FalsePositives, MedianShift
from covad.inference.intervals import Interval
from covad.inference.reach import Reach
from covad.inference.verdict import Verdict
from covad.results import point_line, summary_lines
from covad.results.lines import search_text
from covad.results.summary import ClosureSummary, ToyCounts
from covad.runs.checks import ReachAt, SpaceReach
from covad.study import read_study
from covad.study.presets import write_preset


def _summary(verdict=Verdict.CLOSES, reach=None):
    found = report_world.evidence((("covariant", "profiled", 1),), injections=()).summary
    rate = {"null": "R_0", "n_toys": 400, "exceeding": 9, "rate": 0.0225, "interval": Interval(0.01, 0.03)}
    chances = {"excess_p": 0.5, "detectable_ratio": 2.4, "ratio": 1.0, "ratio_interval": Interval(0.5, 1.8)}
    unknown = dict.fromkeys([*chances, "rate", "interval"])
    closure = tuple(
        ClosureSummary(
            test="convex",
            configuration="covariant-profiled",
            point=point,
            n_toys=400,
            verdict=verdict,
            reason="for a reason",
            against_null=(),
            against_chi2=(),
            median_shift=MedianShift(shift, 9.5, Interval(shift - 0.1, high)),
            false_positives=(
                FalsePositives(z_alpha=2.0, alpha=0.0228, **rate, **chances),
                FalsePositives(z_alpha=3.0, alpha=0.00135, **(rate | unknown)),
            ),
        )
        for point, shift, high in (("R_+1", 0.1, 0.2), ("prior", -0.2, None))
    )
    space = replace(found.spaces[0], name="my_enc_linear", space="my_enc")
    spaces = () if reach is None else (replace(space, reach=reach),)
    return replace(found, closure=closure, spaces=spaces, toys=ToyCounts(3, 1, 1, 1))


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_has_one_wording(verdict):
    search, line, toys = summary_lines(_summary(verdict))
    assert search == "search: 10000 expected events; nuisances: jet_energy_scale, normalisation (sigma = 0.1)"
    alarms = "without a signal up to 2.2 % of toys pass 2 sigma, at nu = +1, where 2.3 % should"
    assert line == f"convex test, covariant, profiled: {verdict}: for a reason; {alarms}"
    assert toys == "toys: 3 requested = 1 done + 1 failed + 1 missing"


def test_the_search_is_told_with_its_uncertainties(tmp_path):
    write_preset("quick", tmp_path / "study.yaml")
    study = read_study(tmp_path / "study.yaml")
    uncertain = "jet_energy_scale (sigma = 0.025), normalisation (sigma = 0.1)"
    assert search_text(study) == f"search: 3000 expected events; nuisances: {uncertain}"


def test_a_point_is_told_with_its_intervals():
    up, prior = (point_line(point) for point in _summary().closure)
    rate = "rate at 2 sigma 1.00 [0.50, 1.80] times nominal (400 toys, 90 %)"
    assert up == f"nu = +1: median +0.10 [+0.00, +0.20] standard deviations, {rate}"
    assert prior == f"prior: median -0.20 [-0.30, open] standard deviations, {rate}"


def test_sensitivity_is_that_of_the_main_configuration_against_the_null_that_is_quoted():
    configurations = (("covariant", "profiled", 1), ("contrastive", "profiled", 1))
    summary = report_world.evidence(configurations, injections=(("a4l", 100.0),)).summary
    told = [line for line in summary_lines(summary) if "median Z" in line]
    assert len(told) == len(summary.tests)
    for test, line in zip(summary.tests, told, strict=True):
        null = {"network": "R_0", "convex": "analytic"}[test]
        assert line.startswith(
            f"{test} test, {summary.main.label}: 100 events of a4l (1 %) give a median Z of "
        )
        (quoted,) = (
            found
            for found in summary.significance
            if (found.test, found.null, found.configuration) == (test, null, summary.main_configuration)
            and not any(found.nu)
        )
        mark = "† († beyond what toys of this study have tested)"
        assert line.endswith(f"median Z of {quoted.text}{mark if quoted.extrapolated else ''}")


def test_a_z_beyond_the_toys_is_marked():
    found = report_world.evidence((("covariant", "profiled", 1),), injections=(("a4l", 100.0),))
    for extrapolated in (True, False):
        far = report_world.changed(found, "significance", lambda _, e=extrapolated: {"extrapolated": e})
        told = [line for line in summary_lines(far.summary) if "median Z" in line]
        assert told
        assert all(("† beyond what toys" in line) is extrapolated for line in told)


def test_closure_that_nothing_tells_of_is_said_to_be_unknown():
    _, line, _ = summary_lines(replace(_summary(), closure=()))
    assert (
        line == "closure: not known yet, there are fewer than 10 background toys at nu = 0 or at shifted nu"
    )


KNOWN = (12_345.0, Interval(9_000.0, 15_000.0), 0.25, 500)
LARGER = (20_000.0, Interval(16_000.0, 30_000.0), 0.25, 500)
OPEN = (20_000.0, Interval(10_000.0, None), 0.25, 500)
NONE_SEEN = (None, Interval(8_000.0, None), 0.25, 500)
NO_MISFIT = (None, Interval(1e9, None), 0.25, 500)


@pytest.mark.parametrize(
    ("points", "average", "said"),
    [
        (
            {1.0: LARGER, -1.0: KNOWN, 2.0: NONE_SEEN, -2.0: NO_MISFIT},
            OPEN,
            [
                "closes up to 12 300 (9 000 to 15 000) at +-1 sigma, up to at least 8 000 at +-2 sigma",
                "averaged over the prior up to at least 10 000 events; 68 % intervals",
            ],
        ),
        (
            {1.0: LARGER, -1.0: NONE_SEEN},
            KNOWN,
            [
                "closes up to 20 000 (8 000 to 30 000) at +-1 sigma",
                "averaged over the prior up to 12 300 (9 000 to 15 000) events; 68 % intervals",
            ],
        ),
        (
            {1.0: NO_MISFIT, -1.0: OPEN},
            NO_MISFIT,
            [
                "closes up to at least 10 000 at +-1 sigma",
                "averaged over the prior up to at least 1 000 000 000 events",
            ],
        ),
    ],
    ids=["smallest", "less known elsewhere", "bounds"],
)
def test_the_reach_is_said_at_each_distance_and_over_the_prior(points, average, said):
    reach = SpaceReach(Reach(*average), tuple(ReachAt(*found, (nu,)) for nu, found in points.items()))
    *_, line, _ = summary_lines(_summary(reach=reach))
    assert line == f"closure reach of my_enc, linear, convex test: {'; '.join(said)}"


def test_the_reach_of_several_nuisances_is_that_of_the_worst():
    points = {(1.0, 0.0): LARGER, (0.0, -1.0): KNOWN, (2.0, 0.0): KNOWN, (0.0, 2.0): LARGER}
    reach = SpaceReach(Reach(*KNOWN), tuple(ReachAt(*found, nu) for nu, found in points.items()))
    assert reach.smallest == {1.0: Reach(*KNOWN), 2.0: Reach(*KNOWN)}
