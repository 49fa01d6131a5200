"""The frontier of a study: which spaces belong together, and whose power is taken."""

from types import SimpleNamespace
from typing import Any

import pytest

from covad.inference.intervals import Interval
from covad.inference.reach import Reach
from covad.results.frontier import make_frontier, power_digest, setting_of
from covad.results.power import FamilyPower, SettingPower
from covad.runs.checks import ReachAt, SpaceReach
from covad.study import Study, parse_study
from covad.study.plan import one_per_space
from covad.study.spaces import LearnedSpace

ALPHAS = {"a0": 0.0, "a1": 1.0, "a30": 30.0}


def study(alphas: dict[str, float], **changes: Any) -> Study:
    content = {
        "seed": 1,
        "source": {
            "kind": "events",
            "background": {"simulate": 6_000_000},
            "spaces": {name: {"alpha": alpha} for name, alpha in alphas.items()},
        },
        "tests": {"convex": {}},
        "configurations": [{"space": name, "treatment": "profiled"} for name in alphas],
    }
    return parse_study(content | changes, "here")


def reach(low: float) -> SpaceReach:
    found = (2 * low, Interval(low, 3 * low), 0.25, 100)
    return SpaceReach(Reach(*found), tuple(ReachAt(*found, (nu,)) for nu in (1.0, -1.0, 2.0, -2.0)))


def power(space: str, test: str, processes: float, bumps: float = 0.5) -> SettingPower:
    families = (
        FamilyPower("random bumps", 40, bumps, 0, 0, 0),
        FamilyPower("z left out", 3, processes, 0, 0, 0),
    )
    numbers = {"capacity": 45.0, "bumps": 100, "spread": 3.0} if test == "convex" else {"capacity": 90.0}
    return SettingPower(f"{space}, linear", test, families, **numbers)


def test_a_study_of_one_alpha_has_no_frontier():
    assert make_frontier(study({"a1": 1.0}), {("a1", 1): reach(1e3)}) is None
    latent = {"seed": 1, "source": {"kind": "latent"}, "tests": {"convex": {}}}
    assert (
        make_frontier(parse_study(latent | {"configurations": [{"treatment": "profiled"}]}, "here"), {})
        is None
    )


def test_spaces_that_are_not_checked_yet_are_waited_for():
    found = make_frontier(study(ALPHAS), {("a0", 1): reach(1e3), ("a30", 1): reach(9e4)})
    assert [point.space for point in found.points] == ["a0, linear", "a30, linear"]
    assert found.choices[0].alpha == 30.0
    assert found.waiting == ("a1, linear",)
    assert found.test is None
    assert not found.has_power


def test_the_power_is_that_of_the_quoted_test_against_what_is_the_same_in_all_spaces():
    lines = [power(name, "convex", 0.3, 0.9) for name in ALPHAS] + [
        power(name, "adaptive", 0.6) for name in ALPHAS
    ]
    reaches = {(name, 1): reach(1e5) for name in ALPHAS}
    found = make_frontier(study(ALPHAS), reaches, lines)
    assert found.test == "convex, capacity 45, spread 3"
    assert [(point.power, point.bump_power) for point in found.points] == [(0.3, 0.9)] * 3
    adaptive = make_frontier(study(ALPHAS, tests={"adaptive": {}}), reaches, lines)
    assert adaptive.test == "adaptive"
    others = make_frontier(study(ALPHAS, tests={"network": {}}), reaches, lines)
    assert others.test == "adaptive"  # nobody asked for the network's: the largest of all


def test_a_test_that_sees_no_process_is_not_judged_by_bumps_instead():
    blind = [power(name, "convex", 0.0, 0.9) for name in ALPHAS]
    lines = blind + [power(name, "adaptive", 0.1) for name in ALPHAS]
    reaches = {(name, 1): reach(1e5) for name in ALPHAS}
    assert make_frontier(study(ALPHAS, tests={"network": {}}), reaches, lines).test == "adaptive"


def test_a_test_that_was_not_asked_in_all_spaces_compares_nothing():
    lines = [power(name, "convex", 0.3) for name in ("a0", "a1")]
    found = make_frontier(study(ALPHAS), {(name, 1): reach(1e5) for name in ALPHAS}, lines)
    assert found.test is None
    assert {point.power for point in found.points} == {None}


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"toys": 7}, True),
        ({"sizes": {"expected": 20_000}}, False),
        ({"sizes": {"reference": 90_000}}, False),
        ({"normalisation": 0.02}, False),
        ({"tests": {"convex": {}, "adaptive": {"together": [3]}}}, False),
    ],
)
def test_a_power_holds_for_datasets_and_tests_as_the_study_has_them(changes, same):
    """Pools stay what they are when the study gets other sizes; powers do not."""

    def digest(of: Study) -> str:
        return power_digest(of, one_per_space(of)["a1", 1], SimpleNamespace(digest="pools"))

    assert (digest(study(ALPHAS, **changes)) == digest(study(ALPHAS))) is same


def test_spaces_that_differ_in_their_seed_alone_are_one_setting():
    assert setting_of(LearnedSpace(alpha=1.0, seed=3), 1) == ("", 3)
    kept = LearnedSpace(alpha=5.0, beta=0.5, keep="inputs")
    assert setting_of(kept, 1) == ("beta = 0.5, keep = inputs", 0)
    assert setting_of(LearnedSpace(alpha=0.0), 2) == ("quadratic response", 0)
    turned = LearnedSpace(alpha=0.0, beta=10.0, keep="observables", encoder={"frame": "event"})
    assert setting_of(turned, 1) == ("beta = 10, keep = observables, frame = event", 0)
    assert setting_of(LearnedSpace(alpha=0.0, encoder={}), 1) == ("encoder = default", 0), "not the source's"


@pytest.mark.parametrize("alphas", [{"a": 1.0, "b": 1.0}, {"a": 0.0}])
def test_repeats_of_one_alpha_are_no_frontier(alphas):
    assert make_frontier(study(alphas), {(name, 1): reach(1e3) for name in alphas}) is None
