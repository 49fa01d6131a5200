"""The lines on the terminal: three verdicts, and a reach that is never better than what is known."""

from dataclasses import replace

import pytest
import report_world

from covad.inference.closure import MedianShift, Verdict
from covad.inference.intervals import Interval
from covad.results import summary_lines
from covad.results.summary import ClosureSummary, ToyCounts
from covad.runs.checks import ReachAt


def _summary(verdict=Verdict.CLOSES, reach=()):
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
    space = replace(found.spaces[0], name="my_enc_linear", embedding="my_enc", reach=tuple(reach))
    return replace(found, closure=closure, spaces=(space,), toys=ToyCounts(3, 1, 1, 1))


def _reach(nu, n_events, low, high):
    return ReachAt(n_events, Interval(low, high), 0.25, 500, (nu,))


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_has_one_wording(verdict):
    line, toys = summary_lines(_summary(verdict))
    moves = "the median of t moves by up to -0.20 standard deviations"
    assert line == f"convex, covariant, profiled: {verdict}, {moves}"
    assert toys == "toys: 3 requested = 1 done + 1 failed + 1 missing"


@pytest.mark.parametrize(
    ("reach", "said"),
    [
        (
            [_reach(1.0, 12_345.0, 9_000.0, 15_000.0), _reach(-1.0, 20_000.0, 16_000.0, None)],
            "12 300 events (68 % interval: 9 000 to 15 000) at nu = +1",
        ),
        (
            [_reach(1.0, 12_345.0, 9_000.0, 15_000.0), _reach(-1.0, None, 1_000.0, None)],
            "12 300 events (68 % interval: 9 000 to 15 000) at nu = +1; >= 1 000 events at every nu",
        ),
        ([_reach(1.0, None, 9_000.0, None), _reach(-1.0, None, 8_000.0, None)], ">= 8 000 events"),
        ([_reach(1.0, 12_000.0, 9_000.0, None), _reach(-1.0, None, 8_000.0, None)], ">= 8 000 events"),
        ([_reach(1.0, None, 1e9, None)], ">= 1 000 000 000 events"),
    ],
    ids=["interval", "less known elsewhere", "no estimate", "open end", "as far as it is sought"],
)
def test_the_reach_is_the_smallest_with_its_interval_or_a_bound(reach, said):
    _, line, _ = summary_lines(_summary(reach=reach))
    assert line == f"closure reach of my_enc, linear for the convex test: {said}"
