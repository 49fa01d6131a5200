"""The rule for alpha: the smallest that reaches five times the data, else that of the largest reach."""

import math

import pytest

from covad.errors import InferenceError
from covad.inference.frontier import Frontier, FrontierPoint, frontier
from covad.inference.intervals import Interval
from covad.inference.reach import Reach
from covad.storage.records import plain, restore

EXPECTED = 1000.0


def point(alpha, low, seed=0, setting="", power=None, open_above=False):
    """A space whose reach has this lower end, and an estimate twice as large."""
    reach = Reach(None if open_above else 2 * low, Interval(low, None if open_above else 4 * low), 0.25, 100)
    near = Reach(low, Interval(0.5 * low, 2 * low), 0.25, 100)
    return FrontierPoint(
        f"a{alpha:g}s{seed}", setting, alpha, seed, reach, ((1.0, reach), (2.0, near)), power
    )


def test_the_smallest_alpha_that_reaches_enough_is_chosen():
    (choice,) = frontier([point(30.0, 9e4), point(1.0, 5e3), point(0.0, 4.9e3)], EXPECTED).choices
    assert (choice.alpha, choice.enough, choice.among) == (1.0, True, (0.0, 1.0, 30.0))
    assert choice.text == (
        "by the rule: alpha = 1: the smallest of 0, 1, 30 whose prior-averaged reach (5 000 events or more) "
        "is at least 5 times the expected data (5 000 events)"
    )


def test_the_estimate_alone_is_not_enough():
    """The estimate of alpha = 0 is above 5000 events, the lower end of its interval is not."""
    (choice,) = frontier([point(0.0, 3e3), point(10.0, 6e3)], EXPECTED).choices
    assert choice.alpha == 10.0


def test_if_none_reaches_enough_the_largest_is_taken_and_told():
    (choice,) = frontier([point(0.0, 100.0), point(1.0, 300.0), point(3.0, 200.0)], EXPECTED).choices
    assert (choice.alpha, choice.enough) == (1.0, False)
    assert "of 0, 1, 3 no prior-averaged reach is at least 5 times the expected data" in choice.text
    (tied,) = frontier([point(3.0, 300.0), point(1.0, 300.0)], EXPECTED).choices
    assert tied.alpha == 1.0


def test_seeds_are_joined_by_their_geometric_mean_whatever_their_number():
    lows = {0: 1e3, 1: 4e3, 2: 1.6e4}
    found = frontier([*(point(0.0, low, seed) for seed, low in lows.items()), point(1.0, 9e3)], EXPECTED)
    none, one = found.settings
    assert none.spaces == ("a0s0", "a0s1", "a0s2")
    assert none.lowest == pytest.approx(4e3)
    assert none.reach.mean == pytest.approx(8e3)
    assert none.reach.spread == pytest.approx(math.log(4.0))
    assert one.reach.spread is None
    assert found.choices[0].alpha == 1.0


def test_an_unbounded_reach_enters_with_its_lower_end():
    found = frontier([point(0.0, 2e3, open_above=True), point(1.0, 7e3, open_above=True)], EXPECTED)
    assert [setting.reach.mean for setting in found.settings] == pytest.approx([2e3, 7e3])
    assert all(setting.reach.bound for setting in found.settings)
    assert found.choices[0].alpha == 1.0


def test_settings_that_differ_in_more_than_alpha_are_apart():
    points = [point(0.0, 9e3, setting=s) for s in ("", "outputs = 6")] + [point(1.0, 1e4)]
    found = frontier(points, EXPECTED)
    assert [(c.setting, c.alpha) for c in found.choices] == [("", 0.0)]
    assert [found.is_chosen(setting) for setting in found.settings] == [True, False, False]


def test_power_has_no_say_and_is_told_if_all_spaces_have_it():
    points = [point(0.0, 9e3, seed, power=power) for seed, power in enumerate((0.2, None))]
    found = frontier([*points, point(1.0, 9e4, power=0.9)], EXPECTED, "convex", ["a3, linear"])
    assert not found.has_power
    assert [setting.power is None for setting in found.settings] == [True, False]
    assert found.choices[0].alpha == 0.0
    assert found.lines[-1] == "the rule for alpha waits for the reach of a3, linear"
    assert restore(Frontier, plain(found), "here") == found


def test_nothing_to_choose_from_is_no_choice():
    assert not frontier([], EXPECTED).choices
    assert not frontier([point(1.0, 1e3, seed) for seed in (0, 1)], EXPECTED).choices


@pytest.mark.parametrize(
    ("points", "expected", "words"),
    [
        ([point(0.0, 1e3)], 0.0, "positive number of expected events, not 0"),
        ([point(math.nan, 1e3)], EXPECTED, "has the alpha nan: 0 or more is needed"),
        ([point(0.0, 0.0)], EXPECTED, "no lower end above 0 events"),
    ],
)
def test_what_cannot_be_is_refused(points, expected, words):
    with pytest.raises(InferenceError, match=words):
        frontier(points, expected)
