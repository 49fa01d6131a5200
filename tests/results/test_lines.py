"""The lines on the terminal: three verdicts, and a reach that is never better than what is known."""

from dataclasses import replace

import pytest
import report_world

from covad.inference.closure import FalsePositives, MedianShift
from covad.inference.intervals import Interval
from covad.inference.verdict import Verdict
from covad.results import summary_lines
from covad.results.summary import ClosureSummary, ToyCounts
from covad.runs.checks import ReachAt


def _summary(verdict=Verdict.CLOSES, reach=()):
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
    space = replace(found.spaces[0], name="my_enc_linear", embedding="my_enc", reach=tuple(reach))
    return replace(found, closure=closure, spaces=(space,), toys=ToyCounts(3, 1, 1, 1))


def _reach(nu, n_events, low, high):
    return ReachAt(n_events, Interval(low, high), 0.25, 500, (nu,))


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_has_one_wording(verdict):
    line, *_, toys = summary_lines(_summary(verdict))
    assert line == f"convex, covariant, profiled: {verdict}: for a reason"
    assert toys == "toys: 3 requested = 1 done + 1 failed + 1 missing"


def test_the_points_of_the_main_configuration_are_listed_with_their_intervals():
    _, up, prior, _ = summary_lines(_summary())
    rate = "rate at 2 sigma 1.00 [0.50, 1.80] times nominal (400 toys, 90 %)"
    assert up == f"  nu = +1: median +0.10 [+0.00, +0.20] standard deviations, {rate}"
    assert prior == f"  prior: median -0.20 [-0.30, open] standard deviations, {rate}"
    summary = replace(_summary(), main_configuration="another")
    assert not any(line.startswith("  ") for line in summary_lines(summary))


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
    *_, line, _ = summary_lines(_summary(reach=reach))
    assert line == f"closure reach of my_enc, linear for the convex test: {said}"
