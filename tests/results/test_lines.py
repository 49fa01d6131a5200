"""The lines on the terminal: three verdicts, and a reach that is never better than what is known."""

import pytest

from covad.results import headlines


def _summary(closes=True, reach=()):
    shifts = [
        {"median_shift": {"shift": shift}, "test": "convex", "configuration": "a"} for shift in (0.1, -0.2)
    ]
    return {
        "headline": {"closes": {"convex, a": closes}},
        "closure": shifts,
        "spaces": [{"name": "my_enc_linear", "embedding": "my_enc", "order": 1, "reach": list(reach)}],
        "significance": [],
        "toys": {"requested": 3, "done": 1, "failed": 1, "missing": 1},
    }


def _reach(nu, n_events, low, high):
    return {"nu": [nu], "n_events": n_events, "interval": {"low": low, "high": high}}


@pytest.mark.parametrize(
    ("closes", "words"), [(True, "closes"), (False, "does not close"), (None, "too few toys to tell")]
)
def test_a_verdict_has_three_values(closes, words):
    (line, _) = headlines(_summary(closes))
    assert line == f"convex, a: {words}, the median of t moves by up to -0.20 standard deviations"


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
    line = headlines(_summary(reach=reach))[1]
    assert line == f"closure reach of my_enc, linear for the convex test: {said}"
