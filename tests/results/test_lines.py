"""The lines on the terminal: three verdicts, and a reach that is never better than what is known."""

from dataclasses import replace

import pytest
import report_world

from covad.inference.closure import MedianShift, Verdict
from covad.inference.intervals import Interval
from covad.inference.reach import Reach
from covad.results import summary_lines
from covad.results.summary import ClosureSummary, ToyCounts
from covad.runs.checks import ReachAt, SpaceReach


def _summary(verdict=Verdict.CLOSES, reach=None):
    found = report_world.evidence((("covariant", "profiled", 1),), injections=()).summary
    open_interval = Interval(None, None)
    closure = tuple(
        ClosureSummary(
            test="convex",
            configuration="covariant-profiled",
            nu=(nu,),
            verdict=verdict,
            against_null=(),
            against_chi2=(),
            median_shift=MedianShift(shift, 9.5, open_interval, open_interval),
            false_positives=(),
        )
        for nu, shift in ((1.0, 0.1), (-1.0, -0.2))
    )
    space = replace(found.spaces[0], name="my_enc_linear", embedding="my_enc")
    spaces = () if reach is None else (replace(space, reach=reach),)
    return replace(found, closure=closure, spaces=spaces, toys=ToyCounts(3, 1, 1, 1))


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_has_one_wording(verdict):
    line, toys = summary_lines(_summary(verdict))
    moves = "the median of t moves by up to -0.20 standard deviations"
    assert line == f"convex, covariant, profiled: {verdict}, {moves}"
    assert toys == "toys: 3 requested = 1 done + 1 failed + 1 missing"


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
    _, line, _ = summary_lines(_summary(reach=reach))
    assert line == f"closure reach of my_enc, linear, convex test: {'; '.join(said)}"


def test_the_reach_of_several_nuisances_is_that_of_the_worst():
    points = {(1.0, 0.0): LARGER, (0.0, -1.0): KNOWN, (2.0, 0.0): KNOWN, (0.0, 2.0): LARGER}
    reach = SpaceReach(Reach(*KNOWN), tuple(ReachAt(*found, nu) for nu, found in points.items()))
    assert reach.smallest == {1.0: Reach(*KNOWN), 2.0: Reach(*KNOWN)}
